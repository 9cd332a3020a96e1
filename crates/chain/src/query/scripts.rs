//! Confirmed history, balance and unspent outputs of a script.

use std::ops::Range;

use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use crate::error::{Error, Result};
use crate::names::{Height, ScriptHash, ScriptKey, TxNum};
use crate::rows::Coin;
use crate::state::{Confirmation, HistoryEntry, Snapshot, Unspent};

/// Answers of a snapshot that are refused as soon as their entries are counted, before a txid is read.
#[derive(Debug, Clone, Copy)]
pub struct UpTo<'a> {
    at: &'a Snapshot,
    entries_max: usize,
}

impl UpTo<'_> {
    /// Returns [`Snapshot::history`].
    ///
    /// # Errors
    /// [`Error::TooLong`], and those of [`Snapshot::history`].
    pub fn history(&self, scripthash: &ScriptHash) -> Result<Vec<HistoryEntry>> {
        let txnums = self.at.listed_txnums(self.at.key_of(scripthash)?, TxNum(0))?;
        check_length(txnums.len(), self.entries_max)?;
        let history = self.at.entries(&txnums)?;
        self.at.shared.txid_cache.remember(self.at.headers.end_txnum(), &history, &txnums);
        Ok(history)
    }

    /// Returns [`Snapshot::history_between`].
    ///
    /// # Errors
    /// Those of [`Self::history`].
    pub fn history_between(&self, scripthash: &ScriptHash, heights: Range<Height>) -> Result<Vec<HistoryEntry>> {
        let (at, key) = (self.at, self.at.key_of(scripthash)?);
        let Some(first) = at.headers.get(heights.start) else { return Ok(Vec::new()) };
        let end = at.headers.get(heights.end).map_or(at.headers.end_txnum(), |block| block.first_txnum);
        let txnums = at.listed_txnums(key, first.first_txnum)?;
        let until = txnums.partition_point(|txnum| *txnum < end);
        check_length(until, self.entries_max)?;
        at.entries(&txnums[..until])
    }

    /// Returns [`Snapshot::unspent`].
    ///
    /// # Errors
    /// Those of [`Self::history`].
    pub fn unspent(&self, scripthash: &ScriptHash) -> Result<Vec<Unspent>> {
        Ok(self.at.with_unconfirmed(self.at.confirmed_unspent(scripthash, self.entries_max)?, scripthash))
    }
}

fn check_length(entries: usize, max: usize) -> Result<()> {
    if entries > max { Err(Error::TooLong { entries, max }) } else { Ok(()) }
}

impl Snapshot {
    /// Returns the confirmed history in chain order, no transaction twice.
    ///
    /// # Errors
    /// Failures of the store, or of the node where it must be asked for a transaction; damaged rows. The same errors
    /// come from the other answers of a snapshot.
    pub fn history(&self, scripthash: &ScriptHash) -> Result<Vec<HistoryEntry>> {
        self.up_to(usize::MAX).history(scripthash)
    }

    /// Returns the confirmed history within a range of heights, in chain order.
    pub fn history_between(&self, scripthash: &ScriptHash, heights: Range<Height>) -> Result<Vec<HistoryEntry>> {
        self.up_to(usize::MAX).history_between(scripthash, heights)
    }

    /// Answers with lists of at most this many entries.
    pub fn up_to(&self, entries_max: usize) -> UpTo<'_> {
        UpTo { at: self, entries_max }
    }

    /// The confirmed history from a txnum on, as Electrum's status has it.
    pub(super) fn history_since(&self, scripthash: &ScriptHash, from: TxNum) -> Result<Vec<HistoryEntry>> {
        self.entries(&self.indexed_txnums(self.key_of(scripthash)?, from)?)
    }

    /// The first confirmed transaction of a script.
    pub(super) fn first_confirmed(&self, scripthash: &ScriptHash) -> Result<Option<HistoryEntry>> {
        let txnums = self.listed_txnums(self.key_of(scripthash)?, TxNum(0))?;
        Ok(self.entries(&txnums[..txnums.len().min(1)])?.pop())
    }

    fn entries(&self, txnums: &[TxNum]) -> Result<Vec<HistoryEntry>> {
        let txids = self.txids_of(txnums)?;
        let entries = txids.into_iter().zip(self.heights_of(txnums));
        Ok(entries.map(|(txid, height)| HistoryEntry { txid: Txid::from_byte_array(txid), height }).collect())
    }

    /// The sum of the outputs that no block spends, in satoshis.
    pub(super) fn confirmed_balance(&self, scripthash: &ScriptHash) -> Result<u64> {
        let key = self.key_of(scripthash)?;
        if self.is_paid_by_overwritten(key)? {
            return Ok(self.listed_coins(key)?.iter().map(|coin| coin.value).sum());
        }
        Ok(self.script_balance(key)? + self.genesis_output(key).map_or(0, |coin| coin.value))
    }

    /// The outputs that no block spends, in chain order.
    pub(super) fn confirmed_unspent(&self, scripthash: &ScriptHash, entries_max: usize) -> Result<Vec<Unspent>> {
        let coins = self.listed_coins(self.key_of(scripthash)?)?;
        check_length(coins.len(), entries_max)?;
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

    /// The live transactions that answers about a script name, from a txnum on, ascending.
    pub(super) fn listed_txnums(&self, key: ScriptKey, from: TxNum) -> Result<Vec<TxNum>> {
        let mut txnums = self.indexed_txnums(key, from)?;
        if let Some(coin) = self.genesis_output(key).filter(|coin| coin.out.txnum >= from) {
            txnums.insert(0, coin.out.txnum);
        }
        Ok(txnums)
    }

    /// The unspent outputs that answers about a script name, ascending.
    pub(super) fn listed_coins(&self, key: ScriptKey) -> Result<Vec<Coin>> {
        let mut coins = self.script_coins(key)?;
        self.drop_overwritten(&mut coins, |coin| coin.out.txnum);
        if let Some(coin) = self.genesis_output(key) {
            coins.insert(0, coin);
        }
        Ok(coins)
    }

    /// Those of the live transactions that the index has.
    fn indexed_txnums(&self, key: ScriptKey, from: TxNum) -> Result<Vec<TxNum>> {
        let mut txnums = self.script_txnums(key, from)?;
        self.drop_overwritten(&mut txnums, |txnum| *txnum);
        Ok(txnums)
    }

    /// The key of a script's rows. Every answer about a script begins here, so the mempool's part of it is charged
    /// here.
    pub(super) fn key_of(&self, scripthash: &ScriptHash) -> Result<ScriptKey> {
        self.budget.charge_unconfirmed(|max| self.mempool.size_of_script(scripthash, max))?;
        Ok(self.shared.keyer.script(scripthash))
    }
}
