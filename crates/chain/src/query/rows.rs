//! History and unspent outputs of a script, summed over packs, stale rows and deltas.

use birdhouse_store::{Direction, KeyRange};

use crate::error::{Error, Result};
use crate::names::{ScriptKey, TxNum};
use crate::rows::{
    Coin, Found, Kind, Pack, Part, Recent, Summary, bucket_key, bucket_of, long, recent, script, stale, txnum_bytes,
};
use crate::state::{Slot, Snapshot};

/// Rows of deltas with their txnums, ascending.
pub(super) type RecentRows = Vec<(TxNum, Recent)>;

/// Kinds of rows that a history needs of a long script.
const HISTORY: &[Kind] = &[Kind::History];
/// Kinds of rows that unspent outputs need of a long script.
const COINS: &[Kind] = &[Kind::Coins, Kind::Spends];

impl Snapshot {
    /// Counts the entries of scripts in the packs. A script has one in each pack that touches it.
    pub fn packed_script_count(&self) -> Result<u64> {
        let mut scripts = 0;
        for pack in &self.tables.packs {
            let table = script::table(pack);
            self.reader().scan(table, &[], |(_, value)| {
                scripts += script::scripts(value, pack).map_err(Error::malformed(table))?;
                Ok(())
            })?;
        }
        Ok(scripts)
    }

    /// The live transactions that touch a script from a txnum on, ascending.
    pub(super) fn script_txnums(&self, key: ScriptKey, from: TxNum) -> Result<Vec<TxNum>> {
        let mut txnums = Vec::new();
        for pack in self.packs_with(key).filter(|pack| from < pack.end) {
            txnums.extend(self.part_in(pack, key, HISTORY)?.txnums);
        }
        if !self.stale.is_empty() {
            txnums.retain(|txnum| self.is_live(*txnum));
        }
        txnums.drain(..txnums.partition_point(|txnum| *txnum < from));
        txnums.extend(self.recent(key, from)?.iter().map(|(txnum, _)| *txnum));
        Ok(txnums)
    }

    /// The unspent outputs of a script, ascending.
    pub(super) fn script_coins(&self, key: ScriptKey) -> Result<Vec<Coin>> {
        let packed = self.packs_with(key).map(|pack| self.part_in(pack, key, COINS));
        Ok(self.sum(key, packed)?.coins)
    }

    /// The balance of a script in satoshis.
    pub(crate) fn script_balance(&self, key: ScriptKey) -> Result<u64> {
        if !self.stale.is_empty() {
            return Ok(self.script_coins(key)?.iter().map(|coin| coin.value).sum());
        }
        let (mut funded, mut spent) = (0, 0);
        for pack in self.packs_with(key) {
            let (more_funded, more_spent) = match self.found(pack, key)? {
                None => (0, 0),
                Some(Found::Inline(part)) => part.sums(),
                Some(Found::Long) => {
                    let summary = self.summary(pack, key)?;
                    (summary.coins.sum, summary.spends.sum)
                }
            };
            funded += more_funded;
            spent += more_spent;
        }
        for (_, row) in self.recent(key, TxNum(0))? {
            funded += row.funded.iter().map(|(_, value)| value).sum::<u64>();
            spent += row.spent.iter().map(|coin| coin.value).sum::<u64>();
        }
        let spends_more = || Error::missing(script::TABLES[0], "an output that a later row spends");
        u64::checked_sub(funded, spent).ok_or_else(spends_more)
    }

    /// The packs that may have a script, the oldest first.
    pub(super) fn packs_with(&self, key: ScriptKey) -> impl Iterator<Item = &Pack> {
        let may_have = move |pack: &&Pack| self.tables.may_have_script(Slot::Pack(pack.slot), key.prefix);
        self.tables.packs.iter().filter(may_have)
    }

    /// Adds the rows of the tip to the parts of a script in the packs, the oldest first.
    pub(crate) fn sum(&self, key: ScriptKey, packed: impl Iterator<Item = Result<Part>>) -> Result<Part> {
        let mut sum = Part::default();
        for part in packed {
            sum.append(&part?);
        }
        if !self.stale.is_empty() {
            let respent: Vec<Coin> = self.stale_rows(key)?.into_iter().flat_map(|(_, row)| row.spent).collect();
            sum.roll_back(&respent, |txnum| self.is_live(txnum));
        }
        sum.extend(&self.recent(key, TxNum(0))?);
        Ok(sum)
    }

    /// The part of a script in one pack; of a long script only the rows of `kinds`.
    fn part_in(&self, pack: &Pack, key: ScriptKey, kinds: &[Kind]) -> Result<Part> {
        match self.found(pack, key)? {
            None => Ok(Part::default()),
            Some(Found::Inline(part)) => Ok(part),
            Some(Found::Long) => self.long_part(pack, key, kinds),
        }
    }

    pub(super) fn found(&self, pack: &Pack, key: ScriptKey) -> Result<Option<Found>> {
        let bucket = self.bucket(pack, bucket_of(key.prefix, pack.script_bits))?;
        Self::found_in(pack, bucket.as_deref(), key)
    }

    /// The row of a bucket of scripts.
    pub(crate) fn bucket(&self, pack: &Pack, bucket: u32) -> Result<Option<Vec<u8>>> {
        self.reader().get(script::table(pack), &bucket_key(bucket))
    }

    /// The entry of a script in the row of its bucket.
    pub(crate) fn found_in(pack: &Pack, bucket: Option<&[u8]>, key: ScriptKey) -> Result<Option<Found>> {
        let Some(bucket) = bucket else { return Ok(None) };
        script::find(bucket, key, pack).map_err(Error::malformed(script::table(pack)))
    }

    /// The part of a long script in one pack, by its rows of `kinds`.
    pub(crate) fn long_part(&self, pack: &Pack, key: ScriptKey, kinds: &[Kind]) -> Result<Part> {
        let table = long::table(pack);
        let mut part = Part::default();
        for kind in kinds {
            self.reader().scan(table, &long::key_prefix(key, *kind), |(key, value)| {
                long::decode_into(*kind, key, value, &mut part).map_err(Error::malformed(table))
            })?;
        }
        Ok(part)
    }

    /// The counts and sums of a long script in one pack.
    pub(super) fn summary(&self, pack: &Pack, key: ScriptKey) -> Result<Summary> {
        let table = long::table(pack);
        let value = self.reader().get(table, &long::key_prefix(key, Kind::Summary))?;
        let value = value.ok_or_else(|| Error::missing(table, "a long script's summary"))?;
        long::decode_summary(&value).map_err(Error::malformed(table))
    }

    /// The rows of a script in the deltas, from a txnum on, ascending; only live ones.
    pub(super) fn recent(&self, script: ScriptKey, from: TxNum) -> Result<RecentRows> {
        let mut rows = Vec::new();
        let prefix = script.to_bytes();
        for (index, delta) in self.tables.deltas.iter().enumerate() {
            // A snapshot without blocks in the delta, or a delta that ends before `from`, needs no look.
            let ends_before = self.tables.deltas.get(index + 1).is_some_and(|next| next.start <= from);
            let is_absent = !self.tables.may_have_script(Slot::Delta(delta.slot), script.prefix);
            if ends_before || is_absent || self.headers.end_txnum() <= delta.start {
                continue;
            }
            let table = recent::table(delta);
            let mut range = KeyRange::prefix(&prefix, Direction::Forward);
            range.start.extend(txnum_bytes(from));
            self.reader().scan_range(table, range, |(key, value)| {
                let (_, txnum) = recent::decode_key(key).map_err(Error::malformed(table))?;
                if self.is_live(txnum) {
                    rows.push((txnum, recent::decode(value).map_err(Error::malformed(table))?));
                }
                Ok(())
            })?;
        }
        Ok(rows)
    }

    /// The rows of stale transactions that packs have.
    fn stale_rows(&self, script: ScriptKey) -> Result<RecentRows> {
        let mut rows = Vec::new();
        self.reader().scan(stale::TABLE, &script.to_bytes(), |(key, value)| {
            let (_, txnum) = recent::decode_key(key).map_err(Error::malformed(stale::TABLE))?;
            if self.stale.iter().any(|range| range.contains(txnum)) {
                rows.push((txnum, recent::decode(value).map_err(Error::malformed(stale::TABLE))?));
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// First txnum after the packs.
    pub(crate) fn packs_end(&self) -> TxNum {
        self.tables.packs.last().map_or(TxNum(0), |pack| pack.end)
    }
}
