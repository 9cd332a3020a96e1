//! Mirror of the node's mempool: requests to the node, and the changes of a [`Mempool`] by their answers.
//!
//! A listing of all txids is compared with the mirror. Where the node publishes each change, only the changed
//! transactions are fetched. The outputs that a transaction spends are found in the mempool itself or in our own index,
//! never at the node.
//!
//! Invariant: a listing counts only if the node's tip was ours afterwards too, for its mempool follows its tip.
//! Otherwise a transaction that a block has just confirmed would be in neither.

use std::collections::{HashMap, HashSet};

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Transaction, Txid, consensus};

use crate::block::is_indexed;
use crate::error::Result;
use crate::mempool::{Mempool, MempoolTransaction, Pay, Spend};
use crate::scripthash::ScriptHash;
use crate::sha::Hash256;
use crate::snapshot::Snapshot;
use crate::source::{MempoolChange, MempoolSize, Node};
use crate::touched::TouchedScripts;

/// Transactions fetched in one request: 40 MB of hexadecimal digits if all have the largest size.
const FETCH: usize = 50;
/// A mempool of fewer transactions is listed at every poll, which is exact.
const LIST_ALWAYS: usize = 5_000;
/// A larger mempool is listed if its size has changed, or after this many polls without a listing.
const POLLS_SKIPPED_MAX: u32 = 30;
/// After this many published changes a poll checks their result. At most a hundred batches of changes arrive in a
/// second.
const APPLIED_MAX: u32 = 10_000;

/// State between polls.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    /// The last listing includes the changes with lower numbers.
    sequence: u64,
    /// Polls without a listing since the last one.
    skipped: u32,
    /// Changes applied since the last listing.
    applied: u32,
    /// True if the last listing, with all changes since, equals the node's mempool. Otherwise changes mean nothing.
    is_listed: bool,
}

impl Mirror {
    /// Returns the node's mempool now, for a snapshot with the node's tip; `None` when the node's tip has moved.
    pub(crate) fn poll(
        &mut self,
        node: &dyn Node,
        at: &Snapshot,
        touched: &mut TouchedScripts,
    ) -> Result<Option<Mempool>> {
        // A starting node loads its old mempool bit by bit; ours is nearer to its final state.
        let Some(size) = node.mempool_size()? else { return Ok(Some(at.mempool.clone())) };
        if self.is_listed && self.is_same(size, &at.mempool) {
            self.skipped += 1;
            return Ok(Some(at.mempool.clone()));
        }
        self.list(node, at, touched)
    }

    /// Lists the node's mempool. Returns it for a snapshot with the node's tip; `None` when the node's tip has moved.
    pub(crate) fn list(
        &mut self,
        node: &dyn Node,
        at: &Snapshot,
        touched: &mut TouchedScripts,
    ) -> Result<Option<Mempool>> {
        let mut mempool = at.mempool.clone();
        let listed = node.mempool_txids()?;
        let theirs: HashSet<&Txid> = listed.txids.iter().collect();
        let gone: Vec<Txid> = mempool.txids().filter(|txid| !theirs.contains(txid)).copied().collect();
        for txid in &gone {
            mempool.remove(txid, touched);
        }
        let new: Vec<Txid> = listed.txids.iter().filter(|txid| mempool.get(txid).is_none()).copied().collect();
        add(node, at, &mut mempool, &new, touched)?;
        if node.best_block()?.hash != at.tip().hash {
            return Ok(None);
        }
        *self = Self { sequence: listed.sequence, skipped: 0, applied: 0, is_listed: true };
        Ok(Some(mempool))
    }

    /// Returns the mempool after these changes; `None` when a poll is needed.
    pub(crate) fn apply(
        &mut self,
        node: &dyn Node,
        at: &Snapshot,
        changes: &[MempoolChange],
        touched: &mut TouchedScripts,
    ) -> Result<Option<Mempool>> {
        if !self.is_listed || self.applied >= APPLIED_MAX {
            return Ok(None);
        }
        self.applied += 1;
        let mut mempool = at.mempool.clone();
        let (added, removed) = self.sum(changes);
        for txid in &removed {
            mempool.remove(txid, touched);
        }
        let new: Vec<Txid> = added.into_iter().filter(|txid| mempool.get(txid).is_none()).collect();
        // A transaction that spends from a block which is not indexed yet is found by the next poll.
        self.is_listed = add(node, at, &mut mempool, &new, touched)? == 0;
        Ok(Some(mempool))
    }

    fn is_same(&self, size: MempoolSize, mempool: &Mempool) -> bool {
        let same = size.transactions == mempool.len() as u64 && size.fees == mempool.fees();
        same && mempool.len() >= LIST_ALWAYS && self.skipped < POLLS_SKIPPED_MAX
    }

    /// The txids added and removed in the end: the last change of each transaction counts. Pure.
    fn sum(&self, changes: &[MempoolChange]) -> (Vec<Txid>, Vec<Txid>) {
        let mut last: HashMap<Txid, (usize, MempoolChange)> = HashMap::new();
        for (index, change) in changes.iter().enumerate() {
            match *change {
                MempoolChange::Added(txid) => drop(last.insert(txid, (index, *change))),
                MempoolChange::Removed { txid, sequence } if sequence >= self.sequence => {
                    last.insert(txid, (index, *change));
                }
                MempoolChange::Removed { .. } => {}
            }
        }
        let mut last: Vec<(usize, MempoolChange)> = last.into_values().collect();
        last.sort_unstable_by_key(|(index, _)| *index);
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (_, change) in last {
            match change {
                MempoolChange::Added(txid) => added.push(txid),
                MempoolChange::Removed { txid, .. } => removed.push(txid),
            }
        }
        (added, removed)
    }
}

/// Fetches transactions and inserts them, except those that have left the node meanwhile and those whose inputs are
/// unknown. Returns the number of the latter.
fn add(
    node: &dyn Node,
    at: &Snapshot,
    mempool: &mut Mempool,
    txids: &[Txid],
    touched: &mut TouchedScripts,
) -> Result<usize> {
    let mut waiting = Vec::new();
    for chunk in txids.chunks(FETCH) {
        let raws = node.mempool_transactions(chunk)?.into_iter().flatten();
        // Bytes that cannot be parsed are no transaction; the node will not confirm them either.
        waiting.extend(raws.filter_map(|raw| Unconfirmed::parse(raw.into())));
        waiting = insert_resolved(at, mempool, waiting, touched)?;
    }
    // A parent may be listed after its child.
    let mut before = usize::MAX;
    while !waiting.is_empty() && waiting.len() < before {
        before = waiting.len();
        waiting = insert_resolved(at, mempool, waiting, touched)?;
    }
    if !waiting.is_empty() {
        tracing::debug!(transactions = waiting.len(), "found no parents of unconfirmed transactions");
    }
    Ok(waiting.len())
}

/// A fetched transaction whose inputs are still to be found.
struct Unconfirmed {
    txid: Txid,
    raw: Box<[u8]>,
    transaction: Transaction,
}

impl Unconfirmed {
    fn parse(raw: Box<[u8]>) -> Option<Self> {
        let transaction: Transaction = consensus::deserialize(&raw).ok()?;
        Some(Self { txid: transaction.compute_txid(), raw, transaction })
    }

    fn outpoints(&self) -> impl Iterator<Item = OutPoint> {
        self.transaction.input.iter().map(|input| input.previous_output)
    }

    /// Adds the outputs that the transaction spends.
    ///
    /// # Errors
    /// The transaction itself, if one of these outputs is not `known`.
    fn resolve(self, known: impl Fn(&OutPoint) -> Option<(ScriptHash, u64)>) -> Result<MempoolTransaction, Self> {
        let spend = |outpoint: OutPoint| {
            let (scripthash, value) = known(&outpoint)?;
            Some(Spend { outpoint, scripthash, value })
        };
        let Some(spends) = self.outpoints().map(spend).collect::<Option<Box<[Spend]>>>() else { return Err(self) };
        let pays: Box<[Pay]> = self
            .transaction
            .output
            .iter()
            .map(|output| {
                let script = output.script_pubkey.as_bytes();
                let scripthash = is_indexed(script).then(|| ScriptHash::of(script));
                Pay { scripthash, value: output.value.to_sat() }
            })
            .collect();
        let spent: u64 = spends.iter().map(|spend| spend.value).sum();
        let paid: u64 = pays.iter().map(|pay| pay.value).sum();
        let vsize = self.transaction.vsize() as u64;
        Ok(MempoolTransaction { txid: self.txid, raw: self.raw, fee: spent.saturating_sub(paid), vsize, spends, pays })
    }
}

/// Inserts the transactions whose inputs are all known. Returns the others.
fn insert_resolved(
    at: &Snapshot,
    mempool: &mut Mempool,
    transactions: Vec<Unconfirmed>,
    touched: &mut TouchedScripts,
) -> Result<Vec<Unconfirmed>> {
    // A node with a transaction index also returns transactions that a block has just confirmed.
    let txids: Vec<Hash256> = transactions.iter().map(|transaction| transaction.txid.to_byte_array()).collect();
    let confirmed = at.find_txnums(&txids)?;
    let mut transactions: Vec<Unconfirmed> =
        transactions.into_iter().zip(confirmed).filter(|(_, txnum)| txnum.is_none()).map(|(found, _)| found).collect();
    let in_mempool = |mempool: &Mempool, outpoint: &OutPoint| {
        let pay = mempool.output(outpoint)?;
        Some((pay.scripthash?, pay.value))
    };
    let outpoints: Vec<OutPoint> = transactions
        .iter()
        .flat_map(Unconfirmed::outpoints)
        .filter(|outpoint| in_mempool(mempool, outpoint).is_none())
        .collect();
    let found: HashMap<OutPoint, Option<(ScriptHash, u64)>> =
        outpoints.iter().copied().zip(at.outputs(&outpoints)?).collect();
    let mut waiting = Vec::new();
    for transaction in transactions.drain(..) {
        let known =
            |outpoint: &OutPoint| in_mempool(mempool, outpoint).or_else(|| found.get(outpoint).copied().flatten());
        match transaction.resolve(known) {
            Ok(resolved) => mempool.insert(resolved, touched),
            Err(unresolved) => waiting.push(unresolved),
        }
    }
    Ok(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_transaction_counts_and_old_removals_do_not() {
        let txid = |byte| Txid::from_byte_array([byte; 32]);
        let removed = |byte, sequence| MempoolChange::Removed { txid: txid(byte), sequence };
        let mirror = Mirror { sequence: 10, ..Mirror::default() };
        let changes = [
            MempoolChange::Added(txid(1)),
            removed(1, 11),
            removed(2, 12),
            MempoolChange::Added(txid(2)),
            removed(3, 9),
            removed(4, 10),
        ];
        assert_eq!(mirror.sum(&changes), (vec![txid(2)], vec![txid(1), txid(4)]));
    }
}
