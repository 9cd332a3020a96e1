//! The order in which nodes before Core 31 mine: by sets of ancestors. Pure.
//!
//! A transaction brings its unconfirmed ancestors along, so it is ranked by the fee rate of them together; the best one
//! is taken with its ancestors, and its descendants are ranked anew without them.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};

use super::linearize::Chunk;
use super::members::Rate;

/// The transactions that are left, ranked.
struct Selection {
    rates: Vec<Rate>,
    /// Ancestors of each, itself included, parents before children.
    packages: Vec<Vec<usize>>,
    descendants: Vec<Vec<usize>>,
    /// Sums over the ancestors that are left.
    sums: Vec<Rate>,
    is_taken: Vec<bool>,
    heap: BinaryHeap<Ranked>,
}

/// The best is the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ranked {
    rate: Rate,
    at: Reverse<usize>,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rate.compare(other.rate).then(self.at.cmp(&other.at))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the packages of connected transactions, the first one first; `parents` has the indexes of each one's
/// parents.
pub(super) fn packages(rates: Vec<Rate>, parents: &[Vec<usize>]) -> Vec<Chunk> {
    let mut selection = Selection::new(rates, parents);
    std::iter::from_fn(|| selection.next()).collect()
}

impl Selection {
    fn new(rates: Vec<Rate>, parents: &[Vec<usize>]) -> Self {
        let packages: Vec<Vec<usize>> = (0..rates.len()).map(|at| with_ancestors(parents, at)).collect();
        let mut descendants = vec![Vec::new(); rates.len()];
        for (at, package) in packages.iter().enumerate() {
            for ancestor in package.iter().filter(|ancestor| **ancestor != at) {
                descendants[*ancestor].push(at);
            }
        }
        let sum = |package: &Vec<usize>| package.iter().fold(Rate::default(), |sum, at| sum.plus(rates[*at]));
        let sums: Vec<Rate> = packages.iter().map(sum).collect();
        let heap = sums.iter().enumerate().map(|(at, rate)| Ranked { rate: *rate, at: Reverse(at) }).collect();
        Self { is_taken: vec![false; rates.len()], rates, packages, descendants, sums, heap }
    }

    /// Takes the best transaction with its ancestors.
    fn next(&mut self) -> Option<Chunk> {
        loop {
            let Ranked { rate, at: Reverse(at) } = self.heap.pop()?;
            // Of several entries of one transaction, only the one with its present sum counts.
            if self.is_taken[at] || self.sums[at] != rate {
                continue;
            }
            let members: Vec<usize> = self.packages[at].iter().copied().filter(|one| !self.is_taken[*one]).collect();
            for taken in &members {
                self.is_taken[*taken] = true;
                for descendant in &self.descendants[*taken] {
                    self.sums[*descendant].fee -= self.rates[*taken].fee;
                    self.sums[*descendant].size -= self.rates[*taken].size;
                }
            }
            for descendant in members.iter().flat_map(|taken| &self.descendants[*taken]) {
                if !self.is_taken[*descendant] {
                    self.heap.push(Ranked { rate: self.sums[*descendant], at: Reverse(*descendant) });
                }
            }
            return Some(Chunk { members, rate });
        }
    }
}

/// A transaction behind its ancestors, each once, parents before children.
fn with_ancestors(parents: &[Vec<usize>], at: usize) -> Vec<usize> {
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let mut open = vec![(at, false)];
    while let Some((at, has_parents)) = open.pop() {
        if has_parents {
            if known.insert(at) {
                found.push(at);
            }
        } else if !known.contains(&at) {
            open.push((at, true));
            open.extend(parents[at].iter().map(|parent| (*parent, false)));
        }
    }
    found
}
