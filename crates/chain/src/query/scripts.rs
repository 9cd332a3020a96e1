//! Confirmed history, balance and unspent outputs of a script.

use std::ops::Range;

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use crate::answer::{Confirmation, HistoryEntry, Unspent};
use crate::error::Result;
use crate::prefix::ScriptKey;
use crate::scripthash::ScriptHash;
use crate::snapshot::Snapshot;
use crate::txnum::{Height, TxNum};

impl Snapshot {
    /// Returns the confirmed history in chain order, no transaction twice.
    ///
    /// # Errors
    /// Failures of the store, or of the node where it must be asked for a transaction; damaged rows. The same errors
    /// come from the other answers of a snapshot.
    pub fn history(&self, scripthash: &ScriptHash) -> Result<Vec<HistoryEntry>> {
        let txnums = self.script_txnums(self.key_of(scripthash)?, TxNum(0))?;
        let history = self.entries(&txnums)?;
        self.shared.txid_cache.remember(self.headers.end_txnum(), &history, &txnums);
        Ok(history)
    }

    /// Returns the confirmed history within a range of heights, in chain order.
    pub fn history_between(&self, scripthash: &ScriptHash, heights: Range<Height>) -> Result<Vec<HistoryEntry>> {
        let key = self.key_of(scripthash)?;
        let Some(first) = self.headers.get(heights.start) else { return Ok(Vec::new()) };
        let end = self.headers.get(heights.end).map_or(self.headers.end_txnum(), |block| block.first_txnum);
        let txnums = self.script_txnums(key, first.first_txnum)?;
        let until = txnums.partition_point(|txnum| *txnum < end);
        self.entries(&txnums[..until])
    }

    /// The confirmed history from a txnum on.
    pub(crate) fn history_since(&self, scripthash: &ScriptHash, from: TxNum) -> Result<Vec<HistoryEntry>> {
        self.entries(&self.script_txnums(self.key_of(scripthash)?, from)?)
    }

    /// The first confirmed transaction of a script.
    pub(crate) fn first_confirmed(&self, scripthash: &ScriptHash) -> Result<Option<HistoryEntry>> {
        let txnums = self.script_txnums(self.key_of(scripthash)?, TxNum(0))?;
        Ok(self.entries(&txnums[..txnums.len().min(1)])?.pop())
    }

    fn entries(&self, txnums: &[TxNum]) -> Result<Vec<HistoryEntry>> {
        let txids = self.txids_of(txnums)?;
        let entries = txids.into_iter().zip(self.heights_of(txnums));
        Ok(entries.map(|(txid, height)| HistoryEntry { txid: Txid::from_byte_array(txid), height }).collect())
    }

    /// The sum of the outputs that no block spends, in satoshis.
    pub(crate) fn confirmed_balance(&self, scripthash: &ScriptHash) -> Result<u64> {
        self.script_balance(self.key_of(scripthash)?)
    }

    /// The outputs that no block spends, in chain order.
    pub(crate) fn confirmed_unspent(&self, scripthash: &ScriptHash) -> Result<Vec<Unspent>> {
        let coins = self.script_coins(self.key_of(scripthash)?)?;
        let txnums: Vec<TxNum> = coins.iter().map(|coin| coin.out.txnum).collect();
        let txids = self.txids_of(&txnums)?;
        let heights = self.heights_of(&txnums);
        let unspent = coins.iter().zip(txids).zip(heights).map(|((coin, txid), height)| Unspent {
            txid: Txid::from_byte_array(txid),
            vout: coin.out.vout,
            confirmation: Confirmation::Confirmed(height),
            value: coin.value,
        });
        Ok(unspent.collect())
    }

    /// The key of a script's rows. Every answer about a script begins here, so the mempool's part of it is charged
    /// here.
    fn key_of(&self, scripthash: &ScriptHash) -> Result<ScriptKey> {
        self.budget.charge_unconfirmed(|max| self.mempool.size_of_script(scripthash, max))?;
        Ok(self.shared.keyer.script(scripthash))
    }
}
