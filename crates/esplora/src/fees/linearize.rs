//! The order in which nodes from Core 31 on mine a cluster: transactions that are connected by spending. Pure.
//!
//! A cluster is mined in chunks: each is the part with the highest fee rate of what is left, with the parents that it
//! needs. Core searches this order within a budget, which nearly always suffices
//! ([`cluster_linearize.h`](https://github.com/bitcoin/bitcoin/blob/master/src/cluster_linearize.h)). Here a set is cut
//! at its own fee rate, and both parts again, until no part is better than its whole. That is exact, and for 64
//! transactions at most 127 minimum cuts. Ranking by ancestor sets is not exact: it sees one child of a parent at a
//! time, and ten children that pay for one parent together look cheap.

use std::cmp::Ordering;

use bitcoin::Txid;

use super::members::{CLUSTER_MAX, Member, Rate, Set, bits};
use super::min_cut::Network;

/// Transactions that are mined together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Their indexes, in the order of mining.
    pub(super) members: Vec<usize>,
    pub(super) rate: Rate,
}

/// Returns the chunks of a cluster of at most [`CLUSTER_MAX`] members, the first one first.
pub(super) fn chunks(network: &mut Network, members: &[Member]) -> Vec<Chunk> {
    let (mut found, mut open) = (Vec::new(), vec![Set::MAX >> (CLUSTER_MAX - members.len())]);
    while let Some(set) = open.pop() {
        if set.is_power_of_two() {
            found.push(chunk(members, set));
        } else if let Some(best) = network.best_part(members, set) {
            open.extend([set & !best, best]);
        } else {
            in_order(members, network.equal_parts(members, set), &mut found);
        }
    }
    found
}

/// Adds parts with one rate: parents first, then the smallest first, then by their highest txids.
fn in_order(members: &[Member], mut parts: Vec<Set>, found: &mut Vec<Chunk>) {
    parts.sort_by_cached_key(|part| {
        let last = bits(*part).map(|at| members[at].txid).max();
        (Rate::of(members, *part).size, last)
    });
    let mut open = parts.iter().fold(0, |all, part| all | part);
    while !parts.is_empty() {
        let needs = |part: Set| bits(part).fold(0, |all, at| all | members[at].parents) & !part;
        let ready = parts.iter().position(|part| needs(*part) & open == 0).expect("parts form no circle");
        let part = parts.remove(ready);
        open &= !part;
        found.push(chunk(members, part));
    }
}

/// Orders the members of a chunk: parents first, then by fee rate, then the smallest first, then by txid.
fn chunk(members: &[Member], set: Set) -> Chunk {
    let (mut order, mut open) = (Vec::with_capacity(set.count_ones() as usize), set);
    while open != 0 {
        let ready = bits(open).filter(|at| members[*at].parents & open == 0);
        let best = ready.min_by(|left, right| {
            let (left, right) = (&members[*left], &members[*right]);
            let by_rate = right.rate.compare(left.rate);
            by_rate.then((left.rate.size, left.txid).cmp(&(right.rate.size, right.txid)))
        });
        let best = best.expect("spending forms no circle");
        order.push(best);
        open &= !(1 << best);
    }
    Chunk { members: order, rate: Rate::of(members, set) }
}

/// Returns the place of each chunk among those of all clusters, for sorting: by the lowest rate up to the chunk, then
/// by the size of its cluster's chunks with that rate up to it, then by the highest txid. As in Core's `txgraph.cpp`.
pub(super) fn ranks(chunks: &[Chunk], txid: impl Fn(usize) -> Txid) -> Vec<Rank> {
    let mut lowest: Option<Rate> = None;
    let mut prefix = 0;
    let rank = |chunk: &Chunk| {
        if lowest.is_none_or(|lowest| chunk.rate.compare(lowest).is_lt()) {
            (lowest, prefix) = (Some(chunk.rate), 0);
        }
        prefix += chunk.rate.size;
        let last = chunk.members.iter().map(|at| txid(*at)).max().expect("a chunk has a transaction");
        Rank { rate: lowest.unwrap_or(chunk.rate), prefix, last }
    };
    chunks.iter().map(rank).collect()
}

/// Place of a chunk in the order of all; the first is the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rank {
    rate: Rate,
    prefix: u64,
    last: Txid,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_rate = other.rate.compare(self.rate);
        by_rate.then_with(|| (self.prefix, self.last).cmp(&(other.prefix, other.last)))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
