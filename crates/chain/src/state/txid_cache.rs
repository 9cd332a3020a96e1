//! Cache of the txnums of transactions that histories have listed: a client that asks for a history asks for its
//! transactions next.
//!
//! Invariant: the cache holds for one tip. At another tip a txid may name another transaction (after a reorg, or by a
//! coinbase with the txid of an older one, BIP 30), so the cache is emptied. The tip is identified by the first txnum
//! after it and not by its hash: a block that left the chain and came back has other txnums.

use std::hash::{Hash, Hasher};

use bitcoin::hashes::Hash as _;
use parking_lot::Mutex;

use crate::names::{Hash256, TxNum};
use crate::state::aging_map::AgingMap;
use crate::state::answer::HistoryEntry;

/// Transactions in the cache, about 60 bytes each. At the bound it forgets those that were not asked for.
const TXIDS_MAX: usize = 1 << 17;
/// Longer histories are not cached: clients do not ask for their transactions one by one.
const HISTORY_MAX: usize = 1000;

/// Txnums by txid, shared by all snapshots of an index.
#[derive(Debug, Default)]
pub(crate) struct TxidCache {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The first txnum after the tip of the cached entries; `None` before the first entry.
    end: Option<TxNum>,
    txnums: AgingMap<Key, TxNum, TXIDS_MAX, foldhash::fast::RandomState>,
}

/// A txid. Nobody chooses one, so eight of its bytes and a fast hash will do; each history hashes all of its txids.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) Hash256);

/// Transactions of the newest blocks that are kept, about 60 bytes each: those of half a day of mainnet.
const RECENT_MAX: usize = 1 << 18;

/// Txnums of the newest transactions, which are spent most. One that is not live was replaced by a reorg.
pub(crate) type RecentTxids = AgingMap<Key, TxNum, RECENT_MAX, foldhash::fast::RandomState>;

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (first, _) = self.0.split_first_chunk().expect("a txid has 32 bytes");
        state.write_u64(u64::from_le_bytes(*first));
    }
}

impl TxidCache {
    /// Caches a whole history, ascending, at the tip before `end`. Of several transactions with one txid, the last
    /// counts.
    pub(crate) fn remember(&self, end: TxNum, history: &[HistoryEntry], txnums: &[TxNum]) {
        if history.len() > HISTORY_MAX {
            return;
        }
        let mut state = self.state.lock();
        if state.end != Some(end) {
            state.txnums.clear();
            state.end = Some(end);
        }
        for (entry, txnum) in history.iter().zip(txnums) {
            state.txnums.insert(Key(entry.txid.to_byte_array()), *txnum);
        }
    }

    /// The txnum of a transaction, at the tip before `end`.
    pub(crate) fn find(&self, end: TxNum, txid: &Hash256) -> Option<TxNum> {
        let mut state = self.state.lock();
        if state.end == Some(end) { state.txnums.get(&Key(*txid)).copied() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::Txid;

    use super::*;
    use crate::names::Height;

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
        for first in (0..2 * TXIDS_MAX).step_by(HISTORY_MAX) {
            cache.remember(tip(1), &history(&txids(first, HISTORY_MAX)), &some(HISTORY_MAX));
            assert!(cache.state.lock().txnums.len() <= TXIDS_MAX);
            assert_eq!(cache.find(tip(1), &txids(first, 1)[0]), Some(TxNum(1)));
        }
        cache.state.lock().txnums.clear();
        assert_eq!(cache.find(tip(1), &txids(0, 1)[0]), None);
    }
}
