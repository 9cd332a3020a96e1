//! Pages of a script's history with its transactions, newest first.

use birdhouse_store::{Direction, KeyRange, Table};
use bitcoin::hashes::Hash as _;
use bitcoin::{SignedAmount, TxOut, Txid};

use crate::block::Malformed;
use crate::error::{Error, Result};
use crate::names::{Height, ScriptHash, ScriptKey, TxNum};
use crate::query::genesis::GENESIS;
use crate::query::portions::PageList;
use crate::rows::{Found, Kind, Part, long, recent, txnum_bytes};
use crate::state::{BalanceChange, ResolvedTransaction, Snapshot};

/// Transactions that are in memory at the same time while balance changes are summed.
const CHANGES_TOGETHER: usize = 100;

/// Rows that are read together.
const ROWS_MAX: usize = 64;

impl Snapshot {
    /// Returns the newest confirmed transactions of a script, at most `count`, newest first: those before `cursor`, or
    /// the newest of all. Empty if `cursor` is no confirmed transaction of the script.
    pub fn history_page(
        &self,
        scripthash: &ScriptHash,
        cursor: Option<Txid>,
        count: usize,
    ) -> Result<Vec<ResolvedTransaction>> {
        self.whole_page(self.list_history(scripthash, cursor, count)?)
    }

    /// Lists the transactions of [`Self::history_page`].
    pub fn list_history(&self, scripthash: &ScriptHash, cursor: Option<Txid>, count: usize) -> Result<PageList> {
        Ok(PageList { confirmed: self.page_txnums(scripthash, cursor, count)?, ..PageList::default() })
    }

    /// Returns the newest transactions of a script in the blocks from a height on, at most `count`, newest first. Older
    /// ones are not read.
    pub fn newest_since(
        &self,
        scripthash: &ScriptHash,
        from: Height,
        count: usize,
    ) -> Result<Vec<ResolvedTransaction>> {
        let Some(first) = self.headers.get(from).map(|block| block.first_txnum) else { return Ok(Vec::new()) };
        let mut txnums = self.page_txnums(scripthash, None, count)?;
        txnums.retain(|txnum| *txnum >= first);
        self.resolved_in_chain(&txnums)
    }

    /// Returns the oldest confirmed transactions of a script, at most `count`, oldest first: those after `cursor`, or
    /// the oldest of all. Empty if `cursor` is no confirmed transaction of the script.
    pub fn history_page_after(
        &self,
        scripthash: &ScriptHash,
        cursor: Option<Txid>,
        count: usize,
    ) -> Result<Vec<ResolvedTransaction>> {
        let key = self.key_of(scripthash)?;
        let from = match cursor {
            None => TxNum(0),
            Some(cursor) => match self.find_txnum(&cursor.to_byte_array())? {
                Some(after) if self.touches(key, after)? => TxNum(after.0 + 1),
                _ => return Ok(Vec::new()),
            },
        };
        self.resolved_in_chain(&self.oldest_txnums(key, from, count)?)
    }

    /// Returns transactions of a script in the mempool, at most `count`, those that came last first.
    pub fn mempool_page(&self, scripthash: &ScriptHash, count: usize) -> Result<Vec<ResolvedTransaction>> {
        self.whole_page(self.list_mempool(scripthash, count))
    }

    /// Lists the transactions of [`Self::mempool_page`].
    pub fn list_mempool(&self, scripthash: &ScriptHash, count: usize) -> PageList {
        let mut unconfirmed = self.mempool.newest_of_all(&[*scripthash]);
        unconfirmed.truncate(count);
        PageList { unconfirmed, ..PageList::default() }
    }

    /// Returns the newest transactions of scripts, each once, at most `count`, newest first: those of the mempool, then
    /// confirmed ones. With a `cursor`, those after it in this order; empty if it is none of theirs.
    pub fn newest_of_all(
        &self,
        scripthashes: &[ScriptHash],
        cursor: Option<Txid>,
        count: usize,
    ) -> Result<Vec<ResolvedTransaction>> {
        self.whole_page(self.list_newest_of_all(scripthashes, cursor, count)?)
    }

    /// Lists the transactions of [`Self::newest_of_all`].
    pub fn list_newest_of_all(
        &self,
        scripthashes: &[ScriptHash],
        cursor: Option<Txid>,
        count: usize,
    ) -> Result<PageList> {
        let is_confirmed = cursor.is_some_and(|cursor| self.mempool.get(&cursor).is_none());
        let mut unconfirmed = if is_confirmed { Vec::new() } else { self.mempool.newest_of_all(scripthashes) };
        if let (Some(cursor), false) = (cursor, is_confirmed) {
            let Some(at) = unconfirmed.iter().position(|txid| *txid == cursor) else { return Ok(PageList::default()) };
            unconfirmed.drain(..=at);
        }
        unconfirmed.truncate(count);
        let cursor = cursor.filter(|_| is_confirmed);
        let before = match cursor {
            Some(txid) => match self.find_txnum(&txid.to_byte_array())? {
                None => return Ok(PageList::default()),
                before => before,
            },
            None => None,
        };
        let mut txnums = Vec::new();
        let mut is_known = cursor.is_none();
        for scripthash in scripthashes {
            let key = self.key_of(scripthash)?;
            if let Some(before) = before {
                is_known |= self.touches(key, before)?;
            }
            txnums.extend(self.newest_txnums(key, before.unwrap_or(TxNum::END), count)?);
        }
        if !is_known {
            return Ok(PageList::default());
        }
        txnums.sort_unstable();
        txnums.dedup();
        txnums.reverse();
        txnums.truncate(count - unconfirmed.len());
        Ok(PageList { unconfirmed, confirmed: txnums })
    }

    /// Returns the changes of a script's confirmed balance, one for each transaction, at most `count`, newest first:
    /// those before `cursor`, or the newest of all. Empty if `cursor` is no confirmed transaction of the script.
    pub fn balance_changes(
        &self,
        scripthash: &ScriptHash,
        cursor: Option<Txid>,
        count: usize,
    ) -> Result<Vec<BalanceChange>> {
        let txnums = self.page_txnums(scripthash, cursor, count)?;
        let mut changes = Vec::with_capacity(txnums.len());
        for page in txnums.chunks(CHANGES_TOGETHER) {
            let resolved = self.resolved_in_chain(page)?;
            self.demand_spent(&resolved)?;
            for (txnum, found) in page.iter().zip(resolved) {
                let (height, block) = self.block_of(*txnum)?;
                let index = u32::try_from(txnum.0 - block.first_txnum.0).expect("below the block's transactions");
                let sum = |outputs: &[TxOut]| {
                    let own =
                        outputs.iter().filter(|output| ScriptHash::of(output.script_pubkey.as_bytes()) == *scripthash);
                    own.map(|output| output.value.to_signed().map_or(0, SignedAmount::to_sat)).sum::<i64>()
                };
                let value = sum(&found.transaction.output) - sum(&found.prevouts);
                changes.push(BalanceChange { txid: found.txid, value, height, index });
            }
        }
        Ok(changes)
    }

    fn page_txnums(&self, scripthash: &ScriptHash, cursor: Option<Txid>, count: usize) -> Result<Vec<TxNum>> {
        let key = self.key_of(scripthash)?;
        let Some(cursor) = cursor else { return self.newest_txnums(key, TxNum::END, count) };
        match self.find_txnum(&cursor.to_byte_array())? {
            Some(before) if self.touches(key, before)? => self.newest_txnums(key, before, count),
            _ => Ok(Vec::new()),
        }
    }

    /// True if a transaction is in the history of a script.
    fn touches(&self, key: ScriptKey, txnum: TxNum) -> Result<bool> {
        Ok(self.newest_txnums(key, TxNum(txnum.0 + 1), 1)? == [txnum])
    }

    /// The last transactions of a script below a txnum, at most `count`, descending. Rows are read from the newest on,
    /// and no more than needed.
    fn newest_txnums(&self, key: ScriptKey, before: TxNum, count: usize) -> Result<Vec<TxNum>> {
        let mut found = Newest { before, count, txnums: Vec::new() };
        for delta in self.tables.deltas.iter().rev() {
            self.add_newest(recent::table(delta), &key.to_bytes(), &mut found, |key, _| {
                Ok(vec![recent::decode_key(key)?.1])
            })?;
        }
        for pack in self.tables.packs.iter().rev() {
            if found.is_enough() {
                break;
            }
            match self.found(pack, key)? {
                None => {}
                Some(Found::Inline(part)) => self.add(&part.txnums, &mut found),
                Some(Found::Long) => {
                    let prefix = long::key_prefix(key, Kind::History);
                    self.add_newest(long::table(pack), &prefix, &mut found, |key, value| {
                        let mut part = Part::default();
                        long::decode_into(Kind::History, key, value, &mut part)?;
                        Ok(part.txnums)
                    })?;
                }
            }
        }
        if self.genesis_output(key).is_some() {
            self.add(&[GENESIS], &mut found);
        }
        Ok(found.txnums)
    }

    /// The first transactions of a script from a txnum on, at most `count`, ascending. Rows are read from the first one
    /// on that may have such a transaction, and no more than needed.
    pub(super) fn oldest_txnums(&self, key: ScriptKey, from: TxNum, count: usize) -> Result<Vec<TxNum>> {
        let mut found = Vec::new();
        let add = |found: &mut Vec<TxNum>, txnums: &[TxNum]| {
            let is_listed = |txnum: &TxNum| *txnum >= from && self.is_live(*txnum) && !self.is_overwritten(*txnum);
            let left = count - found.len();
            found.extend(txnums.iter().copied().filter(is_listed).take(left));
            found.len() < count
        };
        if self.genesis_output(key).is_some() && !add(&mut found, &[GENESIS]) {
            return Ok(found);
        }
        for pack in self.tables.packs.iter().filter(|pack| from < pack.end) {
            match self.found(pack, key)? {
                None => {}
                Some(Found::Inline(part)) => {
                    add(&mut found, &part.txnums);
                }
                Some(Found::Long) => {
                    let (table, prefix) = (long::table(pack), long::key_prefix(key, Kind::History));
                    // The row that has `from` begins before it.
                    let mut before = KeyRange::prefix(&prefix, Direction::Backward);
                    before.end = [&prefix[..], &txnum_bytes(TxNum(from.0 + 1))].concat();
                    let (rows, _) = self.reader().page(table, before, 1)?;
                    let mut range = KeyRange::prefix(&prefix, Direction::Forward);
                    if let Some((first, _)) = rows.into_iter().next() {
                        range.start = first;
                    }
                    self.visit_rows(table, range, |key, value| {
                        let mut part = Part::default();
                        long::decode_into(Kind::History, key, value, &mut part)?;
                        Ok(add(&mut found, &part.txnums))
                    })?;
                }
            }
            if found.len() >= count {
                return Ok(found);
            }
        }
        for delta in &self.tables.deltas {
            let mut range = KeyRange::prefix(&key.to_bytes(), Direction::Forward);
            range.start.extend(txnum_bytes(from));
            self.visit_rows(recent::table(delta), range, |key, _| Ok(add(&mut found, &[recent::decode_key(key)?.1])))?;
        }
        Ok(found)
    }

    /// Visits rows in small pages until `visit` returns false.
    fn visit_rows(
        &self,
        table: Table,
        range: KeyRange,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, Malformed>,
    ) -> Result<()> {
        let mut next = Some(range);
        while let Some(range) = next.take() {
            let (rows, rest) = self.reader().page(table, range, ROWS_MAX)?;
            for (key, value) in &rows {
                if !visit(key, value).map_err(Error::malformed(table))? {
                    return Ok(());
                }
            }
            next = rest;
        }
        Ok(())
    }

    /// Adds the txnums of rows, the last row first, until there are enough. A row's key is `prefix` and its first
    /// txnum.
    fn add_newest(
        &self,
        table: Table,
        prefix: &[u8],
        found: &mut Newest,
        txnums: impl Fn(&[u8], &[u8]) -> Result<Vec<TxNum>, Malformed>,
    ) -> Result<()> {
        let mut range = KeyRange::prefix(prefix, Direction::Backward);
        range.end = [prefix, &txnum_bytes(found.before)].concat();
        let mut next = Some(range);
        while let (Some(range), false) = (next.take(), found.is_enough()) {
            let (rows, rest) = self.reader().page(table, range, found.rows())?;
            for (key, value) in &rows {
                self.add(&txnums(key, value).map_err(Error::malformed(table))?, found);
            }
            next = rest;
        }
        Ok(())
    }

    /// Adds the last live ones of ascending txnums.
    fn add(&self, txnums: &[TxNum], found: &mut Newest) {
        let left = found.count - found.txnums.len();
        let is_listed = |txnum: TxNum| txnum < found.before && self.is_live(txnum) && !self.is_overwritten(txnum);
        let wanted = txnums.iter().copied().rev().filter(|txnum| is_listed(*txnum));
        let wanted: Vec<TxNum> = wanted.take(left).collect();
        found.txnums.extend(wanted);
    }
}

/// Txnums below one, descending, until there are enough.
struct Newest {
    before: TxNum,
    count: usize,
    txnums: Vec<TxNum>,
}

impl Newest {
    fn is_enough(&self) -> bool {
        self.txnums.len() >= self.count
    }

    /// The rows that may be needed: one at least has many.
    fn rows(&self) -> usize {
        (self.count - self.txnums.len()).clamp(1, ROWS_MAX)
    }
}
