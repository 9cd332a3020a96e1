//! Transactions of a tracked script that came, left, or were confirmed between two snapshots.

use std::collections::HashSet;

use birdhouse_chain::{Height, ResolvedTransaction, ScriptHash, Snapshot};
use bitcoin::{Network, Txid};
use serde::{Serialize, Serializer};

use crate::limits::TRACKED_SHOWN;
use crate::wire::{Each, Failure, TransactionJson};
use crate::work::Question;

/// Bytes of JSON for each byte of a transaction and of the outputs that it spends, and for each input and output.
const BYTES_A_BYTE: usize = 6;
const BYTES_A_PART: usize = 400;

/// The transactions of a script that a change touched, at most [`TRACKED_SHOWN`] of each kind.
#[derive(Serialize)]
pub(super) struct Touches<'a> {
    /// New ones in the mempool.
    pub(super) mempool: Listed<'a>,
    /// Those of new blocks.
    pub(super) confirmed: Listed<'a>,
    /// Those that left without having been confirmed.
    pub(super) removed: Listed<'a>,
}

/// Transactions as one snapshot has them.
pub(super) struct Listed<'a> {
    at: &'a Snapshot,
    network: Network,
    found: Vec<ResolvedTransaction>,
}

impl<'a> Touches<'a> {
    /// Compares two snapshots. New blocks begin at `new_from`. Entries are counted before anything is read about them,
    /// and their text has room before it is made.
    pub(super) fn between(
        before: &'a Snapshot,
        at: &'a Snapshot,
        script: &ScriptHash,
        new_from: Option<Height>,
        question: &Question<'_>,
    ) -> Result<Self, Failure> {
        let txids = |at: &Snapshot| at.mempool().txids_of_script(script).collect::<HashSet<Txid>>();
        let (old, new) = (txids(before), txids(at));
        let listed = |at: &'a Snapshot, found: Vec<ResolvedTransaction>| {
            question.room.take(found.iter().map(json_bytes).sum())?;
            Ok::<_, Failure>(Listed { at, network: question.network(), found })
        };
        let resolved = |at: &'a Snapshot, txids: Vec<Txid>| {
            let mut found = Vec::with_capacity(txids.len());
            for txid in txids {
                found.extend(at.resolved(txid)?);
            }
            listed(at, found)
        };
        let added = newest(at, new.difference(&old).copied().collect());
        let mut removed = newest(before, old.difference(&new).copied().collect());
        let mut confirmed = Vec::new();
        if let Some(first) = new_from {
            confirmed = at.newest_since(script, first, TRACKED_SHOWN)?;
            let mut gone = Vec::with_capacity(removed.len());
            for txid in removed {
                if at.transaction_block(txid)?.is_none() {
                    gone.push(txid);
                }
            }
            removed = gone;
        }
        Ok(Self {
            mempool: resolved(at, added)?,
            confirmed: listed(at, confirmed)?,
            removed: resolved(before, removed)?,
        })
    }

    /// True if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.mempool.is_empty() && self.confirmed.is_empty() && self.removed.is_empty()
    }
}

impl Listed<'_> {
    /// True if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shapes = self.found.iter().map(|found| TransactionJson::of(self.at, found, self.network));
        Each::of(shapes).serialize(serializer)
    }
}

/// The length of a transaction's JSON, estimated: each script stands there in hexadecimal and as text.
fn json_bytes(found: &ResolvedTransaction) -> usize {
    let parts = found.transaction.input.len() + found.transaction.output.len();
    BYTES_A_BYTE * found.bytes() + BYTES_A_PART * parts
}

/// The transactions that came last, at most [`TRACKED_SHOWN`], newest first.
fn newest(at: &Snapshot, mut txids: Vec<Txid>) -> Vec<Txid> {
    let first_seen = |txid: &Txid| at.mempool().get(txid).map_or(0, |found| found.first_seen);
    txids.sort_unstable_by_key(|txid| (std::cmp::Reverse(first_seen(txid)), *txid));
    txids.truncate(TRACKED_SHOWN);
    txids
}
