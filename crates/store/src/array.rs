//! Arrays as plain files: record `n` lies at byte `n * record_bytes`, and the file holds nothing else.
//!
//! Measured against an engine, a plain file is exact in size and two to thirteen times cheaper to read when cached. Its
//! checksums lie beside it (see `checked`). Every record that a manifest covers is there, because publish syncs the
//! file first or writes the changes to the journal; what no publish covered is cut when the store is opened.
//!
//! Invariants: the file always holds whole records; a record below `len` was written or is zeros; after a failed sync
//! the array refuses to publish until it is opened again, because the kernel may have dropped the pages it could not
//! write.

mod checked;
pub(crate) mod extents;
mod pages;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use self::checked::CheckedFile;
use self::pages::Window;
use self::state::{ArrayState, ArrayStates};
use crate::error::{Error, Result, io_error, not_whole_records, past_end, record_size_differs};
use crate::journal::Journal;
use crate::store::{Array, Prove, Scrub};
use crate::table::ArraySpec;

/// The unit of `st_blocks`, whatever the block size of the file system.
const STAT_BLOCK_BYTES: u64 = 512;

/// The smallest number of records in a dense list.
const DENSE_RECORDS_MIN: usize = 64;
/// Largest mean distance of records in a dense list, in bytes: below it the disk reads the whole range faster.
const DENSE_GAP_BYTES_MAX: usize = 16 << 10;

/// Number of records requested from the disk together.
const TOGETHER: usize = 64;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Cache lines of each range that are requested before the range is visited; most ranges are no longer.
const LINES_TOUCHED: usize = 6;
/// Bytes of a run that is loaded as a whole before it is visited: the disk would read it page by page.
const LONG_RUN_BYTES: usize = 64 << 10;
/// The time above which [`TOGETHER`] records came from the disk; from memory they take some microseconds.
const SLOW_TOUCH: Duration = Duration::from_micros(30);

/// The arrays of one folder.
#[derive(Debug)]
pub(crate) struct Arrays {
    folder: PathBuf,
    /// The changes since the last sync.
    journal: Arc<Journal>,
    files: Mutex<BTreeMap<String, Found>>,
    open: Mutex<BTreeMap<&'static str, Arc<FileArray>>>,
    /// Held to free discarded ranges; shared by backups, which still copy them.
    freeing: RwLock<()>,
}

/// The file of an array.
#[derive(Debug, Clone)]
enum Found {
    Whole(Arc<CheckedFile>),
    /// It is shorter than its published state. Whoever needs it gets this reason.
    Damaged(ArrayState, String),
}

/// One array in one file.
#[derive(Debug)]
struct FileArray {
    spec: ArraySpec,
    file: Arc<CheckedFile>,
    journal: Arc<Journal>,
    /// Set when the last read waited for the disk.
    waits_for_disk: AtomicBool,
}

// === impl Arrays ===

impl Arrays {
    /// Opens the files that published states describe. A damaged one is an error for whoever opens its array.
    pub(crate) fn open(folder: PathBuf, states: ArrayStates, leaves: u64) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (name, state) in states {
            let found = match CheckedFile::open(&folder, &name, state.clone()) {
                Ok(file) => Found::Whole(Arc::new(file)),
                Err(Error::Corrupt { reason, .. }) => Found::Damaged(state, reason),
                Err(error) => return Err(error),
            };
            files.insert(name, found);
        }
        let journal = Arc::new(Journal::after(leaves));
        Ok(Self { folder, journal, files: Mutex::new(files), open: Mutex::default(), freeing: RwLock::default() })
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the file of an array, a new one if there is none.
    fn file(&self, name: &str) -> Result<Arc<CheckedFile>> {
        let mut files = self.files.lock();
        match files.get(name) {
            Some(Found::Whole(file)) => Ok(Arc::clone(file)),
            Some(Found::Damaged(_, reason)) => {
                Err(Error::Corrupt { table: format!("array {name}"), reason: reason.clone() })
            }
            None => {
                let file = Arc::new(CheckedFile::open(&self.folder, name, ArrayState::default())?);
                files.insert(name.to_owned(), Found::Whole(Arc::clone(&file)));
                Ok(file)
            }
        }
    }

    /// Repeats a write that a leaf of the journal has.
    pub(crate) fn replay(&self, name: &str, at: u64, bytes: &[u8]) -> Result<()> {
        match self.file(name) {
            Ok(file) => file.write(at, bytes).map(drop),
            // It stays as it is.
            Err(Error::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens the array that `spec` names; every caller gets the same one.
    pub(crate) fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        let mut open = self.open.lock();
        if let Some(array) = open.get(spec.name) {
            let bytes = array.spec.record_bytes;
            return if bytes == spec.record_bytes {
                Ok(Arc::clone(array) as _)
            } else {
                Err(record_size_differs(spec.name, bytes, spec.record_bytes))
            };
        }
        let array = Arc::new(FileArray::new(spec, self.file(spec.name)?, Arc::clone(&self.journal))?);
        open.insert(spec.name, Arc::clone(&array));
        Ok(array)
    }

    fn whole(&self) -> Vec<Arc<CheckedFile>> {
        let files = self.files.lock();
        let whole = files.values().filter_map(|found| match found {
            Found::Whole(file) => Some(Arc::clone(file)),
            Found::Damaged(..) => None,
        });
        whole.collect()
    }

    /// Makes every record written so far durable, and returns the states that the log keeps.
    pub(crate) fn sync(&self) -> Result<ArrayStates> {
        let state_of = |(name, found): (&String, &Found)| match found {
            Found::Whole(file) => (name.clone(), file.state()),
            Found::Damaged(state, _) => (name.clone(), state.clone()),
        };
        let states = self.files.lock().iter().map(state_of).collect();
        let (dirty, clean): (Vec<_>, Vec<_>) = self.whole().into_iter().partition(|file| file.is_dirty());
        // Each sync waits for the journal of the file system: in parallel they wait once.
        let synced: Result<Vec<()>> = match dirty.as_slice() {
            [] => Ok(Vec::new()),
            [only] => only.sync().map(|()| Vec::new()),
            [first, others @ ..] => thread::scope(|scope| {
                let others: Vec<_> = others.iter().map(|file| scope.spawn(|| file.sync())).collect();
                let first = std::iter::once(first.sync());
                first.chain(others.into_iter().map(|other| other.join().expect("syncing never panics"))).collect()
            }),
        };
        synced?;
        clean.iter().try_for_each(|file| file.sync())?;
        Ok(states)
    }

    /// Takes note that a publish succeeded.
    pub(crate) fn published(&self) {
        let freeing = self.freeing.try_write();
        for file in self.whole() {
            file.published();
            if freeing.is_some()
                && let Err(error) = file.free()
            {
                // The space is given back when the store is opened.
                tracing::warn!(%error, "failed to free space of an array");
            }
        }
    }

    /// Keeps discarded ranges on the disk while the guard lives; a later publish frees them.
    pub(crate) fn keep_discarded(&self) -> RwLockReadGuard<'_, ()> {
        self.freeing.read()
    }

    /// Reads and proves every page of every array.
    pub(crate) fn scrub(&self, scrub: &mut dyn Scrub) -> Result<ControlFlow<()>> {
        for (name, damaged) in &*self.files.lock() {
            if let Found::Damaged(_, reason) = damaged {
                scrub.found(Error::Corrupt { table: format!("array {name}"), reason: reason.clone() });
            }
        }
        for file in self.whole() {
            if file.scrub(scrub)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the allocated bytes of every array in the folder, opened or not, with its checksums.
    pub(crate) fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let failed = |source| io_error("list", &self.folder, source);
        let mut sizes = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let array = name.strip_suffix(".crc").unwrap_or(&name).to_owned();
            *sizes.entry(array).or_default() += metadata.blocks() * STAT_BLOCK_BYTES;
        }
        Ok(sizes.into_iter().collect())
    }
}

// === impl FileArray ===

impl FileArray {
    fn new(spec: ArraySpec, file: Arc<CheckedFile>, journal: Arc<Journal>) -> Result<Self> {
        if spec.record_bytes == 0 {
            return Err(not_whole_records(spec.name, 0, 0));
        }
        if !file.bytes().is_multiple_of(spec.record_bytes as u64) {
            let reason = format!("{} bytes are not whole records of {}", file.bytes(), spec.record_bytes);
            return Err(Error::Corrupt { table: spec.name.to_owned(), reason });
        }
        Ok(Self { spec, file, journal, waits_for_disk: AtomicBool::new(false) })
    }

    /// Loads the beginnings of these ranges, and long ones as a whole, into the cache, so that the waits for disk and
    /// memory overlap.
    fn touch(&self, window: &Window<'_>, ranges: impl ExactSizeIterator<Item = Range<usize>> + Clone) {
        let is_slow = ranges.len() > 1 && self.waits_for_disk.load(Ordering::Relaxed);
        let needed = ranges.clone().filter(|range| is_slow || range.len() >= LONG_RUN_BYTES);
        needed.for_each(|range| window.will_need(range));
        let (began, bytes) = (Instant::now(), window.bytes());
        for range in ranges {
            for offset in range.step_by(LINE_BYTES).take(LINES_TOUCHED) {
                // Reads the byte; a reference alone would touch nothing.
                black_box(bytes.get(offset).copied());
            }
        }
        self.waits_for_disk.store(began.elapsed() > SLOW_TOUCH, Ordering::Relaxed);
    }

    /// Copies the records of these numbers out of the window, which holds them all.
    fn gather(&self, window: &Window<'_>, numbers: &[u64]) -> Result<Vec<u8>> {
        let record_bytes = self.spec.record_bytes;
        let range = |number: u64| {
            let start = usize::try_from(number).expect("the window holds it") * record_bytes;
            start..start + record_bytes
        };
        if let [first, .., last] = numbers
            && is_dense(&range(*first), &range(*last), numbers.len())
        {
            window.will_need(range(*first).start..range(*last).end);
        }
        let bytes = window.bytes();
        let mut records = Vec::with_capacity(numbers.len() * record_bytes);
        for some in numbers.chunks(TOGETHER) {
            self.touch(window, some.iter().map(|number| range(*number)));
            for number in some {
                self.file.prove(window, &range(*number))?;
                records.extend_from_slice(&bytes[range(*number)]);
            }
        }
        Ok(records)
    }

    /// Calls `read` with a window that has all records below `end`.
    fn with_window<T>(&self, end: u64, read: impl FnOnce(&Window<'_>) -> Result<T>) -> Result<T> {
        let len = self.len();
        if end > len {
            return Err(past_end(self.spec.name, end.max(1) - 1, len));
        }
        let read = self.file.read(end * self.spec.record_bytes as u64, |window| read(&window))?;
        read.ok_or_else(|| {
            let reason = format!("{} ends before record {}, of {len}", self.file.path().display(), end.max(1) - 1);
            Error::Corrupt { table: self.spec.name.to_owned(), reason }
        })?
    }

    /// Returns the bytes of records in the file.
    fn range(&self, first: u64, count: usize) -> Range<usize> {
        let offset =
            |number: u64| usize::try_from(number * self.spec.record_bytes as u64).expect("the window holds it");
        offset(first)..offset(first + count as u64)
    }
}

impl Array for FileArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        let Some(last) = numbers.iter().max() else { return Ok(Vec::new()) };
        self.with_window(last.saturating_add(1), |window| self.gather(window, numbers))
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        let mut records = Vec::new();
        self.visit_run(first, count, &mut |bytes| records = bytes.to_vec())?;
        Ok(records)
    }

    fn visit_run(&self, first: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut once = |bytes: &[u8]| {
            visit(bytes);
            ControlFlow::Continue(())
        };
        self.visit_runs(&[(first, count)], &mut once)
    }

    fn visit_runs(&self, runs: &[(u64, usize)], visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
        let end = |(first, count): &(u64, usize)| first.saturating_add(*count as u64);
        let Some(last) = runs.iter().map(end).max() else { return Ok(()) };
        self.with_window(last, |window| {
            let range = |run: &(u64, usize)| self.range(run.0, run.1);
            for some in runs.chunks(TOGETHER) {
                self.touch(window, some.iter().map(range));
                for range in some.iter().map(range) {
                    self.file.prove(window, &range)?;
                    if visit(&window.bytes()[range]).is_break() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    fn visit_parts(
        &self,
        first: u64,
        count: usize,
        visit: &mut dyn FnMut(&[u8], Prove<'_>) -> Result<()>,
    ) -> Result<()> {
        self.with_window(first.saturating_add(count as u64), |window| {
            let run = self.range(first, count);
            let prove = |part: Range<usize>| self.file.prove(window, &(run.start + part.start..run.start + part.end));
            visit(&window.bytes()[run.clone()], &prove)
        })
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        let (record_bytes, count) = (self.spec.record_bytes, self.spec.count(records)?);
        if count == 0 {
            return Ok(());
        }
        let end = first.checked_add(count as u64);
        if end.is_none_or(|end| end.checked_mul(record_bytes as u64).is_none()) {
            return Err(past_end(self.spec.name, first, self.len()));
        }
        let at = first * record_bytes as u64;
        if self.file.write(at, records)? {
            self.journal.wrote(self.spec.name, at, records);
        } else {
            self.journal.leave_gap();
        }
        Ok(())
    }

    fn discard(&self, first: u64, count: u64) -> Result<()> {
        let offset = |records: u64| records.saturating_mul(self.spec.record_bytes as u64);
        self.journal.leave_gap();
        self.file.discard(&(offset(first)..offset(first.saturating_add(count)).min(self.file.bytes())));
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.bytes() / self.spec.record_bytes as u64
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let before = self.len();
        if len > before {
            return Err(past_end(self.spec.name, len - 1, before));
        }
        if len < before {
            self.journal.leave_gap();
            self.file.cut(len * self.spec.record_bytes as u64)?;
        }
        Ok(())
    }
}

/// Returns `true` when this number of records lies close enough to read the whole range.
fn is_dense(first: &Range<usize>, last: &Range<usize>, records: usize) -> bool {
    records >= DENSE_RECORDS_MIN
        && first.start < last.start
        && (last.start - first.start) / records <= DENSE_GAP_BYTES_MAX
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;

    const SPEC: ArraySpec = ArraySpec { name: "numbers", record_bytes: 4 };

    fn opened(folder: &Path, states: ArrayStates) -> Arrays {
        Arrays::open(folder.to_owned(), states, 0).unwrap()
    }

    fn new(folder: &tempfile::TempDir) -> Arrays {
        opened(folder.path(), ArrayStates::new())
    }

    fn scrubbed(arrays: &Arrays) -> Vec<Error> {
        let mut found = Vec::new();
        assert!(arrays.scrub(&mut |error| found.push(error)).unwrap().is_continue());
        found
    }

    fn publish(arrays: &Arrays) -> ArrayStates {
        let states = arrays.sync().unwrap();
        arrays.published();
        states
    }

    #[test]
    fn reads_by_number_see_what_was_written_and_cut_since_the_file_was_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let arrays = new(&folder);
        let array = arrays.array(SPEC).unwrap();
        array.write(0, b"aaaabbbb").unwrap();
        assert_eq!(array.read_many(&[1, 0, 1]).unwrap(), b"bbbbaaaabbbb");
        array.write(2, b"cccc").unwrap();
        assert_eq!(array.read_many(&[2]).unwrap(), b"cccc");
        array.truncate(1).unwrap();
        assert!(array.read_many(&[1]).is_err(), "cut off");
        assert!(array.write(1, b"dddd").is_err(), "the cut is not published");
        publish(&arrays);
        array.write(1, b"dddd").unwrap();
        assert_eq!(array.read_many(&[0, 1]).unwrap(), b"aaaadddd");
        // Far beyond what was mapped at first.
        let far = (100 << 20) / 4;
        array.write(far, b"eeee").unwrap();
        assert_eq!(array.read_many(&[far, 0]).unwrap(), b"eeeeaaaa");
    }

    #[test]
    fn a_dense_list_gives_what_single_reads_give() {
        let folder = tempfile::tempdir().unwrap();
        let array = new(&folder).array(SPEC).unwrap();
        let records: Vec<u8> = (0u32..5000).flat_map(u32::to_le_bytes).collect();
        array.write(0, &records).unwrap();
        let numbers: Vec<u64> = (0..5000).step_by(7).collect();
        assert!(numbers.len() > DENSE_RECORDS_MIN);
        let expected: Vec<u8> = (0u32..5000).step_by(7).flat_map(u32::to_le_bytes).collect();
        assert_eq!(array.read_many(&numbers).unwrap(), expected);
    }

    /// Allocated bytes of the file of numbers.
    fn bytes_of(arrays: &Arrays) -> u64 {
        arrays.sizes().unwrap().into_iter().find(|(name, _)| name == SPEC.name).unwrap().1
    }

    #[test]
    fn discarded_records_take_no_space_after_the_next_publish_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let arrays = new(&folder);
        let array = arrays.array(SPEC).unwrap();
        let records: Vec<u8> = (0u32..1 << 20).flat_map(u32::to_le_bytes).collect();
        array.write(0, &records).unwrap();
        publish(&arrays);
        let before = bytes_of(&arrays);
        array.discard(100, (1 << 20) - 200).unwrap();
        array.discard((1 << 20) - 100, 0).unwrap();
        array.discard(1 << 20, u64::MAX).unwrap();
        assert_eq!(bytes_of(&arrays), before);
        let states = publish(&arrays);
        assert!(bytes_of(&arrays) < before / 100, "of {before} bytes");
        drop((array, arrays));
        let array = opened(folder.path(), states).array(SPEC).unwrap();
        assert_eq!(array.len(), 1 << 20);
        assert_eq!(array.read_run(0, 100).unwrap(), records[..400]);
        assert_eq!(array.read_run((1 << 20) - 100, 100).unwrap(), records[records.len() - 400..]);
    }

    #[test]
    fn what_no_publish_covered_is_cut_on_open() {
        let folder = tempfile::tempdir().unwrap();
        let arrays = new(&folder);
        let array = arrays.array(SPEC).unwrap();
        array.write(0, &[1; 4]).unwrap();
        array.write(2, &[2; 4]).unwrap();
        let states = publish(&arrays);
        array.write(1, &[3; 4]).unwrap();
        array.write(3, &[4; 8]).unwrap();
        drop((array, arrays));
        let array = opened(folder.path(), states).array(SPEC).unwrap();
        assert_eq!(array.read_run(0, 3).unwrap(), [1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2, 2]);
        assert_eq!(array.len(), 3);
    }

    #[test]
    fn file_cut_by_another_process_is_damage_and_not_a_short_answer() {
        let folder = tempfile::tempdir().unwrap();
        let arrays = new(&folder);
        let array = arrays.array(SPEC).unwrap();
        array.write(0, &[7; 40]).unwrap();
        let states = publish(&arrays);
        let file = OpenOptions::new().write(true).open(folder.path().join("numbers")).unwrap();
        file.set_len(10).unwrap();
        assert!(matches!(array.read_run(0, 10), Err(Error::Corrupt { .. })));
        assert!(matches!(array.read_many(&[9]), Err(Error::Corrupt { .. })));
        drop((array, arrays));
        let again = opened(folder.path(), states.clone());
        assert!(matches!(again.array(SPEC), Err(Error::Corrupt { .. })));
        assert_eq!(scrubbed(&again).len(), 1);
        // Nothing that is published later hides it.
        assert_eq!(publish(&again), states);
    }

    #[test]
    fn every_flipped_bit_is_damage_of_its_page_alone() {
        const RECORDS: u32 = 5000;
        let folder = tempfile::tempdir().unwrap();
        let records: Vec<u8> = (0..RECORDS).flat_map(u32::to_le_bytes).collect();
        let states = {
            let arrays = new(&folder);
            let array = arrays.array(SPEC).unwrap();
            for (number, part) in (0..).step_by(300).zip(records.chunks(1200)) {
                array.write(number, part).unwrap();
            }
            publish(&arrays)
        };
        for name in ["numbers", "numbers.crc"] {
            let file = OpenOptions::new().read(true).write(true).open(folder.path().join(name)).unwrap();
            for at in (0..file.metadata().unwrap().len()).step_by(if name == "numbers" { 211 } else { 1 }) {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 1 << (at % 8)], at).unwrap();
                let page = if name == "numbers" { at / 4096 } else { at / 4 };
                let array = opened(folder.path(), states.clone()).array(SPEC).unwrap();
                for number in (0..u64::from(RECORDS)).step_by(97) {
                    let read = array.read_many(&[number]);
                    if number * 4 / 4096 == page {
                        assert!(matches!(read, Err(Error::Corrupt { .. })), "byte {at} of {name}, {number}: {read:?}");
                    } else {
                        assert_eq!(read.unwrap(), u32::try_from(number).unwrap().to_le_bytes());
                    }
                }
                assert!(array.read_run(0, RECORDS as usize).is_err());
                let found = scrubbed(&opened(folder.path(), states.clone()));
                assert_eq!(found.len(), 1, "byte {at} of {name}: {found:?}");
                file.write_all_at(&byte, at).unwrap();
            }
        }
    }

    #[test]
    fn records_that_are_added_to_a_damaged_page_do_not_hide_the_damage() {
        let folder = tempfile::tempdir().unwrap();
        let states = {
            let arrays = new(&folder);
            arrays.array(SPEC).unwrap().write(0, &[7; 400]).unwrap();
            publish(&arrays)
        };
        let file = OpenOptions::new().write(true).open(folder.path().join("numbers")).unwrap();
        file.write_all_at(&[9], 17).unwrap();
        let arrays = opened(folder.path(), states);
        let array = arrays.array(SPEC).unwrap();
        array.write(100, &[7; 400]).unwrap();
        assert!(array.read_many(&[4]).is_err(), "before the file is mapped");
        array.write(200, &[7; 400]).unwrap();
        assert!(array.read_many(&[4]).is_err(), "and afterwards");
        array.write(300, &[7; 7600]).unwrap();
        assert!(array.write(50, &[7; 4]).is_err(), "a write over damage needs the page");
        assert!(array.truncate(60).is_err(), "so does a cut");
        let states = publish(&arrays);
        drop((array, arrays));
        let array = opened(folder.path(), states).array(SPEC).unwrap();
        assert!(matches!(array.read_many(&[150]), Err(Error::Corrupt { .. })));
        assert_eq!(array.read_many(&[1100]).unwrap(), [7; 4]);
    }
}
