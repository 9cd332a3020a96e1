//! The blocks that miners would make of the mempool now. Pure.
//!
//! A transaction brings its unconfirmed ancestors along, so it is ranked by the fee rate of them together; the best one
//! is taken with its ancestors, and its descendants are ranked anew without them.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use birdhouse_chain::Mempool;
use bitcoin::Txid;

/// Virtual bytes of a block.
const BLOCK_VBYTES: u64 = 1_000_000;
/// Projected blocks; the last one has all the rest.
pub(crate) const BLOCKS_MAX: usize = 8;
/// Percentiles of a block's fee rates, by virtual bytes.
pub(super) const PERCENTILES: [u64; 7] = [0, 10, 25, 50, 75, 90, 100];

/// A transaction that a block may have.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidate {
    /// Virtual bytes, by which nodes rank it.
    pub(crate) vsize: u64,
    /// In satoshis.
    pub(crate) fee: u64,
    /// Its bytes with witness.
    pub(super) bytes: u64,
    /// Candidates that it spends from, by index.
    pub(super) parents: Vec<usize>,
}

/// A block that miners would make.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectedBlock {
    /// Bytes of its transactions, with witness.
    pub bytes: u64,
    /// Their virtual bytes.
    pub vsize: u64,
    /// Their number.
    pub transactions: usize,
    /// Their fees in satoshis.
    pub fees: u64,
    /// Fee rates in sat/vB, ascending: the lowest, percentiles, the highest.
    pub rates: [f64; 7],
}

/// The place of a transaction in projected blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Place {
    /// Index of the block.
    pub block: usize,
    /// Virtual bytes before it in all blocks.
    pub vbytes_before: u64,
    /// The fee rate at which it is taken, together with its ancestors, in sat/vB.
    pub rate: f64,
}

impl ProjectedBlock {
    /// The fee rate in its middle, by virtual bytes.
    pub fn median(&self) -> f64 {
        self.rates[3]
    }
}

/// Fees over virtual bytes of several transactions, ordered by their quotient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rate {
    fee: u64,
    vsize: u64,
}

impl Rate {
    #[expect(clippy::cast_precision_loss, reason = "fees and sizes of a mempool are far below 2^52")]
    fn sat_vb(self) -> f64 {
        self.fee as f64 / self.vsize.max(1) as f64
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |fee: u64, vsize: u64| u128::from(fee) * u128::from(vsize);
        product(self.fee, other.vsize).cmp(&product(other.fee, self.vsize))
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the transactions of a mempool as candidates.
pub(super) fn candidates(mempool: &Mempool) -> Vec<Candidate> {
    let all: Vec<_> = mempool.transactions().collect();
    let index: HashMap<Txid, usize> = all.iter().enumerate().map(|(at, found)| (found.txid, at)).collect();
    let candidate = |found: &&std::sync::Arc<birdhouse_chain::MempoolTransaction>| {
        let mut parents: Vec<usize> = mempool.parents(found).filter_map(|txid| index.get(&txid).copied()).collect();
        parents.sort_unstable();
        parents.dedup();
        Candidate { vsize: found.adjusted_vsize(), fee: found.fee, bytes: found.raw.len() as u64, parents }
    };
    all.iter().map(candidate).collect()
}

/// Projects the next blocks, the best first, and the place of each candidate.
pub(super) fn project(candidates: &[Candidate]) -> (Vec<ProjectedBlock>, Vec<Place>) {
    let mut places = vec![Place::default(); candidates.len()];
    let mut vbytes_before = 0;
    let mut selection = Selection::new(candidates);
    let mut blocks: Vec<(ProjectedBlock, Vec<(f64, u64)>)> = Vec::new();
    while let Some((rate, package)) = selection.next() {
        let vsize: u64 = package.iter().map(|at| candidates[*at].vsize).sum();
        let is_full = blocks.last().is_none_or(|(block, _)| block.vsize + vsize > BLOCK_VBYTES);
        if is_full && blocks.len() < BLOCKS_MAX {
            blocks.push(Default::default());
        }
        let index = blocks.len() - 1;
        let (block, rates) = &mut blocks[index];
        for at in package {
            let candidate = &candidates[at];
            places[at] = Place { block: index, vbytes_before, rate: rate.sat_vb() };
            vbytes_before += candidate.vsize;
            block.bytes += candidate.bytes;
            block.vsize += candidate.vsize;
            block.transactions += 1;
            block.fees += candidate.fee;
            rates.push((rate.sat_vb(), candidate.vsize));
        }
    }
    let finish = |(mut block, mut rates): (ProjectedBlock, Vec<(f64, u64)>)| {
        rates.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        block.rates = PERCENTILES.map(|percent| rate_at(&rates, block.vsize * percent / 100));
        block
    };
    (blocks.into_iter().map(finish).collect(), places)
}

/// The fee rate of the transaction at an offset into ascending ones.
pub(super) fn rate_at(rates: &[(f64, u64)], offset: u64) -> f64 {
    let mut end = 0;
    let found = rates.iter().find(|(_, vsize)| {
        end += vsize;
        end > offset
    });
    found.or(rates.last()).map_or(0.0, |(rate, _)| *rate)
}

/// The candidates that are left, ranked.
struct Selection<'a> {
    candidates: &'a [Candidate],
    /// Ancestors of each, itself included, parents before children.
    packages: Vec<Vec<usize>>,
    descendants: Vec<Vec<usize>>,
    /// Sums over the ancestors that are left.
    sums: Vec<Rate>,
    is_taken: Vec<bool>,
    heap: BinaryHeap<(Rate, std::cmp::Reverse<usize>)>,
}

impl<'a> Selection<'a> {
    fn new(candidates: &'a [Candidate]) -> Self {
        let packages: Vec<Vec<usize>> = (0..candidates.len()).map(|at| with_ancestors(candidates, at)).collect();
        let mut descendants = vec![Vec::new(); candidates.len()];
        for (at, package) in packages.iter().enumerate() {
            for ancestor in package.iter().filter(|ancestor| **ancestor != at) {
                descendants[*ancestor].push(at);
            }
        }
        let sum = |package: &Vec<usize>| {
            let (fee, vsize) = package
                .iter()
                .fold((0, 0), |(fee, vsize), at| (fee + candidates[*at].fee, vsize + candidates[*at].vsize));
            Rate { fee, vsize }
        };
        let sums: Vec<Rate> = packages.iter().map(sum).collect();
        let heap = sums.iter().enumerate().map(|(at, rate)| (*rate, std::cmp::Reverse(at))).collect();
        Self { candidates, packages, descendants, sums, is_taken: vec![false; candidates.len()], heap }
    }

    /// Takes the best candidate with its ancestors.
    fn next(&mut self) -> Option<(Rate, Vec<usize>)> {
        loop {
            let (rate, std::cmp::Reverse(at)) = self.heap.pop()?;
            // Of several entries of one candidate, only the one with its present sum counts.
            if self.is_taken[at] || self.sums[at] != rate {
                continue;
            }
            let package: Vec<usize> = self.packages[at].iter().copied().filter(|one| !self.is_taken[*one]).collect();
            for taken in &package {
                self.is_taken[*taken] = true;
                for descendant in &self.descendants[*taken] {
                    self.sums[*descendant].fee -= self.candidates[*taken].fee;
                    self.sums[*descendant].vsize -= self.candidates[*taken].vsize;
                }
            }
            for descendant in package.iter().flat_map(|taken| &self.descendants[*taken]) {
                if !self.is_taken[*descendant] {
                    self.heap.push((self.sums[*descendant], std::cmp::Reverse(*descendant)));
                }
            }
            return Some((rate, package));
        }
    }
}

/// A candidate behind its ancestors, each once, parents before children.
fn with_ancestors(candidates: &[Candidate], at: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut open = vec![(at, false)];
    while let Some((at, has_parents)) = open.pop() {
        if found.contains(&at) {
            continue;
        }
        if has_parents {
            found.push(at);
        } else {
            open.push((at, true));
            open.extend(candidates[at].parents.iter().map(|parent| (*parent, false)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(fee: u64, vsize: u64, parents: &[usize]) -> Candidate {
        Candidate { fee, vsize, bytes: vsize, parents: parents.to_vec() }
    }

    #[test]
    fn a_child_that_pays_for_its_parent_brings_it_along() {
        let all =
            [candidate(100, 600_000, &[]), candidate(9_000_000, 300_000, &[0]), candidate(2_000_000, 500_000, &[])];
        let (blocks, places) = project(&all);
        assert_eq!(places.iter().map(|place| place.block).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(places.iter().map(|place| place.vbytes_before).collect::<Vec<_>>(), [0, 600_000, 900_000]);
        assert_eq!(blocks.iter().map(|block| block.transactions).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((blocks[0].vsize, blocks[0].fees), (900_000, 9_000_100));
        assert_eq!((blocks[0].rates[0], blocks[1].rates), (9_000_100.0 / 900_000.0, [4.0; 7]));
    }

    #[test]
    fn a_parent_that_pays_more_goes_first_and_its_child_is_ranked_without_it() {
        let all =
            [candidate(10_000_000, 900_000, &[]), candidate(200_000, 200_000, &[0]), candidate(600_000, 200_000, &[])];
        let (blocks, _) = project(&all);
        assert_eq!(blocks.iter().map(|block| block.fees).collect::<Vec<_>>(), [10_000_000, 800_000]);
        assert_eq!((blocks[1].rates[0], blocks[1].rates[6]), (1.0, 3.0));
    }

    #[test]
    fn every_transaction_is_in_one_block_and_the_last_block_has_the_rest() {
        let all: Vec<Candidate> = (0..1000)
            .map(|at| {
                candidate(
                    at * 1000 + 1,
                    20_000,
                    &if at % 3 == 1 { vec![usize::try_from(at - 1).expect("small")] } else { vec![] },
                )
            })
            .collect();
        let (blocks, _) = project(&all);
        assert_eq!(blocks.len(), BLOCKS_MAX);
        assert_eq!(blocks.iter().map(|block| block.transactions).sum::<usize>(), all.len());
        assert_eq!(blocks.iter().map(|block| block.fees).sum::<u64>(), all.iter().map(|one| one.fee).sum::<u64>());
        assert!(blocks.is_sorted_by(|left, right| left.rates[6] >= right.rates[6]));
        assert!(blocks[7].vsize > BLOCK_VBYTES && blocks[..7].iter().all(|block| block.vsize <= BLOCK_VBYTES));
        assert!(project(&[]).0.is_empty());
    }
}
