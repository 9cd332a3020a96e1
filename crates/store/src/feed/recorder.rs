//! A store in files that keeps its changes for replicas.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::change::{Kind, Operation, RunFile, sealed};
use super::kept::{FeedBounds, Fetched, Kept, Sealed};
use crate::batch::Batch;
use crate::error::{Result, io_error};
use crate::range::{KeyRange, Page, PageLimit};
use crate::segments::SegmentStore;
use crate::store::{Array, BulkRun, FinishedRun, Prove, RunRows, Store};
use crate::table::{ArraySpec, Table};

/// Folder of the kept files in the folder of the store.
const FOLDER: &str = "feed";

/// A store in files, written through this value alone, that keeps its last changes.
#[derive(Debug)]
pub struct FeedStore {
    store: Arc<SegmentStore>,
    feed: Arc<Feed>,
    /// Whoever holds it publishes, so that changes are in the order of their publishes.
    publishing: Mutex<()>,
}

#[derive(Debug)]
struct Feed {
    folder: PathBuf,
    bounds: FeedBounds,
    state: Mutex<FeedState>,
}

#[derive(Debug)]
struct FeedState {
    kept: Kept,
    /// Number of the next file.
    next_file: u64,
    /// Operations since the last publish, encoded.
    operations: Vec<u8>,
    files: Vec<RunFile>,
    /// Set when an operation since the last publish is not among them.
    has_gap: bool,
}

// === impl FeedStore ===

impl FeedStore {
    /// Begins to keep the changes of a store. Nobody may write it in another way from now on.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the folder of kept files cannot be emptied.
    pub fn new(store: Arc<SegmentStore>, bounds: FeedBounds) -> Result<Self> {
        let folder = store.folder().join(FOLDER);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|source| io_error("remove", &folder, source))?;
        }
        fs::create_dir(&folder).map_err(|source| io_error("create", &folder, source))?;
        let base = store.manifest()?;
        let state = FeedState {
            // Nobody can have copied what was never published.
            kept: Kept::new(bounds, base.unwrap_or_default()),
            next_file: 0,
            operations: Vec::new(),
            files: Vec::new(),
            has_gap: false,
        };
        let feed = Arc::new(Feed { folder, bounds, state: Mutex::new(state) });
        Ok(Self { store, feed, publishing: Mutex::default() })
    }

    /// Returns the number of the first change after the publish of `manifest`; `None` if it was dropped.
    pub fn after(&self, manifest: &[u8]) -> Option<u64> {
        self.feed.state.lock().kept.after(manifest)
    }

    /// Returns the change of a number.
    pub fn change(&self, number: u64) -> Fetched {
        self.feed.state.lock().kept.get(number)
    }

    /// Returns the path of a kept file. It is gone once its change was dropped.
    pub fn file(&self, number: u64) -> PathBuf {
        self.feed.path(number)
    }
}

// === impl Feed ===

impl Feed {
    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.seg"))
    }

    fn record<'a>(&self, operations: impl IntoIterator<Item = Operation<'a>>) {
        let mut state = self.state.lock();
        for operation in operations {
            if state.has_gap {
                return;
            }
            operation.encode(&mut state.operations);
            if state.operations.len() > self.bounds.bytes {
                self.leave_gap(&mut state);
            }
        }
    }

    fn record_of(&self, spec: ArraySpec, kind: impl FnOnce(u32) -> Kind<'static>) {
        self.record([Operation { name: spec.name, kind: kind(record_bytes(spec)) }]);
    }

    /// Gives up the change under way.
    fn leave_gap(&self, state: &mut FeedState) {
        state.has_gap = true;
        state.operations = Vec::new();
        self.remove(&std::mem::take(&mut state.files));
    }

    /// Keeps the files of runs that are about to be moved in.
    fn keep(&self, runs: &[FinishedRun]) -> Vec<(&'static str, RunFile)> {
        let mut kept = Vec::new();
        for run in runs {
            let RunRows::Files(paths) = &run.rows else { continue };
            for path in paths {
                match self.keep_file(path) {
                    Some(file) => kept.push((run.table.name, file)),
                    None => return kept,
                }
            }
        }
        kept
    }

    /// Links a file; `None` if the change under way is not kept.
    fn keep_file(&self, path: &Path) -> Option<RunFile> {
        let mut state = self.state.lock();
        if state.has_gap {
            return None;
        }
        let number = state.next_file;
        let linked = fs::hard_link(path, self.path(number)).and_then(|()| fs::metadata(path));
        state.next_file += 1;
        let (kept, bytes) = match &linked {
            Ok(metadata) => (state.files.iter().map(|file| file.bytes).sum::<u64>() + metadata.len(), metadata.len()),
            Err(error) => {
                tracing::warn!(%error, "failed to keep a file for replicas; they will copy the store anew");
                (u64::MAX, 0)
            }
        };
        state.files.push(RunFile { number, bytes });
        if kept > self.bounds.file_bytes {
            self.leave_gap(&mut state);
            return None;
        }
        Some(RunFile { number, bytes })
    }

    fn seal(&self, manifest: &[u8]) {
        let mut state = self.state.lock();
        let (operations, files) = (std::mem::take(&mut state.operations), std::mem::take(&mut state.files));
        let dropped = if std::mem::take(&mut state.has_gap) {
            state.kept.skip(manifest)
        } else {
            let bytes = Arc::new(sealed(manifest, &operations));
            state.kept.push(Sealed { bytes, manifest: manifest.to_vec(), files })
        };
        self.remove(&dropped);
    }

    fn remove(&self, files: &[RunFile]) {
        for file in files {
            // The next start removes what stays behind.
            let _ = fs::remove_file(self.path(file.number));
        }
    }
}

fn record_bytes(spec: ArraySpec) -> u32 {
    u32::try_from(spec.record_bytes).expect("records are small")
}

impl Store for FeedStore {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.store.get_many(table, keys)
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        self.store.scan_many(table, ranges, limit)
    }

    fn write(&self, batch: Batch) -> Result<()> {
        self.store.write_batch(&batch)?;
        self.feed.record(batch.iter().map(|(table, key, value)| {
            let kind = value.map_or(Kind::Delete { key }, |value| Kind::Put { key, value });
            Operation { name: table.name, kind }
        }));
        Ok(())
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        let _alone = self.publishing.lock();
        self.store.publish(manifest)?;
        self.feed.seal(manifest);
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.store.manifest()
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        self.store.bulk_run(table)
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        let kept = self.feed.keep(&runs);
        let loaded = self.store.bulk_load(runs);
        if loaded.is_err() {
            // Nobody can say which of them were moved in.
            self.feed.leave_gap(&mut self.feed.state.lock());
        }
        loaded?;
        self.feed.record(kept.into_iter().enumerate().map(|(place, (name, file))| {
            let kind = if place == 0 { Kind::Load(file) } else { Kind::LoadWith(file) };
            Operation { name, kind }
        }));
        Ok(())
    }

    fn clear(&self, table: Table) -> Result<()> {
        self.store.clear(table)?;
        self.feed.record([Operation { name: table.name, kind: Kind::Clear }]);
        Ok(())
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        Ok(Arc::new(FeedArray { array: self.store.array(spec)?, spec, feed: Arc::clone(&self.feed) }))
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.store.sizes()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.store.free_bytes()
    }
}

/// An array of a [`FeedStore`].
struct FeedArray {
    array: Arc<dyn Array>,
    spec: ArraySpec,
    feed: Arc<Feed>,
}

impl Array for FeedArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        self.array.read_many(numbers)
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        self.array.read_run(first, count)
    }

    fn visit_run(&self, first: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.array.visit_run(first, count, visit)
    }

    fn visit_runs(&self, runs: &[(u64, usize)], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        self.array.visit_runs(runs, visit)
    }

    fn visit_parts(
        &self,
        first: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8], Prove<'_>) -> Result<()>,
    ) -> Result<()> {
        self.array.visit_parts(first, count, visit)
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        self.array.write(first, records)?;
        let kind = Kind::Records { record_bytes: record_bytes(self.spec), first, records };
        self.feed.record([Operation { name: self.spec.name, kind }]);
        Ok(())
    }

    /// Frees the space here alone: a replica keeps what it has.
    fn discard(&self, first: u64, count: u64) -> Result<()> {
        self.array.discard(first, count)
    }

    fn len(&self) -> u64 {
        self.array.len()
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let is_cut = len != self.array.len();
        self.array.truncate(len)?;
        if is_cut {
            self.feed.record_of(self.spec, |record_bytes| Kind::Cut { record_bytes, len });
        }
        Ok(())
    }
}
