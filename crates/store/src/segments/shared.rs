//! State that the store and its thread share: the log, the memtables, the runs and the state, and the steps that change
//! them.
//!
//! Locks are taken in the order `merging`, `installed`, `writer`, `contents`; nothing is read from the disk under
//! `contents`.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, RwLock};

use super::block::OwnedValue;
use super::cache::BlockCache;
use super::files::{STATE, log_path, numbers, remove_segments, segment_path};
use super::log::{JournalChange, LogWriter, Record, TableNumber};
use super::memtable::{self, Memtable};
use super::merge::{Merge, Run, Source};
use super::options::SegmentOptions;
use super::segment::Segment;
use super::state::State;
use crate::array::{Arrays, state};
use crate::batch::Batch;
use crate::error::{Error, Result, io_error};
use crate::folder::Folder;
use crate::journal::Due;
use crate::range::{KeyRange, Page, PageBuilder, PageLimit};
use crate::sync::sync_folder;
use crate::table::Table;

/// Frozen memtables that may wait for being flushed; then writers wait.
pub(super) const FROZEN_MAX: usize = 2;

/// State that the store and its thread share.
pub(super) struct Shared {
    pub(super) options: SegmentOptions,
    /// All tables, by number. Those that the store was not opened with are written without filters and compression.
    pub(super) by_number: Vec<Table>,
    /// The tables that the store was opened with.
    pub(super) tables: Vec<(Table, TableNumber)>,
    pub(super) arrays: Arrays,
    pub(super) cache: Arc<BlockCache>,
    pub(super) next_file: AtomicU64,
    /// Whoever holds it publishes.
    pub(super) publishing: Mutex<()>,
    /// Whoever holds it merges runs.
    pub(super) merging: Mutex<()>,
    /// The state on the disk. Whoever holds it changes which files are live.
    pub(super) installed: Mutex<State>,
    pub(super) writer: Mutex<Writer>,
    pub(super) contents: RwLock<Contents>,
    pub(super) signal: Mutex<Signal>,
    /// Told when there is work, when some is done, and at the end.
    pub(super) changed: Condvar,
    /// The lock on the folder; let go last.
    pub(super) folder: Folder,
}

pub(super) struct Writer {
    pub(super) log: LogWriter,
    /// States of the arrays at their last sync, as the log has them.
    pub(super) array_states: Vec<u8>,
    /// Leaves of the arrays' journal since the arrays were synced.
    pub(super) leaves: Vec<Vec<u8>>,
}

/// The rows that readers see.
pub(super) struct Contents {
    pub(super) manifest: Option<Vec<u8>>,
    pub(super) active: Memtable,
    /// The newest first.
    pub(super) frozen: VecDeque<Arc<Frozen>>,
    /// By table number; the newest run first.
    pub(super) runs: Vec<Vec<Run>>,
}

/// Bytes at which a log ends, whatever rows it has: publishes alone would let it grow for ever. It is several times the
/// leaves that its checkpoint repeats.
pub(super) const LOG_BYTES_MAX: u64 = 64 << 20;

/// A memtable that takes no more rows.
pub(super) struct Frozen {
    pub(super) rows: Memtable,
    /// The first log that is needed when these rows are in segments.
    pub(super) next_log: u64,
}

/// State of the thread and of those who wait for it.
#[derive(Debug, Default)]
pub(super) struct Signal {
    pub(super) is_stopped: bool,
    /// Why the last flush failed.
    pub(super) failure: Option<String>,
}

// === impl Shared ===

impl Shared {
    pub(super) fn number(&self, table: Table) -> Result<TableNumber> {
        let found = self.tables.iter().find(|(known, _)| known.name == table.name);
        found
            .map(|(_, number)| *number)
            .ok_or_else(|| Error::Engine(format!("table {} is not among those the store was opened with", table.name)))
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Contents) -> T) -> T {
        read(&self.contents.read())
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        change(&mut self.contents.write())
    }

    pub(super) fn write(&self, batch: &Batch) -> Result<()> {
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
    pub(super) fn freeze(&self, writer: &mut Writer) -> Result<()> {
        let folder = self.folder.join("log");
        let number = numbers(&folder, "log")?.last().copied().unwrap_or(0) + 1;
        let path = log_path(&self.folder, number);
        writer.log = self.begin_log(&path, writer).inspect_err(|_| {
            // Its checkpoint is read after the log that goes on, and would take back what that publishes.
            let is_gone = match fs::remove_file(&path) {
                Ok(()) => sync_folder(&folder).is_ok(),
                Err(error) => error.kind() == ErrorKind::NotFound,
            };
            if !is_gone {
                writer.log.refuse();
            }
        })?;
        self.change(|contents| {
            let rows = std::mem::take(&mut contents.active);
            contents.frozen.push_front(Arc::new(Frozen { rows, next_log: number }));
        });
        self.changed.notify_all();
        Ok(())
    }

    /// Begins a log with a checkpoint, durable when this returns: the logs before go as soon as the rows are flushed.
    fn begin_log(&self, path: &Path, writer: &Writer) -> Result<LogWriter> {
        let manifest = self.read(|contents| contents.manifest.clone());
        let mut log = LogWriter::create(path, manifest.as_deref(), &writer.array_states, &writer.leaves)?;
        log.sync()?;
        sync_folder(&self.folder.join("log"))?;
        Ok(log)
    }

    pub(super) fn publish_with(&self, due: Due, manifest: &[u8]) -> Result<()> {
        let synced = if matches!(due, Due::Sync(_)) { Some(state::encode(&self.arrays.sync()?)) } else { None };
        let mut writer = self.writer.lock();
        let journal = match (&due, &synced) {
            (Due::Leaf(_, leaf), _) => JournalChange::Leaf(leaf),
            (_, Some(arrays)) => JournalChange::Synced(arrays),
            (_, None) => JournalChange::Nothing,
        };
        writer.log.append(&Record::Publish { manifest, journal })?;
        writer.log.sync()?;
        if let Due::Leaf(_, leaf) = due {
            writer.leaves.push(leaf);
        }
        if let Some(arrays) = synced {
            writer.leaves.clear();
            writer.array_states = arrays;
        }
        self.arrays.published();
        if let Err(error) = writer.log.append(&Record::End) {
            // The publish is durable without it.
            tracing::warn!(%error, "failed to end a publish in the log");
        }
        let has_room = self.change(|contents| {
            contents.manifest = Some(manifest.to_vec());
            contents.frozen.len() < FROZEN_MAX
        });
        if has_room
            && writer.log.bytes() >= LOG_BYTES_MAX
            && let Err(error) = self.freeze(&mut writer)
        {
            // The publish is durable; the next one tries again.
            tracing::warn!(%error, "failed to begin a new log");
        }
        Ok(())
    }

    pub(super) fn page(&self, table: Table, number: TableNumber, range: &KeyRange, limit: PageLimit) -> Result<Page> {
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

    /// Moves finished files in as new runs, one a table. Where all of their keys come after those of the newest run,
    /// they extend it: a table that is loaded in ascending parts is one run.
    pub(super) fn load(&self, files: Vec<(Table, Vec<PathBuf>)>) -> Result<()> {
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
            let (files, segments): (Vec<u64>, Vec<_>) = segments.into_iter().unzip();
            let newest = self.read(|contents| contents.runs[usize::from(number)].first().cloned());
            let extended = newest.filter(|newest| segments.first().is_some_and(|first| newest.ends_before(first)));
            let runs = &mut next.tables[usize::from(number)].runs;
            match &extended {
                Some(_) => runs[0].extend(files),
                None => runs.insert(0, files),
            }
            loaded.push((number, extended, segments));
        }
        sync_folder(&self.folder.join("segments"))?;
        self.install(&mut installed, next)?;
        self.change(|contents| {
            for (number, extended, segments) in loaded {
                let runs = &mut contents.runs[usize::from(number)];
                match extended {
                    Some(newest) => runs[0] = newest.extended(segments),
                    None => runs.insert(0, Run(segments.into())),
                }
            }
        });
        self.changed.notify_all();
        Ok(())
    }

    pub(super) fn clear(&self, number: TableNumber) -> Result<()> {
        self.flush_all()?;
        let mut installed = self.installed.lock();
        let mut next = installed.clone();
        next.tables[usize::from(number)].runs.clear();
        self.install(&mut installed, next)?;
        let gone = self.change(|contents| std::mem::take(&mut contents.runs[usize::from(number)]));
        remove_segments(&gone);
        Ok(())
    }

    pub(super) fn open_segment(&self, number: u64, table: &'static str) -> Result<Arc<Segment>> {
        Segment::open(&segment_path(&self.folder, number), number, table, &self.cache).map(Arc::new)
    }

    /// Replaces the state, durably.
    pub(super) fn install(&self, installed: &mut State, mut next: State) -> Result<()> {
        next.next_file = self.next_file.load(Ordering::Relaxed);
        next.write(self.folder.path(), STATE)?;
        *installed = next;
        Ok(())
    }
}

// === impl Contents ===

impl Contents {
    /// The newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        std::iter::once(&self.active).chain(self.frozen.iter().map(|frozen| &frozen.rows))
    }

    pub(super) fn get(&self, table: TableNumber, key: &[u8]) -> Option<OwnedValue> {
        self.memtables().find_map(|rows| rows.get(table, key)).map(|value| value.map(<[u8]>::to_vec))
    }
}
