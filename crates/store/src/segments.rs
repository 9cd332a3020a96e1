//! The embedded engine of our own: a write-ahead log, a memtable, immutable sorted segments, and arrays as plain files beside them.
//!
//! A write goes to the log and the memtable. A full memtable is frozen and flushed into a run of segments by a thread of the store's own,
//! which also merges runs of about one size, beside readers. A lookup asks the memtables, then the runs from the newest on; the filter of a
//! run tells mostly that it has nothing.
//!
//! Invariants: the log is synced by a publish alone, and keeps the order of writes, so what is found after a crash is a prefix that holds
//! the manifest; the state names a file only after that is durable, and logs go only after what they hold is in segments that it names.
//! Locks are taken in the order `merging`, `installed`, `writer`, `contents`; nothing is read from the disk under `contents`.
//!
//! Folder: `VERSION`, `lock`, `STATE`, `log/` (numbered files), `segments/` (one file each), `arrays/`, `bulk/` (runs under way).

mod block;
mod bulk;
mod cache;
mod filter;
mod log;
mod memtable;
mod merge;
mod segment;
mod state;
mod worker;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, RwLock};

use self::block::OwnedValue;
use self::bulk::SegmentRun;
use self::cache::BlockCache;
use self::log::{JournalChange, LogWriter, Record, TableNumber};
use self::memtable::Memtable;
use self::merge::{Merge, Run, Source};
use self::segment::Segment;
use self::state::{State, TableState};
use self::worker::Signal;
use crate::array::{Arrays, sync_folder};
use crate::error::io_error;
use crate::folder::{Folder, Layout};
use crate::journal::{self, Due, Journal};
use crate::range::PageBuilder;
use crate::{Array, ArraySpec, Batch, BulkRun, Error, FinishedRun, KeyRange, Page, PageLimit, Result, Store, Table};

const STATE: &str = "STATE";
const LAYOUT: Layout = Layout { format: "2", parts: &["segments", "log"] };
/// Frozen memtables that may wait for being flushed; then writers wait.
const FROZEN_MAX: usize = 2;

/// What an operator may set.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// Bytes of rows that are written and not yet flushed; up to three times as much while a flush is under way.
    pub memtable_bytes: usize,
    /// Bytes at which a run goes on in a new segment.
    pub segment_bytes: u64,
    /// Bytes of blocks that are kept in memory, of all tables together.
    pub cache_bytes: u64,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { memtable_bytes: 32 << 20, segment_bytes: 256 << 20, cache_bytes: 64 << 20 }
    }
}

/// The embedded engine; one is shared by all threads.
pub struct SegmentStore {
    shared: Arc<Shared>,
    /// Flushes and merges.
    worker: Option<JoinHandle<()>>,
}

/// What the store and its thread share.
struct Shared {
    options: SegmentOptions,
    /// The tables that the store was opened with.
    tables: Vec<(Table, TableNumber)>,
    arrays: Arrays,
    cache: Arc<BlockCache>,
    next_file: AtomicU64,
    /// Whoever holds it publishes.
    publishing: Mutex<()>,
    /// Whoever holds it merges runs.
    merging: Mutex<()>,
    /// The state on the disk. Whoever holds it changes which files are live.
    installed: Mutex<State>,
    writer: Mutex<Writer>,
    contents: RwLock<Contents>,
    signal: Mutex<Signal>,
    /// Told when there is work, when some is done, and at the end.
    changed: Condvar,
    /// The lock on the folder; let go last.
    folder: Folder,
}

struct Writer {
    log: LogWriter,
    /// Leaves of the arrays' journal since the arrays were synced.
    leaves: Vec<Vec<u8>>,
}

/// What readers see.
struct Contents {
    manifest: Option<Vec<u8>>,
    active: Memtable,
    /// The newest first.
    frozen: VecDeque<Arc<Frozen>>,
    /// By table number; the newest run first.
    runs: Vec<Vec<Run>>,
}

/// A memtable that takes no more rows.
struct Frozen {
    rows: Memtable,
    /// The first log that is needed when these rows are in segments.
    next_log: u64,
}

// === impl SegmentStore ===

impl SegmentStore {
    /// Opens the store in the folder `path`, creating what is missing. `tables` is the full list.
    ///
    /// # Errors
    /// [`Error::Io`] when another process holds the folder, [`Error::Engine`] when its format is another one, [`Error::Corrupt`]
    /// when it is damaged.
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
        journal::replay(&replayed.leaves, &folder.arrays())?;
        let log_number = last_log + 1;
        let path_of_log = log_path(&folder, log_number);
        let mut log = LogWriter::create(&path_of_log, replayed.manifest.as_deref(), &replayed.leaves)?;
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
        let shared = Arc::new(Shared {
            arrays: Arrays::new(folder.arrays(), Journal::after(replayed.leaves.len() as u64)),
            cache,
            options,
            tables: numbered,
            next_file: AtomicU64::new(state.next_file.max(last_file(&state) + 1)),
            publishing: Mutex::default(),
            merging: Mutex::default(),
            installed: Mutex::new(state),
            writer: Mutex::new(Writer { log, leaves: replayed.leaves }),
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

    /// Memory that cached blocks take.
    pub fn cache_bytes(&self) -> u64 {
        self.shared.cache.bytes()
    }

    /// Reads every block of every segment and proves its checksum. Arrays have none.
    pub fn verify_checksums(&self) -> Result<()> {
        let runs = self.shared.read(|contents| contents.runs.clone());
        runs.iter().flatten().flat_map(|run| &run.0).try_for_each(|segment| segment.verify())
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
        for (key, value) in keys.iter().zip(&mut values) {
            for run in &runs {
                if value.is_none() {
                    *value = run.get(key)?;
                }
            }
        }
        Ok(values.into_iter().map(Option::flatten).collect())
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        let number = self.shared.number(table)?;
        ranges.iter().map(|range| self.shared.page(table, number, range, limit)).collect()
    }

    fn write(&self, batch: Batch) -> Result<()> {
        self.shared.write(&batch)
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
        self.shared.arrays.open(spec)
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
}

// === impl Shared ===

impl Shared {
    fn number(&self, table: Table) -> Result<TableNumber> {
        let found = self.tables.iter().find(|(known, _)| known.name == table.name);
        found
            .map(|(_, number)| *number)
            .ok_or_else(|| Error::Engine(format!("table {} is not among those the store was opened with", table.name)))
    }

    fn read<T>(&self, read: impl FnOnce(&Contents) -> T) -> T {
        read(&self.contents.read())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        change(&mut self.contents.write())
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        let mut rows = Vec::with_capacity(batch.len());
        for (table, key, value) in batch.iter() {
            rows.push((self.number(table)?, key, value));
        }
        self.wait_for_room()?;
        let mut writer = self.writer.lock();
        let record = Record::Rows(rows);
        writer.log.append(&record)?;
        let Record::Rows(rows) = record else { unreachable!("it was made of rows") };
        let is_full = self.change(|contents| {
            for (table, key, value) in rows {
                contents.active.put(table, key, value);
            }
            contents.active.bytes() >= self.options.memtable_bytes
        });
        if is_full { self.freeze(&mut writer) } else { Ok(()) }
    }

    /// Goes on with an empty memtable and a new log.
    fn freeze(&self, writer: &mut Writer) -> Result<()> {
        let (is_empty, manifest) = self.read(|contents| (contents.active.is_empty(), contents.manifest.clone()));
        if is_empty {
            return Ok(());
        }
        let number = numbers(&self.folder.join("log"), "log")?.last().copied().unwrap_or(0) + 1;
        let mut log = LogWriter::create(&log_path(&self.folder, number), manifest.as_deref(), &writer.leaves)?;
        // The logs before go as soon as the rows are flushed.
        log.sync()?;
        sync_folder(&self.folder.join("log"))?;
        writer.log = log;
        self.change(|contents| {
            let rows = std::mem::take(&mut contents.active);
            contents.frozen.push_front(Arc::new(Frozen { rows, next_log: number }));
        });
        self.changed.notify_all();
        Ok(())
    }

    fn publish_with(&self, due: Due, manifest: &[u8]) -> Result<()> {
        if let Due::Sync(_) = due {
            self.arrays.sync()?;
        }
        let mut writer = self.writer.lock();
        let journal = match &due {
            Due::Nothing => JournalChange::Nothing,
            Due::Leaf(_, leaf) => JournalChange::Leaf(leaf),
            Due::Sync(_) => JournalChange::Synced,
        };
        writer.log.append(&Record::Publish { manifest, journal })?;
        writer.log.sync()?;
        match due {
            Due::Nothing => {}
            Due::Leaf(_, leaf) => writer.leaves.push(leaf),
            Due::Sync(_) => writer.leaves.clear(),
        }
        self.change(|contents| contents.manifest = Some(manifest.to_vec()));
        Ok(())
    }

    fn page(&self, table: Table, number: TableNumber, range: &KeyRange, limit: PageLimit) -> Result<Page> {
        let mut page = PageBuilder::new(range, limit);
        if range.is_empty() {
            return Ok(page.finish());
        }
        let (copied, runs) = self.read(|contents| {
            let memtables: Vec<_> = contents.memtables().collect();
            (memtable::copy(&memtables, number, range, limit), contents.runs[usize::from(number)].clone())
        });
        let within_partition = range.fits_partition(table.partition_bytes);
        let mut sources = vec![Source::copied(copied)];
        for run in runs {
            if !within_partition || run.may_have(&range.start)? {
                sources.push(Source::within(run, range)?);
            }
        }
        let mut merge = Merge::new(sources, range.direction);
        merge.each(|key, value| {
            Ok(match value {
                Some(value) => page.offer(key, value),
                // A deleted row outside of the range ends the page, too.
                None => range.contains(key),
            })
        })?;
        Ok(page.finish())
    }

    /// Moves finished files in as new runs, one a table.
    fn load(&self, files: Vec<(Table, Vec<PathBuf>)>) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        // What is loaded is newer than what was written.
        self.flush_all()?;
        let mut installed = self.installed.lock();
        let mut next = installed.clone();
        let mut loaded = Vec::new();
        for (table, paths) in files {
            let number = self.number(table)?;
            let mut segments = Vec::new();
            for path in paths {
                let file = self.next_file.fetch_add(1, Ordering::Relaxed);
                let home = segment_path(&self.folder, file);
                fs::rename(&path, &home).map_err(|source| io_error("move", &path, source))?;
                segments.push((file, self.open_segment(file, table.name)?));
            }
            segments.sort_by(|(_, left), (_, right)| left.last_key().cmp(&right.last_key()));
            let files = segments.iter().map(|(file, _)| *file).collect();
            next.tables[usize::from(number)].runs.insert(0, files);
            loaded.push((number, Run(segments.into_iter().map(|(_, segment)| segment).collect())));
        }
        sync_folder(&self.folder.join("segments"))?;
        self.install(&mut installed, next)?;
        self.change(|contents| {
            for (number, run) in loaded {
                contents.runs[usize::from(number)].insert(0, run);
            }
        });
        self.changed.notify_all();
        Ok(())
    }

    fn clear(&self, number: TableNumber) -> Result<()> {
        self.flush_all()?;
        let mut installed = self.installed.lock();
        let mut next = installed.clone();
        next.tables[usize::from(number)].runs.clear();
        self.install(&mut installed, next)?;
        let gone = self.change(|contents| std::mem::take(&mut contents.runs[usize::from(number)]));
        remove_segments(&gone);
        Ok(())
    }

    fn open_segment(&self, number: u64, table: &'static str) -> Result<Arc<Segment>> {
        Segment::open(&segment_path(&self.folder, number), number, table, &self.cache).map(Arc::new)
    }

    /// Replaces the state, durably.
    fn install(&self, installed: &mut State, mut next: State) -> Result<()> {
        next.next_file = self.next_file.load(Ordering::Relaxed);
        next.write(self.folder.path(), STATE)?;
        *installed = next;
        Ok(())
    }
}

// === impl Contents ===

impl Contents {
    /// The newest first.
    fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        std::iter::once(&self.active).chain(self.frozen.iter().map(|frozen| &frozen.rows))
    }

    fn get(&self, table: TableNumber, key: &[u8]) -> Option<OwnedValue> {
        self.memtables().find_map(|rows| rows.get(table, key)).map(|value| value.map(<[u8]>::to_vec))
    }
}

// === opening ===

/// What the logs of a store say.
#[derive(Default)]
struct Replayed {
    manifest: Option<Vec<u8>>,
    leaves: Vec<Vec<u8>>,
    rows: Memtable,
    has_checkpoint: bool,
}

impl Replayed {
    fn take(&mut self, path: &Path) -> Result<()> {
        log::replay(path, |record| {
            match record {
                Record::Checkpoint { manifest, leaves } => {
                    self.manifest = manifest.map(<[u8]>::to_vec);
                    self.leaves = leaves.into_iter().map(<[u8]>::to_vec).collect();
                    self.has_checkpoint = true;
                }
                Record::Rows(rows) => rows.into_iter().for_each(|(table, key, value)| self.rows.put(table, key, value)),
                Record::Publish { manifest, journal } => {
                    self.manifest = Some(manifest.to_vec());
                    match journal {
                        JournalChange::Nothing => {}
                        JournalChange::Leaf(leaf) => self.leaves.push(leaf.to_vec()),
                        JournalChange::Synced => self.leaves.clear(),
                    }
                }
            }
            Ok(())
        })
    }
}

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

fn last_file(state: &State) -> u64 {
    state.tables.iter().flat_map(|table| table.runs.iter().flatten()).copied().max().unwrap_or(0)
}

/// Removes segments that the state does not name.
fn remove_leftovers(folder: &Folder, state: &State) -> Result<()> {
    let live: BTreeSet<u64> = state.tables.iter().flat_map(|table| table.runs.iter().flatten()).copied().collect();
    for number in numbers(&folder.join("segments"), "seg")? {
        if !live.contains(&number) {
            let path = segment_path(folder, number);
            fs::remove_file(&path).map_err(|source| io_error("remove", &path, source))?;
        }
    }
    Ok(())
}

fn remove_logs(folder: &Folder, first: u64) -> Result<()> {
    for number in numbers(&folder.join("log"), "log")? {
        if number < first {
            let path = log_path(folder, number);
            fs::remove_file(&path).map_err(|source| io_error("remove", &path, source))?;
        }
    }
    Ok(())
}

fn remove_segments(runs: &[Run]) {
    for segment in runs.iter().flat_map(|run| &run.0) {
        // Whoever still reads it has it open; what stays behind goes when the store is opened.
        let _ = fs::remove_file(segment.path());
    }
}

/// Numbers of the files with an ending in a folder, ascending.
fn numbers(folder: &Path, ending: &str) -> Result<Vec<u64>> {
    let failed = |source| io_error("list", folder, source);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('.'));
        if let Some((number, _)) = parts.filter(|(_, found)| *found == ending) {
            numbers.extend(number.parse::<u64>());
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn segment_path(folder: &Folder, number: u64) -> PathBuf {
    folder.join("segments").join(format!("{number:08}.seg"))
}

fn log_path(folder: &Folder, number: u64) -> PathBuf {
    folder.join("log").join(format!("{number:08}.log"))
}
