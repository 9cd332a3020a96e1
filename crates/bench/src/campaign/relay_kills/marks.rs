//! Marks of what the writer's threads are doing, in a file, so that they are there after SIGKILL. A store that sets a
//! mark around every call that writes.

use std::cell::Cell;
use std::fs::File;
use std::io::Result as IoResult;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use birdhouse_store::{
    Array, ArraySpec, Batch, BulkRun, FinishedRun, KeyRange, Page, PageLimit, Prove, Result, Store, Table,
};

/// The calls under way in one thread: one of [`WORK`], and one of [`WRITES`] below it.
const MARK_BYTES: u64 = 2;

/// Works of threads.
pub(crate) const WORK: [&str; 7] = ["rest", "open", "accept", "compact", "expire", "index words", "commit words"];
/// Writing calls below them. Arrays follow, in the order of [`ARRAYS`].
const WRITES: [&str; 4] = ["", "publish", "write rows", "give back"];
/// Arrays by name.
const ARRAYS: [&str; 9] = ["event", "body", "moved", "unit", "dead", "posting", "list", "id", "fence"];
/// Threads by slot.
const THREADS: usize = 3;

thread_local! {
    /// Slot of the thread, and its mark.
    static MARK: Cell<(u64, [u8; 2])> = const { Cell::new((0, [0; 2])) };
}

/// The file of marks.
#[derive(Debug, Clone)]
pub(crate) struct Marks(Arc<File>);

/// Resets a mark when it is dropped.
pub(crate) struct Marked<'a>(&'a Marks, [u8; 2]);

/// The moment of a kill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Moment(Vec<[u8; 2]>);

/// A store that sets marks.
pub(crate) struct MarkedStore<S> {
    pub(crate) store: Arc<S>,
    pub(crate) marks: Marks,
}

struct MarkedArray {
    array: Arc<dyn Array>,
    marks: Marks,
    write: u8,
}

// === impl Marks ===

impl Marks {
    pub(crate) fn create(path: &Path) -> IoResult<Self> {
        let file = File::create(path)?;
        file.set_len(MARK_BYTES * THREADS as u64)?;
        Ok(Self(Arc::new(file)))
    }

    /// Gives the current thread its slot.
    pub(crate) fn enter(thread: u8) {
        MARK.set((thread.into(), [0; 2]));
    }

    /// Sets the work of the thread, one of [`WORK`].
    pub(crate) fn work(&self, name: &str) -> Marked<'_> {
        let work = WORK.iter().position(|work| *work == name).and_then(|work| u8::try_from(work).ok());
        self.set([work.expect("a name of the list"), 0])
    }

    fn write(&self, write: u8) -> Marked<'_> {
        let (_, [work, _]) = MARK.get();
        self.set([work, write])
    }

    fn set(&self, mark: [u8; 2]) -> Marked<'_> {
        let (slot, before) = MARK.get();
        MARK.set((slot, mark));
        // Two bytes that one call writes are both there or none. A failure makes a coarser histogram.
        let _ = self.0.write_all_at(&mark, MARK_BYTES * slot);
        Marked(self, before)
    }
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        let (slot, _) = MARK.get();
        MARK.set((slot, self.1));
        let _ = self.0.0.write_all_at(&self.1, MARK_BYTES * slot);
    }
}

// === impl Moment ===

impl Moment {
    /// Reads the marks that a killed process left behind.
    pub(crate) fn read(path: &Path) -> IoResult<Self> {
        Ok(Self(std::fs::read(path)?.as_chunks().0.to_vec()))
    }

    /// Returns the names of the writing calls that were under way: `accept: publish`, `compact: write posting`.
    pub(crate) fn writes(&self) -> Vec<String> {
        // The full-text index writes its files by itself, most of all in a commit.
        let writing = self.0.iter().filter(|[work, write]| *write != 0 || WORK[usize::from(*work)] == "commit words");
        writing.map(|[work, write]| name(usize::from(*work), usize::from(*write))).collect()
    }
}

fn name(work: usize, write: usize) -> String {
    let write = match write.checked_sub(WRITES.len()) {
        None => WRITES[write].to_owned(),
        Some(array) => format!("write {}", ARRAYS.get(array).unwrap_or(&"another array")),
    };
    [WORK[work], write.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

fn array_code(name: &str) -> u8 {
    let array = ARRAYS.iter().position(|array| *array == name).unwrap_or(ARRAYS.len());
    u8::try_from(WRITES.len() + array).expect("few names")
}

// === impl MarkedStore ===

impl<S: Store> Store for MarkedStore<S> {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.store.get_many(table, keys)
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        self.store.scan_many(table, ranges, limit)
    }

    fn write(&self, batch: Batch) -> Result<()> {
        let _mark = self.marks.write(2);
        self.store.write(batch)
    }

    fn publish(&self, manifest: &[u8]) -> Result<()> {
        let _mark = self.marks.write(1);
        self.store.publish(manifest)
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.store.manifest()
    }

    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        self.store.bulk_run(table)
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        self.store.bulk_load(runs)
    }

    fn clear(&self, table: Table) -> Result<()> {
        self.store.clear(table)
    }

    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        let (array, marks, write) = (self.store.array(spec)?, self.marks.clone(), array_code(spec.name));
        Ok(Arc::new(MarkedArray { array, marks, write }))
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.store.sizes()
    }
}

impl Array for MarkedArray {
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
        let _mark = self.marks.write(self.write);
        self.array.write(first, records)
    }

    fn discard(&self, first: u64, count: u64) -> Result<()> {
        let _mark = self.marks.write(3);
        self.array.discard(first, count)
    }

    fn len(&self) -> u64 {
        self.array.len()
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let _mark = self.marks.write(self.write);
        self.array.truncate(len)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn marks_name_the_calls_under_way() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let marks = Marks::create(file.path()).unwrap();
        Marks::enter(1);
        let now = || Moment::read(file.path()).unwrap().writes();
        assert!(now().is_empty());
        let compacting = marks.work("compact");
        assert!(now().is_empty(), "it only reads");
        let posting = marks.write(array_code("posting"));
        assert_eq!(now(), ["compact: write posting"]);
        drop(posting);
        let published = marks.write(1);
        assert_eq!(now(), ["compact: publish"]);
        drop((published, compacting));
        assert!(now().is_empty());
        let committing = marks.work("commit words");
        assert_eq!(now(), ["commit words"]);
        drop(committing);
        let _indexing = marks.work("index words");
        assert!(now().is_empty(), "most of it is in memory");
    }
}
