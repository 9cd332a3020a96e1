//! History and unspent outputs of a script, merged from packed, recent and restored rows.

use std::collections::HashSet;

use birdhouse_store::{Direction, KeyRange};

use crate::error::{Error, Result};
use crate::prefix::ScriptKey;
use crate::rows::script::Found;
use crate::rows::{
    Coin, TxOutNum, bucket_key, bucket_of, history, recent, restored, script, summary, txnum_bytes, unspent,
};
use crate::snapshot::Snapshot;
use crate::txnum::TxNum;

/// Rows of [`recent`] with their txnums, ascending.
pub(crate) type RecentRows = Vec<(TxNum, recent::Recent)>;

impl Snapshot {
    /// Counts the scripts in the packed rows.
    pub fn packed_script_count(&self) -> Result<u64> {
        let mut scripts = 0;
        self.reader().scan(script::TABLE, &self.packed.generation.to_be_bytes(), |(_, value)| {
            scripts += script::scripts(value).map_err(Error::malformed(script::TABLE))?;
            Ok(())
        })?;
        Ok(scripts)
    }

    /// The live transactions that touch a script from a txnum on, ascending.
    pub(crate) fn script_txnums(&self, key: ScriptKey, from: TxNum) -> Result<Vec<TxNum>> {
        let packed = if from < self.packed.end { self.packed(key)? } else { None };
        let mut txnums = self.txnums(key, packed.as_ref(), &self.recent(key, from)?)?;
        txnums.drain(..txnums.partition_point(|txnum| *txnum < from));
        Ok(txnums)
    }

    /// The unspent outputs of a script, ascending.
    pub(crate) fn script_coins(&self, key: ScriptKey) -> Result<Vec<Coin>> {
        let packed = self.packed(key)?;
        self.coins(key, packed.as_ref(), &self.recent(key, TxNum(0))?)
    }

    /// The live transactions of a script in `packed` and `recent`, ascending.
    pub(crate) fn txnums(&self, key: ScriptKey, packed: Option<&Found>, recent: &RecentRows) -> Result<Vec<TxNum>> {
        let mut txnums = match packed {
            None => Vec::new(),
            Some(Found::Inline { txnums, .. }) => txnums.clone(),
            Some(Found::Long) => self.long_txnums(key)?,
        };
        if self.cut_into_packed {
            txnums.retain(|txnum| self.is_live(*txnum));
        }
        txnums.extend(recent.iter().map(|(txnum, _)| *txnum));
        Ok(txnums)
    }

    /// The unspent outputs of a script by `packed` and `recent`, ascending.
    pub(crate) fn coins(&self, key: ScriptKey, packed: Option<&Found>, recent: &RecentRows) -> Result<Vec<Coin>> {
        let mut coins = match packed {
            None => Vec::new(),
            Some(Found::Inline { coins, .. }) => coins.clone(),
            Some(Found::Long) => self.long_coins(key)?,
        };
        if self.cut_into_packed {
            coins.extend(self.restored(key)?);
            coins.retain(|coin| self.is_live(coin.out.txnum));
            coins.sort_unstable();
            coins.dedup_by_key(|coin| coin.out);
        }
        let mut spent: HashSet<TxOutNum> = HashSet::new();
        for (txnum, row) in recent {
            let funded = row.funded.iter();
            coins.extend(
                funded.map(|(vout, value)| Coin { out: TxOutNum { txnum: *txnum, vout: *vout }, value: *value }),
            );
            spent.extend(&row.spent);
        }
        coins.retain(|coin| !spent.contains(&coin.out));
        Ok(coins)
    }

    /// The balance of a script with rows of its own: the summary and the recent rows. The packed coins are read only if
    /// a recent row spends one.
    pub(super) fn balance_of_long(&self, key: ScriptKey) -> Result<u64> {
        let mut balance = self.summary(key)?.balance();
        let mut values = Vec::new();
        let mut spent = Vec::new();
        for (txnum, row) in self.recent(key, TxNum(0))? {
            for (vout, value) in row.funded {
                balance += value;
                values.push(Coin { out: TxOutNum { txnum, vout }, value });
            }
            spent.extend(row.spent);
        }
        if spent.is_empty() {
            return Ok(balance);
        }
        values.extend(self.long_coins(key)?);
        let spent: HashSet<TxOutNum> = spent.into_iter().collect();
        let gone: u64 = values.iter().filter(|coin| spent.contains(&coin.out)).map(|coin| coin.value).sum();
        Ok(balance - gone)
    }

    /// The packed history and coins of a script.
    pub(crate) fn packed(&self, key: ScriptKey) -> Result<Option<Found>> {
        let bucket = self.bucket(bucket_of(key.prefix, self.packed.script_bits))?;
        self.packed_in(bucket.as_deref(), key)
    }

    /// The row of a bucket of scripts.
    pub(crate) fn bucket(&self, bucket: u32) -> Result<Option<Vec<u8>>> {
        self.reader().get(script::TABLE, &bucket_key(self.packed.generation, bucket))
    }

    /// The packed history and coins of a script in the row of its bucket.
    pub(crate) fn packed_in(&self, bucket: Option<&[u8]>, key: ScriptKey) -> Result<Option<Found>> {
        let Some(value) = bucket else { return Ok(None) };
        script::find(value, key, self.packed.script_bits).map_err(Error::malformed(script::TABLE))
    }

    /// The counts and sums of a script with rows of its own.
    pub(crate) fn summary(&self, key: ScriptKey) -> Result<summary::Summary> {
        let value = self.reader().get(summary::TABLE, &summary::key(key))?;
        let value = value.ok_or_else(|| Error::missing(summary::TABLE, "a long script's row"))?;
        summary::decode(&value).map_err(Error::malformed(summary::TABLE))
    }

    fn long_txnums(&self, key: ScriptKey) -> Result<Vec<TxNum>> {
        let mut txnums = Vec::new();
        self.reader().scan(history::TABLE, &key.to_bytes(), |(key, value)| {
            history::decode(key, value, &mut txnums).map_err(Error::malformed(history::TABLE))
        })?;
        Ok(txnums)
    }

    fn long_coins(&self, key: ScriptKey) -> Result<Vec<Coin>> {
        let mut coins = Vec::new();
        self.reader().scan(unspent::TABLE, &key.to_bytes(), |(key, value)| {
            unspent::decode(key, value, &mut coins).map_err(Error::malformed(unspent::TABLE))
        })?;
        Ok(coins)
    }

    /// The rows of a script from the blocks at the tip, from a txnum on, ascending; only live ones.
    pub(crate) fn recent(&self, script: ScriptKey, from: TxNum) -> Result<RecentRows> {
        let mut rows = Vec::new();
        if self.headers.end_txnum() <= self.packed.end {
            return Ok(rows); // no block came after the build
        }
        let mut range = KeyRange::prefix(&script.prefix.to_be_bytes(), Direction::Forward);
        range.start.extend(txnum_bytes(from));
        self.reader().scan_range(recent::TABLE, range, |(key, value)| {
            let (owner, txnum) = recent::decode_key(key).map_err(Error::malformed(recent::TABLE))?;
            if owner == script && self.is_live(txnum) {
                rows.push((txnum, recent::decode(value).map_err(Error::malformed(recent::TABLE))?));
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// The outputs of a script whose spender was packed and is stale.
    fn restored(&self, script: ScriptKey) -> Result<Vec<Coin>> {
        let mut coins = Vec::new();
        self.reader().scan(restored::TABLE, &script.prefix.to_be_bytes(), |(key, value)| {
            let row = restored::decode(key, value).map_err(Error::malformed(restored::TABLE))?;
            if row.script == script && !self.is_live(row.spender) {
                coins.push(row.coin);
            }
            Ok(())
        })?;
        Ok(coins)
    }
}
