//! The embedded engine of our own: a write-ahead log, a memtable, immutable sorted segments, and arrays as plain files
//! beside them.
//!
//! A write goes to the log and the memtable. A full memtable is frozen and flushed into a run of segments by a thread
//! of the store's own, which also merges runs of about one size, beside readers. A lookup asks the memtables, then the
//! runs from the newest on; the filter of a run tells mostly that it has nothing.
//!
//! Invariants: the log is synced by a publish alone, and keeps the order of writes, so what is found after a crash is a
//! prefix that holds the manifest; the state names a file only after that is durable, and logs go only after what they
//! hold is in segments that it names.
//!
//! Folder: `VERSION`, `lock`, `STATE`, `log/` (numbered files), `segments/` (one file each), `arrays/`, `bulk/` (runs
//! under way).
//!
//! Segments with disjoint keys form a *run*; a bulk load above the newest run extends it. The engine replaced RocksDB:
//! `docs/benchmarks-history.md` compares both.

mod backup;
mod block;
mod bulk;
mod cache;
mod files;
mod filter;
mod log;
mod memtable;
mod merge;
mod options;
mod replay;
mod segment;
mod shared;
#[cfg(feature = "cql")]
pub(crate) mod spool;
mod state;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, RwLock};

use self::bulk::SegmentRun;
use self::cache::BlockCache;
use self::files::{LAYOUT, STATE, last_file, log_path, numbers, remove_leftovers, remove_logs, segment_path};
use self::log::{LogWriter, TableNumber};
use self::memtable::Memtable;
use self::merge::Run;
pub use self::options::SegmentOptions;
use self::replay::Replayed;
use self::segment::{LastBlocks, Segment};
use self::shared::{Contents, Shared, Writer};
use self::state::{State, TableState};
use crate::array::Arrays;
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::folder::{Folder, disk_free_bytes};
use crate::journal;
use crate::range::{KeyRange, Page, PageLimit};
use crate::store::{Array, BulkRun, FinishedRun, Scrub, Store};
use crate::sync::sync_folder;
use crate::table::{ArraySpec, Table};

/// The embedded engine; one is shared by all threads.
#[doc(alias("LSM tree", "WAL", "write-ahead log"))]
pub struct SegmentStore {
    shared: Arc<Shared>,
    /// Flushes and merges.
    worker: Option<JoinHandle<()>>,
}

// === impl SegmentStore ===

impl SegmentStore {
    /// Opens the store in the folder `path`, creating what is missing. `tables` is the full list.
    ///
    /// # Errors
    /// [`Error::Io`] when another process holds the folder, [`Error::Engine`] when its format is another one,
    /// [`Error::Corrupt`] when it is damaged.
    pub fn open(path: &Path, tables: &[Table], options: SegmentOptions) -> Result<Self> {
        let folder = Folder::open(path, LAYOUT)?;
        let mut state = State::read(&folder.join(STATE))?;
        let logs = numbers(&folder.join("log"), "log")?;
        let mut replayed = Replayed::default();
        if let Some(state) = &state {
            let live: Vec<u64> = logs.iter().copied().filter(|number| *number >= state.first_log).collect();
            if live.first() != Some(&state.first_log) {
                let reason = format!("{} is missing", log_path(&folder, state.first_log).display());
                return Err(Error::Corrupt { table: "(log)".to_owned(), reason });
            }
            for number in live {
                replayed.take(&log_path(&folder, number))?;
            }
            if !replayed.has_checkpoint {
                let reason = format!("{} has no beginning", log_path(&folder, state.first_log).display());
                return Err(Error::Corrupt { table: "(log)".to_owned(), reason });
            }
        }
        let is_new = state.is_none();
        let state_now = state.get_or_insert_default();
        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let mut runs = open_runs(&folder, state_now, &cache)?;
        let last_log = logs.last().copied().unwrap_or(0);
        let mut numbered = Vec::new();
        for table in tables {
            numbered.push((*table, number_of(state_now, table.name)?));
        }
        state_now.next_file = state_now.next_file.max(1);
        remove_leftovers(&folder, state_now)?;
        let arrays = Arrays::open(folder.arrays(), replayed.array_states()?, replayed.leaves.len() as u64)?;
        journal::replay(&replayed.leaves, |array, at, bytes| arrays.replay(array, at, bytes))?;
        let log_number = last_log + 1;
        let path_of_log = log_path(&folder, log_number);
        let mut log =
            LogWriter::create(&path_of_log, replayed.manifest.as_deref(), &replayed.arrays, &replayed.leaves)?;
        log.sync()?;
        sync_folder(&folder.join("log"))?;
        if is_new || replayed.rows.is_empty() {
            state_now.first_log = log_number;
        }
        // Tables may be new as well.
        state_now.write(folder.path(), STATE)?;
        let state = state.expect("just made");
        remove_logs(&folder, state.first_log)?;
        tracing::debug!(path = %path.display(), tables = tables.len(), leaves = replayed.leaves.len(), "opened store");
        runs.resize_with(state.tables.len(), Vec::new);
        let by_number = state.tables.iter().map(|known| {
            let opened = tables.iter().find(|table| table.name == known.name);
            // Names live as long as the process: tables are few and known.
            let plain = || Table { name: String::leak(known.name.clone()), partition_bytes: 0, compress: false };
            opened.copied().unwrap_or_else(plain)
        });
        let shared = Arc::new(Shared {
            by_number: by_number.collect(),
            arrays,
            cache,
            options,
            tables: numbered,
            next_file: AtomicU64::new(state.next_file.max(last_file(&state) + 1)),
            publishing: Mutex::default(),
            merging: Mutex::default(),
            installed: Mutex::new(state),
            writer: Mutex::new(Writer { log, array_states: replayed.arrays, leaves: replayed.leaves }),
            contents: RwLock::new(Contents {
                manifest: replayed.manifest,
                active: replayed.rows,
                frozen: VecDeque::new(),
                runs,
            }),
            signal: Mutex::default(),
            changed: Condvar::new(),
            folder,
        });
        let worker = worker::spawn(Arc::clone(&shared));
        Ok(Self { shared, worker: Some(worker) })
    }

    /// Merges a table into one run, which reads fastest. It costs a rewrite of the table.
    pub fn compact(&self, table: Table) -> Result<()> {
        let number = self.shared.number(table)?;
        self.shared.flush_all()?;
        self.shared.merge_newest(number, usize::MAX)
    }

    /// Writes a batch, as [`Store::write`] does, and leaves it to the caller.
    pub(crate) fn write_batch(&self, batch: &Batch) -> Result<()> {
        self.shared.write(batch)
    }

    /// Returns the table of this name, if the store was opened with it.
    pub(crate) fn table(&self, name: &str) -> Option<Table> {
        self.shared.tables.iter().map(|(table, _)| *table).find(|table| table.name == name)
    }

    /// Returns the folder of the store.
    pub(crate) fn folder(&self) -> &Path {
        self.shared.folder.path()
    }

    /// Returns the folder of runs under way.
    pub(crate) fn bulk_folder(&self) -> PathBuf {
        self.shared.folder.bulk()
    }

    /// Takes a file that a run of another store has finished, and proves its checksums.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when it is damaged.
    pub(crate) fn adopt_run(&self, table: Table, path: PathBuf) -> Result<FinishedRun> {
        bulk::adopt_run(&self.shared, table, path)
    }

    /// Memory that cached blocks take.
    pub fn cache_bytes(&self) -> u64 {
        self.shared.cache.bytes()
    }

    /// Memory, about, of what is durable in the log alone: rows that are in no segment yet, and what was written to
    /// arrays since they were synced.
    pub fn unflushed_bytes(&self) -> u64 {
        let rows: usize = self.shared.read(|contents| contents.memtables().map(Memtable::bytes).sum());
        (rows + self.shared.arrays.journal().bytes()) as u64
    }

    /// Reads every file of the store beside readers and writers, and proves all checksums.
    ///
    /// # Errors
    /// [`Error::Io`] when a file cannot be read. Damage goes to `scrub`, and the scrub goes on.
    pub fn scrub(&self, scrub: &mut dyn Scrub) -> Result<()> {
        let shared = &self.shared;
        report(State::read(&shared.folder.join(STATE)), scrub)?;
        for number in numbers(&shared.folder.join("log"), "log")? {
            match log::replay(&log_path(&shared.folder, number), |_| Ok(())) {
                // It was flushed meanwhile.
                Err(Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => {}
                replayed => drop(report(replayed, scrub)?),
            }
        }
        let runs = shared.read(|contents| contents.runs.clone());
        for segment in runs.iter().flatten().flat_map(|run| run.0.iter()) {
            if report(segment.verify(scrub), scrub)?.is_some_and(|flow| flow.is_break()) {
                return Ok(());
            }
        }
        shared.arrays.scrub(scrub).map(drop)
    }

    /// Reads every file of the store and proves all checksums.
    ///
    /// # Errors
    /// The first damaged place, or [`Error::Io`].
    pub fn verify_checksums(&self) -> Result<()> {
        let mut first = Ok(());
        self.scrub(&mut |damage| {
            if first.is_ok() {
                first = Err(damage);
            }
        })?;
        first
    }
}

/// Passes damage on; other errors end the scrub.
fn report<T>(read: Result<T>, scrub: &mut dyn Scrub) -> Result<Option<T>> {
    match read {
        Err(damage @ Error::Corrupt { .. }) => {
            scrub.found(damage);
            Ok(None)
        }
        read => read.map(Some),
    }
}

impl Drop for SegmentStore {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has nothing more to give.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for SegmentStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentStore").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

impl Store for SegmentStore {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let number = self.shared.number(table)?;
        let (mut values, runs) = self.shared.read(|contents| {
            let values: Vec<_> = keys.iter().map(|key| contents.get(number, key)).collect();
            (values, contents.runs[usize::from(number)].clone())
        });
        for run in &runs {
            let mut last = LastBlocks::default();
            for (key, value) in keys.iter().zip(&mut values).filter(|(_, value)| value.is_none()) {
                *value = run.get(key, &mut last)?;
            }
        }
        Ok(values.into_iter().map(Option::flatten).collect())
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        let number = self.shared.number(table)?;
        ranges.iter().map(|range| self.shared.page(table, number, range, limit)).collect()
    }

    fn write(&self, batch: Batch) -> Result<()> {
        self.write_batch(&batch)
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        let _alone = self.shared.publishing.lock();
        let journal = self.shared.arrays.journal();
        let published = self.shared.publish_with(journal.take(), manifest);
        if published.is_err() {
            journal.failed();
        }
        published
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.shared.read(|contents| contents.manifest.clone()))
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        self.shared.number(table)?;
        Ok(Box::new(SegmentRun::new(Arc::clone(&self.shared), table)))
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        self.shared.load(bulk::files_by_table(runs)?)
    }

    fn clear(&self, table: Table) -> Result<()> {
        self.shared.clear(self.shared.number(table)?)
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        self.shared.arrays.array(spec)
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let bytes = self.shared.read(|contents| {
            let of_table = |runs: &Vec<Run>| runs.iter().map(Run::bytes).sum::<u64>();
            contents.runs.iter().map(of_table).collect::<Vec<_>>()
        });
        let tables = self.shared.tables.iter();
        let mut sizes: Vec<_> =
            tables.map(|(table, number)| (table.name.to_owned(), bytes[usize::from(*number)])).collect();
        sizes.extend(self.shared.arrays.sizes()?);
        Ok(sizes)
    }

    fn free_bytes(&self) -> Option<u64> {
        disk_free_bytes(self.shared.folder.path())
    }
}

// === opening ===

/// The number of a table, given to it when it is first opened.
fn number_of(state: &mut State, name: &str) -> Result<TableNumber> {
    let known = state.tables.iter().position(|table| table.name == name);
    let number = known.unwrap_or_else(|| {
        state.tables.push(TableState { name: name.to_owned(), runs: Vec::new() });
        state.tables.len() - 1
    });
    TableNumber::try_from(number).map_err(|_| Error::Engine("a store has at most 255 tables".to_owned()))
}

fn open_runs(folder: &Folder, state: &State, cache: &Arc<BlockCache>) -> Result<Vec<Vec<Run>>> {
    let open_table = |table: &TableState| {
        // Names live as long as the process: tables are few and known.
        let name: &'static str = String::leak(table.name.clone());
        let open_run = |files: &Vec<u64>| {
            let open = |file: &u64| Segment::open(&segment_path(folder, *file), *file, name, cache).map(Arc::new);
            files.iter().map(open).collect::<Result<_>>().map(Run)
        };
        table.runs.iter().map(open_run).collect::<Result<Vec<_>>>()
    };
    state.tables.iter().map(open_table).collect()
}
