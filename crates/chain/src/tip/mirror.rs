//! Mirror of the node's mempool: requests to the node, and the changes of a [`Mempool`] by their answers.
//!
//! A listing of all txids is compared with the mirror. Where the node publishes each change, only the changed
//! transactions are fetched. The outputs that a transaction spends are found in the mempool itself or in our own index;
//! at the node only where it has deleted the block that has one.
//!
//! Invariant: a listing, or a transaction that a client asks for, counts only if the node's tip was ours before and
//! afterwards, for its mempool follows its tip. Otherwise a transaction that a block has just confirmed would be in
//! neither, and one of a node that fell behind would spend what our blocks have spent. A node can leave our tip and
//! come back between two questions about it: what it lists right then is shown until the next listing.
//!
//! A large mempool is fetched in parts of about a second. A transaction is shown only with all of its parents, new
//! blocks are applied between two parts, and a final listing completes the mempool. Changes that ZMQ publishes are
//! applied one by one; a gap, a full queue or a new connection leads to a listing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, OutPoint, ScriptBuf, Transaction, TxOut, Txid, consensus};

use crate::block::{output_of, sigop_cost};
use crate::error::Result;
use crate::names::{Hash256, TouchedScripts};
use crate::outside::{MempoolChange, MempoolSize, MiningRules, Node, Ranking};
use crate::state::{Mempool, MempoolTransaction, Pay, Snapshot, Spend};
use crate::tweaks::tweak_of;
use crate::work::parallel;

/// Transactions fetched in one request: 40 MB of hexadecimal digits if all have the largest size.
const FETCH: usize = 50;
/// Transactions that are fetched and resolved at once, by several requests.
const FETCH_AT_ONCE: usize = 8 * FETCH;
/// Time for missing transactions in one poll. Then blocks have their turn.
const SLICE: Duration = Duration::from_secs(1);
/// Time of a listing above which the log recommends ZMQ.
const COSTLY: Duration = Duration::from_millis(100);
/// A mempool of fewer transactions is listed at every poll, which is exact.
const LIST_ALWAYS: usize = 5_000;
/// A larger mempool is listed if its size has changed, or after this many polls without a listing.
const POLLS_SKIPPED_MAX: u32 = 30;
/// Time after which changes that the node publishes are joined by its rules of mining. Every poll reads them.
const RULES_FRESH: Duration = Duration::from_secs(5);
/// After this many batches of published changes a poll checks their result. At most a hundred arrive in a second.
const APPLIED_MAX: u32 = 10_000;

/// State between polls.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    /// The last listing includes the changes with lower numbers.
    sequence: u64,
    /// Polls without a listing since the last one.
    skipped: u32,
    /// Batches of changes applied since the last listing.
    applied: u32,
    /// Duration of the last listing, without that of fetching what was new in it: the next one need not fetch it again.
    cost: Duration,
    /// Txids of a listing that are still to be fetched, in the next polls.
    missing: Vec<Txid>,
    /// Fetched transactions of that listing whose parents are still missing, and the tip at which they were fetched.
    waiting: Vec<Unconfirmed>,
    waiting_at: Option<BlockHash>,
    /// True if a listing has more transactions than one poll fetched, so that the next poll must follow at once.
    is_filling: bool,
    /// True once ZMQ was recommended.
    has_recommended: bool,
    /// The rules by which the node mines, and the time at which they were read.
    rules: Arc<MiningRules>,
    rules_at: Duration,
    /// True if the last listing, with all changes since, equals the node's mempool. Otherwise changes mean nothing.
    is_listed: bool,
}

impl Mirror {
    /// Returns the node's mempool now, for a snapshot with the node's tip; `None` when the node's tip has moved.
    pub(super) fn poll(
        &mut self,
        node: &dyn Node,
        at: &Snapshot,
        touched: &mut TouchedScripts,
    ) -> Result<Option<Mempool>> {
        let Some(size) = node.mempool_size()? else {
            // While the node still loads its saved mempool, ours is the better copy. It has started again, so its
            // changes continue no listing of ours, and their sequence numbers begin anew.
            self.is_listed = false;
            return Ok(Some(at.mempool.clone()));
        };
        self.read_rules(node, size.ranking, at)?;
        let mempool = if self.is_listed && self.may_skip_listing(size, &at.mempool) {
            self.skipped += 1;
            Some(at.mempool.clone())
        } else {
            self.list(node, at, touched)?
        };
        Ok(self.with_rules(mempool))
    }

    /// Reads the rules by which the node mines.
    fn read_rules(&mut self, node: &dyn Node, ranking: Ranking, at: &Snapshot) -> Result<()> {
        let rules = MiningRules { ranking, fee_deltas: node.fee_deltas()? };
        if rules != *self.rules {
            self.rules = Arc::new(rules);
        }
        self.rules_at = at.shared.runtime.now();
        Ok(())
    }

    fn with_rules(&self, mempool: Option<Mempool>) -> Option<Mempool> {
        mempool.map(|mut mempool| {
            mempool.set_rules(&self.rules);
            mempool
        })
    }

    /// Lists the node's mempool. Returns it for a snapshot with the node's tip; `None` when the node's tip has moved.
    pub(super) fn list(
        &mut self,
        node: &dyn Node,
        at: &Snapshot,
        touched: &mut TouchedScripts,
    ) -> Result<Option<Mempool>> {
        let runtime = &*at.shared.runtime;
        let began = runtime.now();
        let mut mempool = at.mempool.clone();
        let mut sequence = None;
        let mut waiting = std::mem::take(&mut self.waiting);
        // A client may have had one admitted meanwhile.
        waiting.retain(|transaction| mempool.get(&transaction.txid).is_none());
        self.missing.retain(|txid| mempool.get(txid).is_none());
        if self.missing.is_empty() || self.waiting_at != Some(at.tip().hash) {
            // Their parents may have been confirmed or rolled back. The listing that ends the filling finds them again.
            waiting.clear();
        }
        self.waiting_at = Some(at.tip().hash);
        if self.missing.is_empty() {
            if !is_at_tip(node, at)? {
                return Ok(None);
            }
            let listed = node.mempool_txids()?;
            let theirs: HashSet<&Txid> = listed.txids.iter().collect();
            let gone: Vec<Txid> = mempool.txids().filter(|txid| !theirs.contains(txid)).copied().collect();
            for txid in &gone {
                mempool.remove(txid, touched);
            }
            self.missing = listed.txids.into_iter().filter(|txid| mempool.get(txid).is_none()).collect();
            sequence = Some(listed.sequence);
        }
        let missing = std::mem::take(&mut self.missing);
        let listed = runtime.now();
        let fetched = add(node, at, &mut mempool, &missing, &mut waiting, began + SLICE, touched)?;
        let fetching = runtime.now().saturating_sub(listed);
        if !is_at_tip(node, at)? {
            return Ok(None);
        }
        self.missing = missing[fetched..].to_vec();
        self.waiting = waiting;
        if sequence.is_some() {
            self.cost = runtime.now().saturating_sub(began + fetching);
        }
        // A part of a mempool has every parent of its transactions, so it can be shown. The next listing completes it.
        self.is_listed = self.missing.is_empty() && sequence.is_some();
        self.is_filling = !self.is_listed;
        if self.is_listed {
            mempool.set_listed();
        }
        (self.sequence, self.skipped, self.applied) = (sequence.unwrap_or(self.sequence), 0, 0);
        Ok(Some(mempool))
    }

    /// Makes the next poll list the node's mempool: ours lacks transactions that no change will announce.
    pub(super) fn list_next(&mut self) {
        self.is_listed = false;
    }

    /// True if the next poll must follow at once.
    pub(super) fn is_filling(&self) -> bool {
        self.is_filling
    }

    /// Duration of the last listing, without its fetches; recommends ZMQ once if that is long.
    pub(super) fn listing_cost(&mut self) -> Duration {
        if self.cost >= COSTLY && !self.has_recommended {
            self.has_recommended = true;
            let cost_ms = self.cost.as_millis();
            tracing::info!(cost_ms, "listing the node's mempool takes long; set zmqpubsequence in bitcoin.conf");
        }
        self.cost
    }

    /// Returns the mempool after these changes; `None` when a poll is needed.
    pub(super) fn apply(
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
        if at.shared.runtime.now() >= self.rules_at + RULES_FRESH {
            self.read_rules(node, self.rules.ranking, at)?;
        }
        let mut mempool = at.mempool.clone();
        mempool.set_rules(&self.rules);
        let (added, removed) = self.net_changes(changes);
        for txid in &removed {
            mempool.remove(txid, touched);
        }
        let new: Vec<Txid> = added.into_iter().filter(|txid| mempool.get(txid).is_none()).collect();
        // A transaction that spends from a block which is not indexed yet is found by the next poll.
        let (mut waiting, until) = (Vec::new(), at.shared.runtime.now() + SLICE);
        let fetched = add(node, at, &mut mempool, &new, &mut waiting, until, touched)?;
        // The news may be older than the node's tip, which may have confirmed elsewhere what it still returns.
        if !new.is_empty() && !is_at_tip(node, at)? {
            return Ok(None);
        }
        self.is_listed = fetched == new.len() && waiting.is_empty();
        Ok(Some(mempool))
    }

    /// Returns the mempool with one more transaction, if the node has it and its parents are known; `None` when the
    /// node's tip has moved.
    pub(super) fn admit(
        &mut self,
        node: &dyn Node,
        at: &Snapshot,
        txid: Txid,
        touched: &mut TouchedScripts,
    ) -> Result<Option<Mempool>> {
        self.applied += 1;
        if !is_at_tip(node, at)? {
            return Ok(None);
        }
        let mut mempool = at.mempool.clone();
        let until = at.shared.runtime.now() + SLICE;
        add(node, at, &mut mempool, &[txid], &mut Vec::new(), until, touched)?;
        // The mempool of another tip may spend what our blocks have spent.
        Ok(is_at_tip(node, at)?.then_some(mempool))
    }

    /// True if a listing may be skipped: the mempool is large, and its size and fees are those of the node's.
    fn may_skip_listing(&self, size: MempoolSize, mempool: &Mempool) -> bool {
        let same = size.transactions == mempool.len() as u64 && size.fees == mempool.fees();
        same && mempool.len() >= LIST_ALWAYS && self.skipped < POLLS_SKIPPED_MAX
    }

    /// Returns the txids added and removed in the end: the last change of each transaction counts. Pure.
    fn net_changes(&self, changes: &[MempoolChange]) -> (Vec<Txid>, Vec<Txid>) {
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

/// True if the node's tip is that of a snapshot.
fn is_at_tip(node: &dyn Node, at: &Snapshot) -> Result<bool> {
    Ok(node.best_block()?.hash == at.tip().hash)
}

/// Fetches transactions until a time and inserts them, except those that have left the node meanwhile. Those whose
/// inputs are unknown go to `waiting`, or come from there. Returns the number of txids that were fetched.
fn add(
    node: &dyn Node,
    at: &Snapshot,
    mempool: &mut Mempool,
    txids: &[Txid],
    waiting: &mut Vec<Unconfirmed>,
    until: Duration,
    touched: &mut TouchedScripts,
) -> Result<usize> {
    let runtime = &*at.shared.runtime;
    let mut fetched = 0;
    for some in txids.chunks(FETCH_AT_ONCE) {
        if fetched > 0 && runtime.now() >= until {
            break;
        }
        let known = &*mempool;
        waiting.extend(parallel::in_chunks(runtime.threads(), some, FETCH, |txids| fetch(node, at, known, txids))?);
        *waiting = insert_resolved(at, mempool, std::mem::take(waiting), touched);
        fetched += some.len();
    }
    // A parent may be listed after its child.
    let mut before = usize::MAX;
    while !waiting.is_empty() && waiting.len() < before {
        before = waiting.len();
        *waiting = insert_resolved(at, mempool, std::mem::take(waiting), touched);
    }
    if !waiting.is_empty() {
        tracing::debug!(transactions = waiting.len(), "found no parents of unconfirmed transactions");
    }
    Ok(fetched)
}

/// Fetches transactions that no block up to the tip confirms, with the outputs in blocks that they spend.
fn fetch(node: &dyn Node, at: &Snapshot, mempool: &Mempool, txids: &[Txid]) -> Result<Vec<Unconfirmed>> {
    let raws = node.mempool_transactions(txids)?.into_iter().flatten();
    // Bytes that cannot be parsed are no transaction; the node will not confirm them either.
    let fetched: Vec<Unconfirmed> = raws.filter_map(|raw| Unconfirmed::parse(raw.into())).collect();
    // A node with a transaction index also returns transactions that a block has just confirmed.
    let txids: Vec<Hash256> = fetched.iter().map(|transaction| transaction.txid.to_byte_array()).collect();
    let confirmed = at.find_txnums(&txids)?;
    let unconfirmed = fetched.into_iter().zip(confirmed).filter(|(_, txnum)| txnum.is_none());
    let mut unconfirmed: Vec<Unconfirmed> = unconfirmed.map(|(transaction, _)| transaction).collect();
    let outpoints: Vec<OutPoint> = unconfirmed.iter().flat_map(Unconfirmed::outpoints).collect();
    let outpoints: Vec<OutPoint> =
        outpoints.into_iter().filter(|outpoint| in_mempool(mempool, outpoint).is_none()).collect();
    let found = at.outputs(&outpoints, node)?.into_iter().map(|output| output.map(InBlock::of));
    let found: HashMap<OutPoint, Option<InBlock>> = outpoints.iter().copied().zip(found).collect();
    for transaction in &mut unconfirmed {
        let in_blocks = |outpoint| Some((outpoint, found.get(&outpoint)?.clone()?));
        transaction.in_blocks = transaction.outpoints().filter_map(in_blocks).collect();
    }
    Ok(unconfirmed)
}

/// A fetched transaction whose inputs are still to be found.
#[derive(Debug)]
struct Unconfirmed {
    txid: Txid,
    raw: Box<[u8]>,
    transaction: Transaction,
    /// Its spent outputs that blocks hold.
    in_blocks: HashMap<OutPoint, InBlock>,
}

/// An output in a block that an unconfirmed transaction spends.
#[derive(Debug, Clone)]
struct InBlock {
    pay: Pay,
    script: ScriptBuf,
}

impl InBlock {
    fn of(output: TxOut) -> Self {
        Self { pay: Pay::of_output(&output), script: output.script_pubkey }
    }
}

impl Unconfirmed {
    fn parse(raw: Box<[u8]>) -> Option<Self> {
        let transaction: Transaction = consensus::deserialize(&raw).ok()?;
        Some(Self { txid: transaction.compute_txid(), raw, transaction, in_blocks: HashMap::new() })
    }

    fn outpoints(&self) -> impl Iterator<Item = OutPoint> {
        self.transaction.input.iter().map(|input| input.previous_output)
    }

    /// Returns the outputs that the transaction spends; `None` if one is neither in a block nor in the mempool.
    fn spends(&self, mempool: &Mempool) -> Option<Box<[Spend]>> {
        let spend = |outpoint: OutPoint| {
            let known = in_mempool(mempool, &outpoint).or_else(|| Some(self.in_blocks.get(&outpoint)?.pay));
            let Pay { scripthash, value, program } = known?;
            Some(Spend { outpoint, scripthash: scripthash?, value, program })
        };
        self.outpoints().map(spend).collect()
    }

    /// Returns its tweak, for an index of silent payments. The outputs that it spends must be known.
    fn tweak(&self, mempool: &Mempool) -> Option<Box<[u8; 33]>> {
        let spent = self.outpoints().map(|outpoint| match self.in_blocks.get(&outpoint) {
            Some(output) => Some(output.script.as_bytes()),
            None => output_of(&mempool.get(&outpoint.txid)?.raw, outpoint.vout).ok()?.map(|(script, _)| script),
        });
        let spent: Vec<&[u8]> = spent.collect::<Option<_>>()?;
        tweak_of(&self.raw, spent.into_iter()).ok()?.map(Box::new)
    }

    /// Adds the outputs that the transaction spends, and the time at which it was first seen.
    fn resolved(self, spends: Box<[Spend]>, first_seen: u64) -> MempoolTransaction {
        let outputs = self.transaction.output.iter();
        let pays: Box<[Pay]> = outputs.map(Pay::of_output).collect();
        let spent: u64 = spends.iter().map(|spend| spend.value).sum();
        let paid: u64 = pays.iter().map(|pay| pay.value).sum();
        let weight = self.transaction.weight();
        let sigops = sigop_cost(&self.transaction, spends.iter().map(|spend| spend.program));
        MempoolTransaction {
            txid: self.txid,
            raw: self.raw,
            fee: spent.saturating_sub(paid),
            vsize: weight.to_vbytes_ceil(),
            weight: weight.to_wu(),
            sigops,
            first_seen,
            is_replaceable: self.transaction.is_explicitly_rbf(),
            spends,
            pays,
            tweak: None,
        }
    }
}

fn in_mempool(mempool: &Mempool, outpoint: &OutPoint) -> Option<Pay> {
    mempool.output(outpoint).copied()
}

/// Inserts the transactions whose inputs are all known, as seen now. Returns the others.
fn insert_resolved(
    at: &Snapshot,
    mempool: &mut Mempool,
    transactions: Vec<Unconfirmed>,
    touched: &mut TouchedScripts,
) -> Vec<Unconfirmed> {
    let (now, has_tweaks) = (at.shared.runtime.unix_time(), at.shared.has_tweaks.load(Ordering::Acquire));
    let mut waiting = Vec::new();
    for transaction in transactions {
        match transaction.spends(mempool) {
            Some(spends) => {
                let tweak = if has_tweaks { transaction.tweak(mempool) } else { None };
                mempool.insert(MempoolTransaction { tweak, ..transaction.resolved(spends, now) }, touched);
            }
            None => waiting.push(transaction),
        }
    }
    waiting
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
        assert_eq!(mirror.net_changes(&changes), (vec![txid(2)], vec![txid(1), txid(4)]));
    }
}
