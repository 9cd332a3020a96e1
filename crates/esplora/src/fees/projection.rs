//! The blocks that miners would make of the mempool now. Pure.
//!
//! Each cluster is put in order by itself: by chunks for nodes from Core 31 on (`getmempoolinfo` names a limit of
//! clusters), by ancestor sets before. Blocks take the best of what all clusters offer next, as Core's
//! [`miner.cpp`](https://github.com/bitcoin/bitcoin/blob/master/src/node/miner.cpp) does: a chunk without room in a
//! block is left for the next one with all that follows it in its cluster.

use std::collections::{HashMap, HashSet};

use birdhouse_chain::{Mempool, MempoolTransaction, Ranking};
use bitcoin::Txid;

use super::ancestors::packages;
use super::linearize::{Chunk, Rank, chunks, ranks};
use super::members::{CLUSTER_MAX, Member, Rate, Set};
use super::min_cut::Network;

/// Weight units of a block, and of them those for its header and coinbase.
const BLOCK_WEIGHT: u64 = 4_000_000;
const BLOCK_RESERVED_WEIGHT: u64 = 8_000;
/// Cost of signature operations of a block, and of it that of its coinbase.
const BLOCK_SIGOPS: u64 = 80_000;
const BLOCK_RESERVED_SIGOPS: u64 = 400;
/// Chunks in a row without room after which a block is full, if it lacks less than this weight.
const FAILURES_MAX: usize = 1000;
const FULL_ENOUGH_WEIGHT: u64 = 4_000;
/// Projected blocks; the last one has all the rest.
pub(crate) const BLOCKS_MAX: usize = 8;
/// Percentiles of a block's fee rates, by virtual bytes.
pub(super) const PERCENTILES: [u64; 7] = [0, 10, 25, 50, 75, 90, 100];

/// A transaction that a block may have.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) txid: Txid,
    /// Fee and size by which nodes rank it.
    pub(super) rate: Rate,
    /// Its weight without regard to its signature operations.
    pub(super) weight: u64,
    pub(super) sigops: u64,
    /// In satoshis.
    pub(super) fee: u64,
    /// Its bytes with witness.
    pub(super) bytes: u64,
    /// Candidates that it spends from, by index.
    pub(super) parents: Vec<usize>,
}

/// Projected blocks, the best first.
#[derive(Debug, Default)]
pub(super) struct Projected {
    pub(super) blocks: Vec<ProjectedBlock>,
    /// The candidates of each block by index, in the order of mining.
    pub(super) order: Vec<Vec<usize>>,
    /// The place of each candidate.
    pub(super) places: Vec<Place>,
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
    /// The fee rate at which it is mined, in sat/vB: that of the transactions with which it is mined.
    pub rate: f64,
}

impl ProjectedBlock {
    /// The fee rate in its middle, by virtual bytes.
    pub fn median(&self) -> f64 {
        self.rates[3]
    }
}

impl Candidate {
    /// Returns a transaction as a candidate, without its parents.
    pub(super) fn of(mempool: &Mempool, found: &MempoolTransaction) -> Self {
        let rules = mempool.rules();
        let delta = rules.fee_deltas.get(&found.txid).copied().unwrap_or_default();
        let size = match rules.ranking {
            Ranking::Chunks => found.adjusted_weight(),
            Ranking::Ancestors => found.adjusted_vsize() * 4,
        };
        let fee = i64::try_from(found.fee).unwrap_or(i64::MAX).saturating_add(delta);
        Self {
            txid: found.txid,
            rate: Rate { fee, size },
            weight: found.weight,
            sigops: found.sigops,
            fee: found.fee,
            bytes: found.raw.len() as u64,
            parents: Vec::new(),
        }
    }

    fn vsize(&self) -> u64 {
        self.rate.size.div_ceil(4)
    }
}

/// Returns the transactions of a mempool as candidates.
pub(super) fn candidates(mempool: &Mempool) -> Vec<Candidate> {
    let index: HashMap<Txid, usize> = mempool.txids().copied().enumerate().map(|(at, txid)| (txid, at)).collect();
    let candidate = |txid: &Txid| {
        let found = mempool.get(txid).expect("the mempool lists it");
        let mut parents: Vec<usize> =
            found.spent_outpoints().filter_map(|outpoint| index.get(&outpoint.txid).copied()).collect();
        parents.sort_unstable();
        parents.dedup();
        Candidate { parents, ..Candidate::of(mempool, found) }
    };
    mempool.txids().map(candidate).collect()
}

/// Returns the chunks of connected candidates, given by their indexes, in the order of mining.
pub(super) fn linearized(network: &mut Network, all: &[Candidate], cluster: &[usize], ranking: Ranking) -> Vec<Chunk> {
    if let [at] = cluster {
        return vec![Chunk { members: vec![*at], rate: all[*at].rate }];
    }
    let local: HashMap<usize, usize> = cluster.iter().enumerate().map(|(local, at)| (*at, local)).collect();
    let parents = |at: &usize| all[*at].parents.iter().map(|parent| local[parent]).collect::<Vec<usize>>();
    let found = if ranking == Ranking::Chunks && cluster.len() <= CLUSTER_MAX {
        let member = |at: &usize| Member {
            txid: all[*at].txid,
            rate: all[*at].rate,
            parents: parents(at).iter().fold(0, |set: Set, parent| set | 1 << parent),
        };
        chunks(network, &cluster.iter().map(member).collect::<Vec<_>>())
    } else {
        // No node has a larger cluster; the mirror may see one while it fetches.
        let rates = cluster.iter().map(|at| all[*at].rate).collect();
        packages(rates, &cluster.iter().map(parents).collect::<Vec<_>>())
    };
    let global = |chunk: Chunk| Chunk { members: chunk.members.iter().map(|local| cluster[*local]).collect(), ..chunk };
    found.into_iter().map(global).collect()
}

/// Returns the clusters of candidates: those that are connected by spending.
fn clusters(all: &[Candidate]) -> Vec<Vec<usize>> {
    let mut root: Vec<usize> = (0..all.len()).collect();
    for (at, candidate) in all.iter().enumerate() {
        for parent in &candidate.parents {
            let (one, other) = (find(&mut root, at), find(&mut root, *parent));
            root[one.max(other)] = one.min(other);
        }
    }
    // The lowest index of a cluster is its root, so it comes first.
    let (mut found, mut number): (Vec<Vec<usize>>, Vec<usize>) = (Vec::new(), vec![0; all.len()]);
    for at in 0..all.len() {
        let first = find(&mut root, at);
        if first == at {
            number[at] = found.len();
            found.push(vec![at]);
        } else {
            found[number[first]].push(at);
        }
    }
    found
}

/// The root of a cluster; the way to it becomes shorter.
fn find(root: &mut [usize], mut at: usize) -> usize {
    while root[at] != at {
        root[at] = root[root[at]];
        at = root[at];
    }
    at
}

/// A chunk among those of all clusters.
struct Offer {
    rank: Rank,
    cluster: usize,
    chunk: Chunk,
}

/// Projects the next blocks of candidates.
pub(super) fn project(all: &[Candidate], ranking: Ranking) -> Projected {
    let mut network = Network::default();
    let mut offers = Vec::new();
    for (number, cluster) in clusters(all).iter().enumerate() {
        let chunks = linearized(&mut network, all, cluster, ranking);
        let ranks = ranks(&chunks, |at| all[at].txid);
        offers.extend(chunks.into_iter().zip(ranks).map(|(chunk, rank)| Offer { rank, cluster: number, chunk }));
    }
    offers.sort_unstable_by_key(|offer| offer.rank);
    let mut filling = Filling { all, offers: &offers, left: Vec::new(), next: 0 };
    let mut projected = Projected { places: vec![Place::default(); all.len()], ..Projected::default() };
    let mut vbytes_before = 0;
    while let Some(taken) = filling.block(Capacity::of_block(projected.blocks.len())) {
        projected.add(all, taken.iter().map(|at| &offers[*at].chunk), &mut vbytes_before);
    }
    projected
}

/// The offers that one projected block takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capacity {
    /// As many as fit into a block.
    Block,
    /// All: the last projected block stands for the rest.
    Rest,
}

impl Capacity {
    /// The capacity of a block by its index.
    fn of_block(index: usize) -> Self {
        if index + 1 == BLOCKS_MAX { Self::Rest } else { Self::Block }
    }
}

/// Offers that are put into blocks.
struct Filling<'a> {
    all: &'a [Candidate],
    /// The best first.
    offers: &'a [Offer],
    /// Offers that had no room in a block before, the best first.
    left: Vec<usize>,
    /// The first offer that was not looked at.
    next: usize,
}

impl Filling<'_> {
    /// Returns the offers of one more block, by index; `None` if none is left.
    fn block(&mut self, capacity: Capacity) -> Option<Vec<usize>> {
        let mut queue = std::mem::take(&mut self.left).into_iter();
        let (mut weight, mut sigops, mut failures) = (BLOCK_RESERVED_WEIGHT, BLOCK_RESERVED_SIGOPS, 0);
        let (mut taken, mut without_room) = (Vec::new(), HashSet::new());
        while let Some(at) = queue.next().or_else(|| self.unseen()) {
            let Offer { cluster, chunk, .. } = &self.offers[at];
            let more: u64 = chunk.members.iter().map(|at| self.all[*at].sigops).sum();
            let has_room = weight + chunk.rate.size < BLOCK_WEIGHT && sigops + more < BLOCK_SIGOPS;
            if capacity == Capacity::Rest || has_room && !without_room.contains(cluster) {
                weight += chunk.members.iter().map(|at| self.all[*at].weight).sum::<u64>();
                sigops += more;
                failures = 0;
                taken.push(at);
                continue;
            }
            failures += usize::from(without_room.insert(*cluster));
            self.left.push(at);
            if failures > FAILURES_MAX && weight + FULL_ENOUGH_WEIGHT > BLOCK_WEIGHT {
                break;
            }
        }
        self.left.extend(queue);
        if taken.is_empty() && !self.left.is_empty() && capacity == Capacity::Block {
            // Nothing that is left fits into any block.
            return self.block(Capacity::Rest);
        }
        (!taken.is_empty()).then_some(taken)
    }

    fn unseen(&mut self) -> Option<usize> {
        let at = self.next;
        self.next += usize::from(at < self.offers.len());
        (at < self.offers.len()).then_some(at)
    }
}

impl Projected {
    /// Adds a block of these chunks.
    fn add<'a>(&mut self, all: &[Candidate], chunks: impl Iterator<Item = &'a Chunk>, vbytes_before: &mut u64) {
        let (mut block, mut rates, mut order) = (ProjectedBlock::default(), Vec::new(), Vec::new());
        for chunk in chunks {
            let rate = chunk.rate.sat_vb();
            for at in &chunk.members {
                let candidate = &all[*at];
                self.places[*at] = Place { block: self.blocks.len(), vbytes_before: *vbytes_before, rate };
                *vbytes_before += candidate.vsize();
                block.bytes += candidate.bytes;
                block.vsize += candidate.vsize();
                block.transactions += 1;
                block.fees += candidate.fee;
                rates.push((rate, candidate.vsize()));
                order.push(*at);
            }
        }
        rates.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        block.rates = PERCENTILES.map(|percent| rate_at(&rates, block.vsize * percent / 100));
        self.blocks.push(block);
        self.order.push(order);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(fee: u64, vsize: u64, parents: &[usize]) -> Candidate {
        let rate = Rate { fee: i64::try_from(fee).expect("small"), size: 4 * vsize };
        let txid = bitcoin::hashes::Hash::hash(&fee.to_le_bytes());
        Candidate { txid, rate, weight: 4 * vsize, sigops: 0, fee, bytes: vsize, parents: parents.to_vec() }
    }

    #[test]
    fn a_child_that_pays_for_its_parent_brings_it_along() {
        let all =
            [candidate(100, 600_000, &[]), candidate(9_000_000, 300_000, &[0]), candidate(2_000_000, 500_000, &[])];
        let Projected { blocks, places, .. } = project(&all, Ranking::Chunks);
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
        let blocks = project(&all, Ranking::Chunks).blocks;
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
        let blocks = project(&all, Ranking::Chunks).blocks;
        assert_eq!(blocks.len(), BLOCKS_MAX);
        assert_eq!(blocks.iter().map(|block| block.transactions).sum::<usize>(), all.len());
        assert_eq!(blocks.iter().map(|block| block.fees).sum::<u64>(), all.iter().map(|one| one.fee).sum::<u64>());
        assert!(blocks.is_sorted_by(|left, right| left.rates[6] >= right.rates[6]));
        assert!(blocks[7].vsize > BLOCK_WEIGHT / 4 && blocks[..7].iter().all(|block| block.vsize <= BLOCK_WEIGHT / 4));
        assert!(project(&[], Ranking::Ancestors).blocks.is_empty());
    }
}
