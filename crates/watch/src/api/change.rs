//! Changes of the watched wallets in BWT's six categories, and the difference of two snapshots as such changes.
//!
//! The difference of two states names everything that happened between them, so a reader that missed updates, or comes
//! back after a restart, misses nothing. After its `Reorg` come the changes one by one.

use std::collections::{HashMap, HashSet};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, ResolvedTransaction, Result, ScriptHash, Snapshot};
use bitcoin::{BlockHash, OutPoint, Txid};
use serde_json::{Value, json};

use crate::api::history::{self, Entry};
use crate::api::parts::{self, Spent};

/// A change of the watched wallets. A height is that of the transaction's block, and absent in the mempool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The chain has a new tip.
    ChainTip(BlockId),
    /// The block at this height has changed.
    Reorg { height: u32, before: BlockHash, now: BlockHash },
    /// A transaction is new, or has come into a block, or out of one.
    Transaction { txid: Txid, height: Option<u32> },
    /// A transaction has gone from chain and mempool.
    TransactionReplaced { txid: Txid },
    /// An output pays a watched script.
    TxoFunded { outpoint: OutPoint, scripthash: ScriptHash, value: u64, height: Option<u32> },
    /// An input spends from a watched script.
    TxoSpent { txid: Txid, vin: usize, scripthash: ScriptHash, prevout: OutPoint, height: Option<u32> },
}

impl Change {
    /// Returns its name.
    pub(super) fn category(&self) -> &'static str {
        match self {
            Self::ChainTip(_) => "ChainTip",
            Self::Reorg { .. } => "Reorg",
            Self::Transaction { .. } => "Transaction",
            Self::TransactionReplaced { .. } => "TransactionReplaced",
            Self::TxoFunded { .. } => "TxoFunded",
            Self::TxoSpent { .. } => "TxoSpent",
        }
    }

    /// Returns the script that it is about.
    pub(super) fn scripthash(&self) -> Option<&ScriptHash> {
        match self {
            Self::TxoFunded { scripthash, .. } | Self::TxoSpent { scripthash, .. } => Some(scripthash),
            _ => None,
        }
    }

    /// Returns the output that is made or spent.
    pub(super) fn outpoint(&self) -> Option<&OutPoint> {
        match self {
            Self::TxoFunded { outpoint, .. } => Some(outpoint),
            Self::TxoSpent { prevout, .. } => Some(prevout),
            _ => None,
        }
    }

    /// Returns it as BWT writes it.
    pub(super) fn to_json(&self) -> Value {
        let params = match self {
            Self::ChainTip(block) => json!([block.height.0, block.hash.to_string()]),
            Self::Reorg { height, before, now } => json!([height, before.to_string(), now.to_string()]),
            Self::Transaction { txid, height } => json!([txid.to_string(), height]),
            Self::TransactionReplaced { txid } => json!([txid.to_string()]),
            Self::TxoFunded { outpoint, scripthash, value, height } => {
                json!([outpoint.to_string(), scripthash.to_string(), value, height])
            }
            Self::TxoSpent { txid, vin, scripthash, prevout, height } => {
                json!([format!("{txid}:{vin}"), scripthash.to_string(), prevout.to_string(), height])
            }
        };
        json!({ "category": self.category(), "params": params })
    }
}

/// Returns the changes that a transaction makes to watched scripts.
pub(super) fn of_transaction(
    at: &Snapshot,
    found: &ResolvedTransaction,
    is_watched: &dyn Fn(&ScriptHash) -> bool,
) -> Result<Vec<Change>> {
    let (txid, height) = (found.txid, found.block.map(|block| block.height.0));
    let mut changes = vec![Change::Transaction { txid, height }];
    for (vout, output) in (0..).zip(&found.transaction.output) {
        let scripthash = ScriptHash::of(output.script_pubkey.as_bytes());
        if is_watched(&scripthash) {
            let outpoint = OutPoint { txid, vout };
            changes.push(Change::TxoFunded { outpoint, scripthash, value: output.value.to_sat(), height });
        }
    }
    for Spent { vin, prevout, scripthash, .. } in parts::inputs(at, found)? {
        if is_watched(&scripthash) {
            changes.push(Change::TxoSpent { txid, vin, scripthash, prevout, height });
        }
    }
    Ok(changes)
}

/// The difference of two snapshots, still without the parts of its transactions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Difference {
    pub(super) reorg: Option<Change>,
    pub(super) gone: Vec<Txid>,
    pub(super) changed: Vec<Entry>,
    pub(super) tip: Option<BlockId>,
}

/// The scripts about which two snapshots are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scripts<'a> {
    /// Those that were watched at the first snapshot, too.
    pub(super) watched: &'a [ScriptHash],
    /// Those that were found since: all of their transactions are new.
    pub(super) found: &'a [ScriptHash],
}

/// Compares two snapshots about some scripts.
pub(super) fn difference(before: &Snapshot, now: &Snapshot, scripts: Scripts<'_>) -> Result<Difference> {
    let (old_tip, new_tip) = (before.tip(), now.tip());
    let is_reorg = now.block_hash(old_tip.height) != Some(old_tip.hash);
    let fork = if is_reorg { last_common(before, now) } else { old_tip.height };
    let from = Height(fork.0 + 1);
    let of_found = history::entries(now, scripts.found, Height(0))?;
    let is_found: HashSet<Txid> = of_found.iter().map(|entry| entry.txid).collect();
    let mut known: HashMap<Txid, Entry> =
        history::entries(before, scripts.watched, from)?.into_iter().map(|entry| (entry.txid, entry)).collect();
    // In the order of the chain: first what is older than both snapshots' difference.
    let is_older = |entry: &Entry| entry.height().is_some_and(|height| height < from.0);
    let mut changed: Vec<Entry> = of_found.into_iter().filter(is_older).collect();
    for entry in history::entries(now, &[scripts.watched, scripts.found].concat(), from)? {
        if known.remove(&entry.txid) != Some(entry) || is_found.contains(&entry.txid) {
            changed.push(entry);
        }
    }
    let mut gone: Vec<Txid> = known.into_keys().collect();
    gone.sort_unstable();
    Ok(Difference {
        reorg: is_reorg.then(|| reorg(before, now, fork)).flatten(),
        gone,
        changed,
        tip: Some(new_tip).filter(|tip| *tip != old_tip),
    })
}

/// Names a reorg by the height of the old tip, or of the new one if that is lower; a chain that only lost blocks, by
/// the first of them and by what is the tip now.
fn reorg(before: &Snapshot, now: &Snapshot, fork: Height) -> Option<Change> {
    let (old_tip, new_tip) = (before.tip().height, now.tip());
    let height = old_tip.min(new_tip.height).max(Height(fork.0 + 1));
    let new = now.block_hash(height).unwrap_or(new_tip.hash);
    Some(Change::Reorg { height: height.0, before: before.block_hash(height)?, now: new })
}

/// Returns the highest block that both have. Blocks below one that both have are the same, too.
fn last_common(before: &Snapshot, now: &Snapshot) -> Height {
    let (mut same, mut differs) = (0, before.tip().height.0.min(now.tip().height.0) + 1);
    while differs - same > 1 {
        let middle = same + (differs - same) / 2;
        let is_same = before.block_hash(Height(middle)) == now.block_hash(Height(middle));
        if is_same { same = middle } else { differs = middle }
    }
    Height(same)
}
