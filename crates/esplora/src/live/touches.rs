//! Transactions of a tracked script that came, left, or were confirmed between two snapshots.

use std::collections::HashSet;

use birdhouse_chain::{Height, Result, ScriptHash, Snapshot};
use bitcoin::{Network, Txid};
use serde::Serialize;

use crate::limits::TRACKED_SHOWN;
use crate::shapes::TransactionJson;

/// The transactions of a script that a change touched, at most [`TRACKED_SHOWN`] of each kind.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Touches {
    /// New ones in the mempool.
    pub(crate) mempool: Vec<TransactionJson>,
    /// Those of new blocks.
    pub(crate) confirmed: Vec<TransactionJson>,
    /// Those that left without having been confirmed.
    pub(crate) removed: Vec<TransactionJson>,
}

impl Touches {
    /// Compares two snapshots. New blocks begin at `first`. Entries are counted before anything is read about them.
    pub(crate) fn between(
        (before, at): (&Snapshot, &Snapshot),
        script: &ScriptHash,
        first: Option<Height>,
        network: Network,
    ) -> Result<Self> {
        let txids = |at: &Snapshot| at.mempool().txids_of_script(script).collect::<HashSet<Txid>>();
        let (old, new) = (txids(before), txids(at));
        let resolved = |at: &Snapshot, txids: Vec<Txid>| -> Result<Vec<TransactionJson>> {
            let found = txids.into_iter().map(|txid| at.resolved(txid));
            let found = found.collect::<Result<Vec<_>>>()?;
            Ok(found.iter().flatten().map(|found| TransactionJson::of(at, found, network)).collect())
        };
        let added = newest(at, new.difference(&old).copied().collect());
        let mut removed = newest(before, old.difference(&new).copied().collect());
        let mut confirmed = Vec::new();
        if let Some(first) = first {
            let found = at.newest_since(script, first, TRACKED_SHOWN)?;
            confirmed = found.iter().map(|found| TransactionJson::of(at, found, network)).collect();
            let mut gone = Vec::with_capacity(removed.len());
            for txid in removed {
                if at.transaction_block(txid)?.is_none() {
                    gone.push(txid);
                }
            }
            removed = gone;
        }
        Ok(Self { mempool: resolved(at, added)?, confirmed, removed: resolved(before, removed)? })
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.mempool.is_empty() && self.confirmed.is_empty() && self.removed.is_empty()
    }
}

/// The transactions that came last, at most [`TRACKED_SHOWN`], newest first.
fn newest(at: &Snapshot, mut txids: Vec<Txid>) -> Vec<Txid> {
    let first_seen = |txid: &Txid| at.mempool().get(txid).map_or(0, |found| found.first_seen);
    txids.sort_unstable_by_key(|txid| (std::cmp::Reverse(first_seen(txid)), *txid));
    txids.truncate(TRACKED_SHOWN);
    txids
}
