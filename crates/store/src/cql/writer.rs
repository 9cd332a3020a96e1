//! The store of the process that holds the lease.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::array::{ArrayRef, WriterArray, WrittenArray};
use super::chunk_cache::ChunkCache;
use super::cluster::{Cluster, Tables};
use super::epoch::Epoch;
use super::lease::{Attempt, Candidate, Lease};
use super::options::CqlOptions;
use super::published::{ArrayState, Published};
use super::runs;
use super::sweep::Sweeper;
use super::tables::{Changes, WrittenTables};
use crate::batch::Batch;
use crate::error::{Result, not_whole_records, record_size_differs};
use crate::range::{KeyRange, Page, PageLimit};
use crate::store::{Array, BulkRun, FinishedRun, Store};
use crate::table::{ArraySpec, Table};

/// The pause between two attempts to take a lease.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);
/// Rows of bulk runs that are written together.
const LOADED_ROWS: usize = 20_000;
/// Bytes of rows of bulk runs that are written together.
const LOADED_BYTES: usize = 8 << 20;

/// A store on a cluster, open for writing. Dropping it gives up its lease.
pub struct CqlStore {
    pub(super) epoch: Arc<Epoch>,
    options: CqlOptions,
    pub(super) tables: WrittenTables,
    arrays: Mutex<Arrays>,
    cache: Arc<ChunkCache>,
    sweeper: Mutex<Sweeper>,
    next_file: AtomicU64,
    /// The last manifest; held by a publish.
    manifest: Mutex<Option<Vec<u8>>>,
}

/// The arrays that are open, and the states of others.
#[derive(Default)]
struct Arrays {
    open: BTreeMap<String, Arc<WrittenArray>>,
    closed: BTreeMap<String, ArrayState>,
}

// === impl CqlStore ===

impl CqlStore {
    /// Takes the lease of a place and opens its store; waits while another process holds the lease. Returns `None` if
    /// `stop` is set first.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) when the cluster does not answer;
    /// [`Error::Corrupt`](crate::Error::Corrupt) when its state cannot be read.
    pub fn open(options: CqlOptions, stop: &AtomicBool) -> Result<Option<Self>> {
        runs::empty_folder(&options.spool)?;
        let cluster = Cluster::connect(&options, Tables::Create)?;
        let Some((lease, state)) = acquire(&cluster, &options, stop)? else { return Ok(None) };
        let epoch = Epoch::begin(cluster, lease, options.lease);
        let published = state.as_deref().map(Published::decode).transpose()?.unwrap_or_default();
        let tables = WrittenTables::new(&options.place, published.tables);
        let mut sweeper = Sweeper::new(published.retired, options.grace);
        for (name, generation) in tables.begin_empty(&epoch)? {
            sweeper.retire(&name, generation);
        }
        Ok(Some(Self {
            epoch: Arc::new(epoch),
            tables,
            arrays: Mutex::new(Arrays { closed: published.arrays, ..Arrays::default() }),
            cache: Arc::new(ChunkCache::new(options.cache_bytes)),
            sweeper: Mutex::new(sweeper),
            next_file: AtomicU64::new(0),
            manifest: Mutex::new(published.manifest),
            options,
        }))
    }

    /// Returns true once another process is known to have taken over the lease. Nothing can be published then.
    pub fn is_fenced(&self) -> bool {
        self.epoch.check().is_err()
    }

    fn array_states(&self) -> Result<Prepared> {
        let arrays = self.arrays.lock();
        let mut prepared = Prepared { states: arrays.closed.clone(), open: Vec::new() };
        for array in arrays.open.values() {
            let (state, deleted) = array.prepare(&self.epoch)?;
            prepared.states.insert(array.name().to_owned(), state.clone());
            prepared.open.push((Arc::clone(array), state, deleted));
        }
        Ok(prepared)
    }
}

/// The states of all arrays to publish; of open ones also the chunks that are then to be deleted.
struct Prepared {
    states: BTreeMap<String, ArrayState>,
    open: Vec<(Arc<WrittenArray>, ArrayState, Vec<std::ops::Range<u64>>)>,
}

fn acquire(cluster: &Cluster, options: &CqlOptions, stop: &AtomicBool) -> Result<Option<(Lease, Option<Vec<u8>>)>> {
    let nonce = RandomState::new().build_hasher().finish();
    let (place, silence) = (options.place.as_str().into(), options.lease);
    let owner = format!("{} {nonce:016x}", options.owner);
    let mut candidate = cluster.wait(|link| async move { Candidate::new(link, place, owner).await })?;
    while !stop.load(Ordering::Relaxed) {
        match cluster.wait(|link| candidate.attempt(link, silence))? {
            Attempt::Acquired(lease, state) => return Ok(Some((lease, state))),
            Attempt::Wait(again) => candidate = again,
        }
        std::thread::sleep(ATTEMPT_PAUSE.min(silence));
    }
    Ok(None)
}

impl Store for CqlStore {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let Some(table) = self.tables.current(table) else { return Ok(vec![None; keys.len()]) };
        let keys = keys.iter().map(|key| key.to_vec()).collect();
        self.epoch.cluster.wait(|link| table.get_many(link, keys))
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        let Some(table) = self.tables.current(table) else { return Ok(vec![Page::default(); ranges.len()]) };
        let ranges = ranges.to_vec();
        self.epoch.cluster.wait(|link| table.scan_many(link, ranges, limit))
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let mut changes = Changes::default();
        batch.iter().for_each(|(table, key, value)| changes.add(table, key, value));
        if changes.is_empty() { Ok(()) } else { self.tables.change(&self.epoch, changes) }
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        let mut current = self.manifest.lock();
        self.epoch.check()?;
        let Prepared { states, open } = self.array_states()?;
        let (tables, retired) = (self.tables.states(), self.sweeper.lock().all());
        let state = Published { tables, arrays: states, retired, manifest: Some(manifest.to_vec()) };
        self.epoch.publish(state.encode())?;
        *current = state.manifest;
        for (array, state, deleted) in open {
            array.published(&self.epoch, state, deleted, self.options.grace);
        }
        let due = self.sweeper.lock().published(Instant::now());
        due.begin(&self.epoch, &self.options.place);
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.manifest.lock().clone())
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(runs::begin(&self.options.spool, table, number)?))
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        for run in runs {
            runs::each_part(run, LOADED_ROWS, LOADED_BYTES, |table, rows| {
                let mut changes = Changes::default();
                for (key, value) in &rows {
                    changes.add(table, key, Some(value));
                }
                self.tables.change(&self.epoch, changes)
            })?;
        }
        Ok(())
    }

    fn clear(&self, table: Table) -> Result<()> {
        self.epoch.check()?;
        if let Some(old) = self.tables.begin(&self.epoch, table.name) {
            self.sweeper.lock().retire(table.name, old);
        }
        Ok(())
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        if spec.record_bytes == 0 {
            return Err(not_whole_records(spec.name, 0, 0));
        }
        let mut arrays = self.arrays.lock();
        let state = arrays.closed.remove(spec.name);
        let array = arrays.open.entry(spec.name.to_owned()).or_insert_with(|| {
            let new = || ArrayState { record_bytes: spec.record_bytes, ..ArrayState::default() };
            let state = state.unwrap_or_else(new);
            let spec = ArraySpec { record_bytes: state.record_bytes, ..spec };
            let array = ArrayRef::new(&self.options.place, spec, Arc::clone(&self.cache));
            Arc::new(WrittenArray::new(array, state))
        });
        if array.record_bytes() != spec.record_bytes {
            return Err(record_size_differs(spec.name, array.record_bytes(), spec.record_bytes));
        }
        Ok(Arc::new(WriterArray { epoch: Arc::clone(&self.epoch), array: Arc::clone(array) }))
    }

    /// Bytes of tables are those written since they were cleared; the cluster does not count them.
    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let tables = self.tables.states().into_iter().map(|(name, state)| (name, state.bytes));
        let arrays = self.arrays.lock();
        let open = arrays.open.iter().map(|(name, array)| (name.clone(), array.used_bytes()));
        let closed = arrays.closed.iter().map(|(name, state)| (name.clone(), state.used_bytes()));
        Ok(tables.chain(open).chain(closed).collect())
    }
}
