//! The engine in memory: the reference for the other engines, and the one that simulates crashes.
//!
//! It is as harsh as the contract allows: a crash loses or keeps unpublished writes row by row, a failed batch may be
//! half written, a failed publish may have happened (see [`MemoryStore::crash`]).

mod array;
mod data;
mod faults;
mod state;

use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use self::array::MemoryArray;
use self::data::{Data, Records, Rows};
use self::faults::{Change, Coin};
use self::state::State;
use crate::batch::Batch;
use crate::error::{Error, Result, keys_do_not_ascend, not_whole_records, record_size_differs};
use crate::range::{Direction, KeyRange, Page, PageBuilder, PageLimit, Row};
use crate::store::{Array, BulkRun, FinishedRun, Replica, RunRows, Store};
use crate::table::{ArraySpec, Table};

/// The engine in memory. A clone is another handle of the same store.
///
/// The crate's description shows it in use.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<RwLock<State>>,
    /// It stands for a store on another machine.
    is_remote: bool,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every write after the next `writes` ones fail, half done. Batches, publishes, bulk runs and loads, clears,
    /// and writes and cuts of arrays count one each.
    pub fn fail_after(&self, writes: u64) {
        self.state.write().writes_left = Some(writes);
    }

    /// Sets the bytes that [`Store::free_bytes`] returns. Writes do not use them up.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.state.write().free_bytes = Some(bytes);
    }

    /// Returns the store as an orderly close leaves it. Simulated faults end.
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self::with_data(self.state.read().data.clone())
    }

    /// Returns the store as a power cut leaves it: the last published manifest and everything written before it. Of
    /// later writes, `seed` decides row by row and record by record which are lost.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.state.read();
        let mut coin = Coin::new(seed);
        let mut data = state.data.clone();
        if let Some(manifest) = &state.doubtful_manifest
            && coin.toss()
        {
            data.manifest = Some(manifest.clone());
            return Self::with_data(data);
        }
        state.journal.iter().rev().for_each(|change| change.undo(&mut data));
        state.journal.iter().for_each(|change| change.redo(&mut data, &mut coin));
        Self::with_data(data)
    }

    fn with_data(data: Data) -> Self {
        Self { state: Arc::new(RwLock::new(State { data, ..State::default() })), is_remote: false }
    }
}

impl Store for MemoryStore {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let state = self.state.read();
        let rows = state.data.tables.get(table.name);
        Ok(keys.iter().map(|&key| rows.and_then(|rows| rows.get(key).cloned())).collect())
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        let state = self.state.read();
        let Some(rows) = state.data.tables.get(table.name) else {
            return Ok(vec![Page::default(); ranges.len()]);
        };
        Ok(ranges.iter().map(|range| page(rows, range, limit)).collect())
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut state = self.state.write();
        let spent = state.spend();
        let kept = if spent.is_ok() { batch.len() } else { batch.len() / 2 };
        for (table, key, value) in batch.iter().take(kept) {
            state.set_row(table, key.to_vec(), value.map(<[u8]>::to_vec));
        }
        spent
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        let mut state = self.state.write();
        if let Err(error) = state.spend() {
            state.doubtful_manifest = Some(manifest.to_vec());
            return Err(error);
        }
        state.data.manifest = Some(manifest.to_vec());
        state.doubtful_manifest = None;
        state.journal.clear();
        state.free();
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.state.read().data.manifest.clone())
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        Ok(Box::new(MemoryRun { store: self.clone(), table, rows: Vec::new() }))
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        let mut state = self.state.write();
        let spent = state.spend();
        let kept = if spent.is_ok() { runs.len() } else { runs.len() / 2 };
        for run in runs.into_iter().take(kept) {
            let RunRows::Memory(rows) = run.rows else {
                return Err(Error::Engine("failed to load a bulk run: it belongs to another engine".to_owned()));
            };
            for (key, value) in rows {
                state.set_row(run.table, key, Some(value));
            }
        }
        spent
    }

    fn clear(&self, table: Table) -> Result<()> {
        let mut state = self.state.write();
        state.spend()?;
        let before = state.data.tables.remove(table.name).unwrap_or_default();
        state.journal.push(Change::Clear { table: table.name, before });
        Ok(())
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        if spec.record_bytes == 0 {
            return Err(not_whole_records(spec.name, 0, 0));
        }
        let mut state = self.state.write();
        match state.data.arrays.entry(spec.name) {
            Entry::Occupied(open) if open.get().record_bytes != spec.record_bytes => {
                return Err(record_size_differs(spec.name, open.get().record_bytes, spec.record_bytes));
            }
            entry => entry.or_insert_with(|| Records::new(spec.record_bytes)),
        };
        Ok(Arc::new(MemoryArray { state: Arc::clone(&self.state), spec, is_remote: self.is_remote }))
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let state = self.state.read();
        let tables = state
            .data
            .tables
            .iter()
            .map(|(&name, rows)| (name, rows.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()));
        let tables = tables.map(|(name, bytes)| (name, bytes as u64));
        let arrays = state.data.arrays.iter().map(|(&name, records)| (name, records.used_bytes()));
        Ok(tables.chain(arrays).map(|(name, bytes)| (name.to_owned(), bytes)).collect())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.state.read().free_bytes
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }
}

/// Returns one page of one range.
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

// === impl MemoryReplica ===

/// The published states of a [`MemoryStore`]. A state also has what was written and not published before it was taken,
/// as every engine may show, and is read as if it were on another machine.
#[derive(Debug)]
pub struct MemoryReplica {
    store: MemoryStore,
    /// The last state that was given.
    newest: Mutex<Option<Arc<MemoryStore>>>,
}

impl MemoryReplica {
    /// Returns the published states of `store`.
    pub fn new(store: &MemoryStore) -> Self {
        Self { store: store.clone(), newest: Mutex::default() }
    }
}

impl Replica for MemoryReplica {
    fn newest(&self) -> Result<Option<Arc<dyn Store>>> {
        let mut newest = self.newest.lock();
        let manifest = self.store.manifest()?;
        let known = newest.as_ref().map(|state| state.manifest()).transpose()?.flatten();
        if manifest.is_some() && manifest != known {
            *newest = Some(Arc::new(MemoryStore { is_remote: true, ..self.store.reopen() }));
        }
        Ok(newest.clone().map(|state| state as Arc<dyn Store>))
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

    fn finish(self: Box<Self>) -> Result<FinishedRun> {
        self.store.state.write().spend()?;
        Ok(FinishedRun { table: self.table, rows: RunRows::Memory(self.rows) })
    }
}

#[cfg(test)]
mod tests;
