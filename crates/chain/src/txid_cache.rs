//! Transactions that histories have listed: who asks for a history asks for its transactions next.
//!
//! Holds for one tip, so there is nothing to take back: at another tip a txid may name another transaction (a reorg, or
//! a coinbase transaction like an old one, BIP 30), and everything is forgotten. A tip is named by the first txnum after it
//! and not by its hash: a block that left the chain and came back has other txnums.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bitcoin::hashes::Hash as _;

use crate::answer::HistoryEntry;
use crate::sha::Hash256;
use crate::txnum::TxNum;

/// Transactions that are remembered, at about 60 bytes. At the bound all are forgotten.
const NAMED_MAX: usize = 1 << 17;
/// Longer histories are not asked for transaction by transaction.
const HISTORY_MAX: usize = 1000;

/// Txnums by txid, shared by all who ask.
#[derive(Debug, Default)]
pub(crate) struct TxidCache {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The first txnum after the tip at which they hold; `None` before the first.
    end: Option<TxNum>,
    txnums: HashMap<Hash256, TxNum>,
}

impl TxidCache {
    /// Remembers a whole history at a tip, ascending: of several transactions with one txid the last.
    pub(crate) fn remember(&self, end: TxNum, history: &[HistoryEntry], txnums: &[TxNum]) {
        if history.len() > HISTORY_MAX {
            return;
        }
        let mut state = self.state();
        if state.end != Some(end) || state.txnums.len() + history.len() > NAMED_MAX {
            state.end = Some(end);
            state.txnums.clear();
        }
        let txids = history.iter().map(|entry| entry.txid.to_byte_array());
        state.txnums.extend(txids.zip(txnums.iter().copied()));
    }

    pub(crate) fn find(&self, end: TxNum, txid: &Hash256) -> Option<TxNum> {
        let state = self.state();
        if state.end == Some(end) { state.txnums.get(txid).copied() } else { None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic between two steps leaves fewer transactions, and none that is wrong: the end is set before any is added.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::Txid;

    use super::*;
    use crate::txnum::Height;

    fn history(txids: &[Hash256]) -> Vec<HistoryEntry> {
        let entry = |txid: &Hash256| HistoryEntry { txid: Txid::from_byte_array(*txid), height: Height(1) };
        txids.iter().map(entry).collect()
    }

    fn tip(end: u64) -> TxNum {
        TxNum(end)
    }

    #[test]
    fn a_transaction_is_known_at_the_tip_at_which_it_was_named_alone() {
        let cache = TxidCache::default();
        cache.remember(tip(1), &history(&[[1; 32], [2; 32]]), &[TxNum(10), TxNum(20)]);
        assert_eq!(cache.find(tip(1), &[2; 32]), Some(TxNum(20)));
        assert_eq!(cache.find(tip(2), &[2; 32]), None);
        cache.remember(tip(2), &history(&[[2; 32]]), &[TxNum(30)]);
        assert_eq!(cache.find(tip(2), &[2; 32]), Some(TxNum(30)));
        assert_eq!(cache.find(tip(2), &[1; 32]), None);
        assert_eq!(cache.find(tip(1), &[1; 32]), None);
    }

    #[test]
    fn of_transactions_with_one_txid_it_is_the_last() {
        let cache = TxidCache::default();
        cache.remember(tip(1), &history(&[[1; 32], [1; 32]]), &[TxNum(10), TxNum(20)]);
        assert_eq!(cache.find(tip(1), &[1; 32]), Some(TxNum(20)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let cache = TxidCache::default();
        let some = |count: usize| vec![TxNum(1); count];
        let txids = |first: usize, count: usize| -> Vec<Hash256> {
            let txid =
                |number: usize| std::array::from_fn(|place| number.to_le_bytes().get(place).copied().unwrap_or(0));
            (first..first + count).map(txid).collect()
        };
        cache.remember(tip(1), &history(&txids(0, HISTORY_MAX + 1)), &some(HISTORY_MAX + 1));
        assert_eq!(cache.find(tip(1), &txids(0, 1)[0]), None, "too long");
        for first in (0..2 * NAMED_MAX).step_by(HISTORY_MAX) {
            cache.remember(tip(1), &history(&txids(first, HISTORY_MAX)), &some(HISTORY_MAX));
            assert!(cache.state().txnums.len() <= NAMED_MAX);
            assert_eq!(cache.find(tip(1), &txids(first, 1)[0]), Some(TxNum(1)));
        }
        cache.state.lock().unwrap().txnums.clear();
        assert_eq!(cache.find(tip(1), &txids(0, 1)[0]), None);
    }
}
