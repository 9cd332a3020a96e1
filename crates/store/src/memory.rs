//! The engine in memory: the reference the others are compared with, and the one that can be crashed.
//!
//! It is as harsh as the contract allows: what was not published may be lost or kept row by row, a batch
//! that fails may be half written, a publish that fails may have happened (see [`MemoryStore::crash`]).

mod array;
mod faults;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::array::{MemoryArray, Records};
use self::faults::{Change, Coin};
use crate::error::{keys_do_not_ascend, not_whole_records, record_size_differs};
use crate::range::PageBuilder;
use crate::store::SealedRows;
use crate::{
    Array, ArraySpec, Batch, BulkRun, Direction, Error, KeyRange, Page, PageLimit, Result, Row, SealedRun, Store, Table,
};

/// The engine in memory. A clone is another handle of the same store.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<RwLock<State>>,
}

#[derive(Debug, Default)]
struct State {
    data: Data,
    /// What was written since the last publish, to be lost or kept by a crash.
    journal: Vec<Change>,
    /// How many more writes succeed; without a number all do.
    writes_left: Option<u64>,
    /// The mark of a publish that failed, and so may or may not have reached the disk.
    doubtful_mark: Option<Vec<u8>>,
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone, Default)]
struct Data {
    tables: BTreeMap<&'static str, Rows>,
    arrays: BTreeMap<&'static str, Records>,
    mark: Option<Vec<u8>>,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// After `writes` more writes (batches, publishes, bulk runs and loads, clears, and writes and cuts of
    /// arrays count one each) every further one fails, half done.
    pub fn fail_after(&self, writes: u64) {
        self.change().writes_left = Some(writes);
    }

    /// The store that is found after closing this one in good order. Faults end.
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self::with_data(self.read().data.clone())
    }

    /// The store that is found after a power cut now: the last published mark and all that was written
    /// before it; of the rest, `seed` decides row by row and record by record what was lost.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.read();
        let mut coin = Coin::new(seed);
        let mut data = state.data.clone();
        if let Some(mark) = &state.doubtful_mark
            && coin.toss()
        {
            data.mark = Some(mark.clone());
            return Self::with_data(data);
        }
        state.journal.iter().rev().for_each(|change| change.undo(&mut data));
        state.journal.iter().for_each(|change| change.redo(&mut data, &mut coin));
        Self::with_data(data)
    }

    fn with_data(data: Data) -> Self {
        Self { state: Arc::new(RwLock::new(State { data, ..State::default() })) }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("nothing panics while the state is held")
    }

    fn change(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("nothing panics while the state is held")
    }
}

impl Store for MemoryStore {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let state = self.read();
        let rows = state.data.tables.get(table.name);
        Ok(keys.iter().map(|&key| rows.and_then(|rows| rows.get(key).cloned())).collect())
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        let state = self.read();
        let Some(rows) = state.data.tables.get(table.name) else {
            return Ok(vec![Page::default(); ranges.len()]);
        };
        Ok(ranges.iter().map(|range| page(rows, range, limit)).collect())
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut state = self.change();
        let spent = state.spend();
        let kept = if spent.is_ok() { batch.len() } else { batch.len() / 2 };
        for (table, key, value) in batch.iter().take(kept) {
            state.set_row(table, key.to_vec(), value.map(<[u8]>::to_vec));
        }
        spent
    }

    fn publish(&self, mark: &[u8]) -> Result<()> {
        let mut state = self.change();
        if let Err(error) = state.spend() {
            state.doubtful_mark = Some(mark.to_vec());
            return Err(error);
        }
        state.data.mark = Some(mark.to_vec());
        state.doubtful_mark = None;
        state.journal.clear();
        Ok(())
    }

    fn mark(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.read().data.mark.clone())
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        Ok(Box::new(MemoryRun { store: self.clone(), table, rows: Vec::new() }))
    }

    fn bulk_load(&self, runs: Vec<SealedRun>) -> Result<()> {
        let mut state = self.change();
        let spent = state.spend();
        let kept = if spent.is_ok() { runs.len() } else { runs.len() / 2 };
        for run in runs.into_iter().take(kept) {
            let SealedRows::Memory(rows) = run.rows else {
                return Err(Error::Engine("a run of another engine".to_owned()));
            };
            for (key, value) in rows {
                state.set_row(run.table, key, Some(value));
            }
        }
        spent
    }

    fn clear(&self, table: Table) -> Result<()> {
        let mut state = self.change();
        state.spend()?;
        let before = state.data.tables.remove(table.name).unwrap_or_default();
        state.journal.push(Change::Clear { table: table.name, before });
        Ok(())
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        if spec.record_bytes == 0 {
            return Err(not_whole_records(spec.name, 0, 0));
        }
        let mut state = self.change();
        match state.data.arrays.entry(spec.name) {
            Entry::Occupied(open) if open.get().record_bytes != spec.record_bytes => {
                return Err(record_size_differs(spec.name, open.get().record_bytes, spec.record_bytes));
            }
            entry => entry.or_insert_with(|| Records::new(spec.record_bytes)),
        };
        Ok(Arc::new(MemoryArray { store: self.clone(), spec }))
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let state = self.read();
        let tables = state
            .data
            .tables
            .iter()
            .map(|(&name, rows)| (name, rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()));
        let arrays = state.data.arrays.iter().map(|(&name, records)| (name, records.bytes.len()));
        Ok(tables.chain(arrays).map(|(name, bytes)| (name.to_owned(), bytes as u64)).collect())
    }
}

/// One page of one range.
fn page(rows: &Rows, range: &KeyRange, limit: PageLimit) -> Page {
    let mut page = PageBuilder::new(range, limit);
    if range.is_empty() {
        return page.finish();
    }
    let end = match range.end.as_slice() {
        [] => Bound::Unbounded,
        end => Bound::Excluded(end),
    };
    let mut walk = rows.range::<[u8], _>((Bound::Included(range.start.as_slice()), end));
    let mut next = || match range.direction {
        Direction::Forward => walk.next(),
        Direction::Backward => walk.next_back(),
    };
    while let Some((key, value)) = next()
        && page.offer(key, value)
    {}
    page.finish()
}

// === impl State ===

impl State {
    /// Counts one write against [`MemoryStore::fail_after`].
    fn spend(&mut self) -> Result<()> {
        match &mut self.writes_left {
            Some(0) => Err(Error::Io {
                action: "writing in memory".to_owned(),
                source: std::io::Error::other("simulated fault"),
            }),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn set_row(&mut self, table: Table, key: Vec<u8>, after: Option<Vec<u8>>) {
        let before = self.data.set_row(table.name, key.clone(), after.clone());
        self.journal.push(Change::Row { table: table.name, key, before, after });
    }
}

impl Data {
    /// Writes or deletes a row and returns what stood there.
    fn set_row(&mut self, table: &'static str, key: Vec<u8>, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let rows = self.tables.entry(table).or_default();
        match value {
            Some(value) => rows.insert(key, value),
            None => rows.remove(&key),
        }
    }
}

// === impl MemoryRun ===

struct MemoryRun {
    store: MemoryStore,
    table: Table,
    rows: Vec<Row>,
}

impl BulkRun for MemoryRun {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.rows.last().is_some_and(|(last, _)| key <= last.as_slice()) {
            return Err(keys_do_not_ascend(self.table.name));
        }
        self.rows.push((key.to_vec(), value.to_vec()));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<SealedRun> {
        self.store.change().spend()?;
        Ok(SealedRun { table: self.table, rows: SealedRows::Memory(self.rows) })
    }
}

#[cfg(test)]
mod tests;
