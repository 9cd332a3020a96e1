//! Rows of packs, deltas and stale blocks, read from end to end in the order of their keys.

use std::collections::VecDeque;

use birdhouse_store::{KeyRange, PageLimit, Row, Table};

use crate::error::{Error, Result};
use crate::merging::new_blocks::NewBlocks;
use crate::names::{ScriptKey, TxNum};
use crate::rows::{Coin, Delta, Filters, Found, Pack, Part, Share, long, recent, recent_txnum, script, stale, txnum};
use crate::state::Snapshot;

/// Rows read at once.
const PAGE: PageLimit = PageLimit { rows: 1024, bytes: 1 << 20 };

/// The next item of a source; `None` at its end.
type Items<'a, K, T> = dyn FnMut() -> Result<Option<(K, T)>> + 'a;

/// A source of items that ascend by key, one item ahead.
pub(super) struct Ascending<'a, K, T> {
    items: Box<Items<'a, K, T>>,
    next: Option<(K, T)>,
}

impl<'a, K: Copy + Ord, T> Ascending<'a, K, T> {
    fn new(mut items: impl FnMut() -> Result<Option<(K, T)>> + 'a) -> Result<Self> {
        let next = items()?;
        Ok(Self { items: Box::new(items), next })
    }

    /// The key of the next item.
    pub(super) fn key(&self) -> Option<K> {
        self.next.as_ref().map(|(key, _)| *key)
    }

    /// Takes the next item if it has this key.
    pub(super) fn take(&mut self, key: K) -> Result<Option<T>> {
        if self.key() != Some(key) {
            return Ok(None);
        }
        let next = (self.items)()?;
        Ok(std::mem::replace(&mut self.next, next).map(|(_, item)| item))
    }
}

/// The part of each script in a pack.
pub(super) fn scripts_of_pack<'a>(
    snapshot: &'a Snapshot,
    pack: &'a Pack,
    share: Share,
) -> Result<Ascending<'a, ScriptKey, Part>> {
    let table = script::table(pack);
    let mut rows = Rows::new(snapshot, table, share.buckets(pack.script_bits));
    let mut waiting: VecDeque<(ScriptKey, Found)> = VecDeque::new();
    Ascending::new(move || {
        while waiting.is_empty() {
            let Some((key, value)) = rows.next()? else { return Ok(None) };
            script::each(&key, &value, pack, |script, found| {
                waiting.push_back((script, found));
                Ok(())
            })
            .map_err(Error::malformed(table))?;
        }
        let (script, found) = waiting.pop_front().expect("just filled");
        let part = match found {
            Found::Inline(part) => part,
            Found::Long => whole_long_part(snapshot, pack, script)?,
        };
        Ok(Some((script, part)))
    })
}

fn whole_long_part(snapshot: &Snapshot, pack: &Pack, script: ScriptKey) -> Result<Part> {
    let table = long::table(pack);
    let mut part = Part::default();
    snapshot.reader().scan(table, &script.to_bytes(), |(key, value)| {
        let (_, kind) = long::decode_key(key).map_err(Error::malformed(table))?;
        long::decode_into(kind, key, value, &mut part).map_err(Error::malformed(table))
    })?;
    if part.txnums.is_empty() { Err(Error::missing(table, "the rows of a long script")) } else { Ok(part) }
}

/// The part of each script in a delta, by its live transactions.
pub(super) fn scripts_of_delta<'a>(
    snapshot: &'a Snapshot,
    delta: &'a Delta,
    share: Share,
) -> Result<Ascending<'a, ScriptKey, Part>> {
    let mut rows = RecentRows::new(snapshot, recent::table(delta), share);
    Ascending::new(move || {
        let mut live = Vec::new();
        let mut script = None;
        while let Some((key, txnum)) = rows.key()? {
            if *script.get_or_insert(key) != key {
                break;
            }
            let row = rows.take()?;
            if snapshot.is_live(txnum) {
                live.push((txnum, row));
            } else if live.is_empty() {
                // Nothing of this script so far: another one may begin the item.
                script = None;
            }
        }
        let mut part = Part::default();
        part.extend(&live);
        Ok(script.filter(|_| !live.is_empty()).map(|script| (script, part)))
    })
}

/// The outputs of each script that stale transactions of the packs spent.
pub(super) fn respent(snapshot: &Snapshot, share: Share) -> Result<Ascending<'_, ScriptKey, Vec<Coin>>> {
    let mut rows = RecentRows::new(snapshot, stale::TABLE, share);
    Ascending::new(move || {
        let mut coins = Vec::new();
        let mut script = None;
        while let Some((key, txnum)) = rows.key()? {
            let counts = snapshot.stale.iter().any(|range| range.contains(txnum));
            if counts && *script.get_or_insert(key) != key {
                break;
            }
            let row = rows.take()?;
            if counts {
                coins.extend(row.spent);
            }
        }
        Ok(script.map(|script| (script, coins)))
    })
}

/// The transactions of new blocks, by what `pack` keeps of the hash.
pub(super) fn txnums_of_new<'a>(
    blocks: &'a NewBlocks,
    pack: &'a Pack,
    share: Share,
) -> Result<Ascending<'a, (u64, TxNum), ()>> {
    let mut lists = blocks.kept_hashes(pack.key_length, share);
    let mut waiting = Vec::new().into_iter();
    Ascending::new(move || {
        loop {
            if let Some(item) = waiting.next() {
                return Ok(Some((item, ())));
            }
            let Some(list) = lists.next() else { return Ok(None) };
            waiting = list?.into_iter();
        }
    })
}

/// The live transactions of a pack, by what packs keep of the hash.
pub(super) fn txnums_of_pack<'a>(
    snapshot: &'a Snapshot,
    pack: &'a Pack,
    share: Share,
) -> Result<Ascending<'a, (u64, TxNum), ()>> {
    let table = txnum::table(pack);
    let mut rows = Rows::new(snapshot, table, share.buckets(pack.txnum_bits));
    let mut waiting: VecDeque<(u64, TxNum)> = VecDeque::new();
    Ascending::new(move || {
        while waiting.is_empty() {
            let Some((key, value)) = rows.next()? else { return Ok(None) };
            txnum::each(&key, &value, pack, |hash, txnum| {
                if snapshot.stale.is_empty() || snapshot.is_live(txnum) {
                    waiting.push_back((hash, txnum));
                }
            })
            .map_err(Error::malformed(table))?;
            // Of one hash the order in a bucket is that of whole hashes.
            waiting.make_contiguous().sort_unstable();
        }
        Ok(waiting.pop_front().map(|item| (item, ())))
    })
}

/// The live transactions of a delta, by what `pack` keeps of the hash.
pub(super) fn txnums_of_delta<'a>(
    snapshot: &'a Snapshot,
    delta: &'a Delta,
    pack: &'a Pack,
    share: Share,
) -> Result<Ascending<'a, (u64, TxNum), ()>> {
    let table = recent_txnum::table(delta);
    let mut rows = Rows::new(snapshot, table, share.hashes());
    let mut waiting: Vec<(u64, TxNum)> = Vec::new();
    let mut ahead: Option<(u64, TxNum)> = None;
    Ascending::new(move || {
        if waiting.is_empty() {
            // All transactions of one kept hash, since their order is that of whole hashes.
            waiting.extend(ahead.take());
            while let Some((key, _)) = rows.next()? {
                let (hash, txnum) = recent_txnum::decode_key(&key).map_err(Error::malformed(table))?;
                if !snapshot.is_live(txnum) {
                    continue;
                }
                let item = (txnum::kept(hash, pack.key_length), txnum);
                if waiting.first().is_some_and(|first| first.0 != item.0) {
                    ahead = Some(item);
                    break;
                }
                waiting.push(item);
            }
            waiting.sort_unstable_by(|left, right| right.cmp(left));
        }
        Ok(waiting.pop().map(|item| (item, ())))
    })
}

/// Adds the keys of a pack to filters.
pub(crate) fn keys_of_pack(snapshot: &Snapshot, pack: &Pack, filters: &Filters) -> Result<()> {
    let table = script::table(pack);
    let mut rows = Rows::new(snapshot, table, Share::ALL.buckets(pack.script_bits));
    while let Some((key, value)) = rows.next()? {
        let keys = script::keys(&key, &value, pack).map_err(Error::malformed(table))?;
        for script in keys {
            filters.scripts.add(script.prefix);
        }
    }
    let table = txnum::table(pack);
    let mut rows = Rows::new(snapshot, table, Share::ALL.buckets(pack.txnum_bits));
    while let Some((key, value)) = rows.next()? {
        txnum::each(&key, &value, pack, |hash, _| filters.txids.add(hash)).map_err(Error::malformed(table))?;
    }
    Ok(())
}

/// Adds the keys of a delta to filters.
pub(crate) fn keys_of_delta(snapshot: &Snapshot, delta: &Delta, filters: &Filters) -> Result<()> {
    let mut rows = RecentRows::new(snapshot, recent::table(delta), Share::ALL);
    while let Some((script, _)) = rows.key()? {
        filters.scripts.add(script.prefix);
        rows.next = None;
    }
    let table = recent_txnum::table(delta);
    let mut rows = Rows::new(snapshot, table, Share::ALL.hashes());
    while let Some((key, _)) = rows.next()? {
        let (hash, _) = recent_txnum::decode_key(&key).map_err(Error::malformed(table))?;
        filters.txids.add(txnum::kept(hash, snapshot.shared.keyer.length()));
    }
    Ok(())
}

/// The rows of a range, ascending.
struct Rows<'a> {
    snapshot: &'a Snapshot,
    table: Table,
    page: std::vec::IntoIter<Row>,
    rest: Option<KeyRange>,
}

impl<'a> Rows<'a> {
    fn new(snapshot: &'a Snapshot, table: Table, range: KeyRange) -> Self {
        Self { snapshot, table, page: Vec::new().into_iter(), rest: Some(range) }
    }

    fn next(&mut self) -> Result<Option<Row>> {
        loop {
            if let Some(row) = self.page.next() {
                return Ok(Some(row));
            }
            let Some(range) = self.rest.take() else { return Ok(None) };
            let store = &self.snapshot.storage.store;
            let page = store.scan_many(self.table, &[range], PAGE)?.pop().unwrap_or_default();
            (self.page, self.rest) = (page.rows.into_iter(), page.rest);
        }
    }
}

/// The rows of a share in a table in the form of `recent`, one row ahead.
struct RecentRows<'a> {
    rows: Rows<'a>,
    next: Option<Row>,
}

impl<'a> RecentRows<'a> {
    fn new(snapshot: &'a Snapshot, table: Table, share: Share) -> Self {
        Self { rows: Rows::new(snapshot, table, share.hashes()), next: None }
    }

    /// Script and transaction of the next row.
    fn key(&mut self) -> Result<Option<(ScriptKey, TxNum)>> {
        if self.next.is_none() {
            self.next = self.rows.next()?;
        }
        let Some((key, _)) = &self.next else { return Ok(None) };
        recent::decode_key(key).map(Some).map_err(Error::malformed(self.rows.table))
    }

    /// Takes the next row, after [`Self::key`] has found one.
    fn take(&mut self) -> Result<recent::Recent> {
        let (_, value) = self.next.take().expect("a row was found");
        recent::decode(&value).map_err(Error::malformed(self.rows.table))
    }
}
