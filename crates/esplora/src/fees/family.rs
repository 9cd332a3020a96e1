//! Unconfirmed relatives of a transaction. Pure.

use std::sync::Arc;

use birdhouse_chain::{Mempool, MempoolTransaction};
use bitcoin::Txid;

use super::members::CLUSTER_MAX;
use super::min_cut::Network;
use super::projection::{Candidate, linearized};

/// Transactions that are connected by spending, in the order in which the node mines them.
#[derive(Debug)]
pub struct Cluster {
    /// The transactions.
    pub transactions: Vec<Arc<MempoolTransaction>>,
    /// Of each, the indexes of those that it spends from.
    pub parents: Vec<Vec<usize>>,
    /// The chunks in which it is mined.
    pub chunks: Vec<ClusterChunk>,
}

/// Transactions that are mined together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterChunk {
    /// The index of the first one; the others follow it.
    pub first: usize,
    /// Their number.
    pub count: usize,
    /// Their fee rate in sat/vB, with what the operator of the node has added to their fees.
    pub rate: f64,
}

impl Cluster {
    /// Returns the cluster of a transaction; `None` if the mempool lacks it, or if its cluster is larger than a node
    /// from Core 31 on allows.
    pub fn of(mempool: &Mempool, txid: Txid) -> Option<Self> {
        let mut found = vec![Arc::clone(mempool.get(&txid)?)];
        let mut next = 0;
        while let Some(one) = found.get(next).cloned() {
            for relative in mempool.parents(&one).chain(mempool.children(&one)) {
                if found.iter().all(|known| known.txid != relative) {
                    found.push(Arc::clone(mempool.get(&relative)?));
                }
                if found.len() > CLUSTER_MAX {
                    return None;
                }
            }
            next += 1;
        }
        Some(Self::in_order(mempool, &found))
    }

    fn in_order(mempool: &Mempool, found: &[Arc<MempoolTransaction>]) -> Self {
        let candidate = |one: &Arc<MempoolTransaction>| Candidate {
            parents: parents_among(mempool, one, found),
            ..Candidate::of(mempool, one)
        };
        let candidates: Vec<Candidate> = found.iter().map(candidate).collect();
        let all: Vec<usize> = (0..found.len()).collect();
        let ordered = linearized(&mut Network::default(), &candidates, &all, mempool.rules().ranking);
        let (mut transactions, mut chunks) = (Vec::new(), Vec::new());
        for chunk in ordered {
            let count = chunk.members.len();
            chunks.push(ClusterChunk { first: transactions.len(), count, rate: chunk.rate.sat_vb() });
            transactions.extend(chunk.members.iter().map(|at| Arc::clone(&found[*at])));
        }
        let parents = transactions.iter().map(|one| parents_among(mempool, one, &transactions)).collect();
        Self { transactions, parents, chunks }
    }

    /// Returns the index of a transaction's chunk.
    pub fn chunk_index(&self, txid: &Txid) -> Option<usize> {
        let at = self.transactions.iter().position(|one| one.txid == *txid)?;
        self.chunks.iter().position(|chunk| (chunk.first..chunk.first + chunk.count).contains(&at))
    }

    /// Returns the fee rate in sat/vB at which a transaction is mined.
    pub fn rate(&self, txid: &Txid) -> Option<f64> {
        Some(self.chunks[self.chunk_index(txid)?].rate)
    }
}

/// The indexes of a transaction's parents among some transactions.
fn parents_among(mempool: &Mempool, one: &MempoolTransaction, all: &[Arc<MempoolTransaction>]) -> Vec<usize> {
    let parents = mempool.parents(one).filter_map(|txid| all.iter().position(|known| known.txid == txid));
    let mut parents: Vec<usize> = parents.collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

/// Returns the unconfirmed transactions from which a transaction spends, directly or not.
pub fn ancestors(mempool: &Mempool, txid: Txid) -> Vec<Arc<MempoolTransaction>> {
    relatives(mempool, txid, |transaction| mempool.parents(transaction).collect())
}

/// Returns the unconfirmed transactions that spend from a transaction, directly or not.
pub fn descendants(mempool: &Mempool, txid: Txid) -> Vec<Arc<MempoolTransaction>> {
    relatives(mempool, txid, |transaction| mempool.children(transaction).collect())
}

/// Transactions that are reached by steps from one, without itself.
fn relatives(
    mempool: &Mempool,
    txid: Txid,
    step: impl Fn(&MempoolTransaction) -> Vec<Txid>,
) -> Vec<Arc<MempoolTransaction>> {
    let mut found: Vec<Arc<MempoolTransaction>> = Vec::new();
    let mut open = vec![txid];
    while let Some(next) = open.pop() {
        let Some(transaction) = mempool.get(&next) else { continue };
        for relative in step(transaction) {
            if relative != txid
                && found.iter().all(|known| known.txid != relative)
                && let Some(known) = mempool.get(&relative)
            {
                found.push(Arc::clone(known));
                open.push(relative);
            }
        }
    }
    found
}
