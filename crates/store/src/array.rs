//! Arrays as plain files: record `n` lies at byte `n * record_bytes`, and the file holds nothing else.
//!
//! Measured against an engine, a plain file is exact in size and two to thirteen times cheaper to read when cached. It
//! has no checksum. Every record that a manifest covers is there, because publish syncs the file first or writes the
//! changes to the journal; the caller cuts records past the manifest after opening.
//!
//! Invariants: the file always holds whole records; a record below `len` was written or is zeros; after a failed sync
//! the array refuses to publish until it is opened again, because the kernel may have dropped the pages it could not
//! write.

mod pages;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use parking_lot::Mutex;

use self::pages::{Pages, Window};
use crate::error::{Error, Result, io_error, not_whole_records, past_end, record_size_differs};
use crate::journal::Journal;
use crate::store::Array;
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
/// The time above which [`TOGETHER`] records came from the disk; from memory they take some microseconds.
const SLOW_TOUCH: Duration = Duration::from_micros(30);

/// The open arrays of one folder.
#[derive(Debug)]
pub(crate) struct Arrays {
    folder: PathBuf,
    /// The changes since the last sync.
    journal: Arc<Journal>,
    open: Mutex<BTreeMap<&'static str, Arc<FileArray>>>,
}

/// One array in one file.
#[derive(Debug)]
struct FileArray {
    spec: ArraySpec,
    path: PathBuf,
    file: File,
    journal: Arc<Journal>,
    pages: Pages,
    /// Set when the last read waited for the disk.
    waits_for_disk: AtomicBool,
    /// Number of records.
    len: AtomicU64,
    /// Set after each write, so that a sync never misses a write that has returned.
    dirty: AtomicBool,
    sync_failed: AtomicBool,
}

// === impl Arrays ===

impl Arrays {
    pub(crate) fn new(folder: PathBuf, journal: Journal) -> Self {
        Self { folder, journal: Arc::new(journal), open: Mutex::default() }
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Opens the array that `spec` names; every caller gets the same one.
    pub(crate) fn open(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        let mut open = self.open.lock();
        if let Some(array) = open.get(spec.name) {
            let bytes = array.spec.record_bytes;
            return if bytes == spec.record_bytes {
                Ok(Arc::clone(array) as _)
            } else {
                Err(record_size_differs(spec.name, bytes, spec.record_bytes))
            };
        }
        let array = Arc::new(FileArray::open(&self.folder, spec, Arc::clone(&self.journal))?);
        open.insert(spec.name, Arc::clone(&array));
        Ok(array)
    }

    /// Makes every record written so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let open: Vec<_> = self.open.lock().values().cloned().collect();
        let (dirty, clean): (Vec<_>, Vec<_>) = open.into_iter().partition(|array| array.dirty.load(Ordering::Acquire));
        // Each sync waits for the journal of the file system: in parallel they wait once.
        let synced: Result<Vec<()>> = match dirty.as_slice() {
            [] => Ok(Vec::new()),
            [only] => only.sync().map(|()| Vec::new()),
            [first, others @ ..] => thread::scope(|scope| {
                let others: Vec<_> = others.iter().map(|array| scope.spawn(|| array.sync())).collect();
                let first = std::iter::once(first.sync());
                first.chain(others.into_iter().map(|other| other.join().expect("syncing never panics"))).collect()
            }),
        };
        synced?;
        clean.iter().try_for_each(|array| array.sync())
    }

    /// Returns the allocated bytes of every file in the folder, opened or not.
    pub(crate) fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let failed = |source| io_error("list", &self.folder, source);
        let mut sizes = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            sizes.push((name, metadata.blocks() * STAT_BLOCK_BYTES));
        }
        Ok(sizes)
    }
}

// === impl FileArray ===

impl FileArray {
    fn open(folder: &Path, spec: ArraySpec, journal: Arc<Journal>) -> Result<Self> {
        if spec.record_bytes == 0 {
            return Err(not_whole_records(spec.name, 0, 0));
        }
        let path = folder.join(spec.name);
        let failed = |source| io_error("open", &path, source);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        sync_folder(folder)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let len = bytes / spec.record_bytes as u64;
        let whole_bytes = len * spec.record_bytes as u64;
        if whole_bytes != bytes {
            file.set_len(whole_bytes).map_err(failed)?;
        }
        Ok(Self {
            spec,
            path,
            file,
            journal,
            pages: Pages::default(),
            waits_for_disk: AtomicBool::new(false),
            len: AtomicU64::new(len),
            // Writes of an earlier process may not have reached the disk.
            dirty: AtomicBool::new(len > 0),
            sync_failed: AtomicBool::new(false),
        })
    }

    /// Syncs the file if it was written since the last sync.
    fn sync(&self) -> Result<()> {
        if self.dirty.swap(false, Ordering::AcqRel)
            && let Err(source) = self.file.sync_data()
        {
            self.sync_failed.store(true, Ordering::Release);
            return Err(io_error("sync", &self.path, source));
        }
        if self.sync_failed.load(Ordering::Acquire) {
            let source = std::io::Error::other("an earlier sync failed; restart the server");
            return Err(io_error("sync", &self.path, source));
        }
        Ok(())
    }

    /// Fills `records` from record `first` on; the buffer takes whole records.
    fn read_into(&self, first: u64, records: &mut [u8]) -> Result<()> {
        let record_bytes = self.spec.record_bytes;
        let (len, count) = (self.len(), (records.len() / record_bytes) as u64);
        if first.checked_add(count).is_none_or(|end| end > len) {
            return Err(past_end(self.spec.name, first.saturating_add(count).max(1) - 1, len));
        }
        self.file.read_exact_at(records, first * record_bytes as u64).map_err(|source| {
            if source.kind() == std::io::ErrorKind::UnexpectedEof {
                return self.shortened(first);
            }
            io_error("read", &self.path, source)
        })
    }

    /// Loads the beginnings of these ranges into the cache, so that the waits for disk and memory overlap.
    fn touch(&self, window: &Window<'_>, ranges: impl ExactSizeIterator<Item = Range<usize>> + Clone) {
        if ranges.len() > 1 && self.waits_for_disk.load(Ordering::Relaxed) {
            ranges.clone().for_each(|range| window.will_need(range));
        }
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
    fn gather(&self, window: &Window<'_>, numbers: &[u64]) -> Vec<u8> {
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
                records.extend_from_slice(&bytes[range(*number)]);
            }
        }
        records
    }

    /// Returns the error of a file that another process cut while it was open.
    fn shortened(&self, first: u64) -> Error {
        let reason = format!("the file ends before record {first}, of {}", self.len());
        Error::Corrupt { table: self.spec.name.to_owned(), reason }
    }
}

impl Array for FileArray {
    fn read_many(&self, numbers: &[u64]) -> Result<Vec<u8>> {
        let record_bytes = self.spec.record_bytes;
        let len = self.len();
        if let Some(&number) = numbers.iter().find(|&&number| number >= len) {
            return Err(past_end(self.spec.name, number, len));
        }
        let Some(last) = numbers.iter().max() else { return Ok(Vec::new()) };
        let bytes = (last + 1) * record_bytes as u64;
        let read = self.pages.read(&self.file, bytes, |window| self.gather(&window, numbers));
        read.map_err(|source| io_error("read", &self.path, source))?.ok_or_else(|| self.shortened(*last))
    }

    fn read_run(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        let len = self.len();
        if first.checked_add(count as u64).is_none_or(|end| end > len) {
            return Err(past_end(self.spec.name, first.max(len), len));
        }
        let mut records = vec![0; count * self.spec.record_bytes];
        self.read_into(first, &mut records)?;
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
        let (record_bytes, len) = (self.spec.record_bytes as u64, self.len());
        let end = |(first, count): &(u64, usize)| first.saturating_add(*count as u64);
        let Some(last) = runs.iter().max_by_key(|run| end(run)) else { return Ok(()) };
        if end(last) > len {
            return Err(past_end(self.spec.name, last.0.max(len), len));
        }
        let offset = |number: u64| usize::try_from(number * record_bytes).expect("the window holds it");
        let visited = self.pages.read(&self.file, end(last) * record_bytes, |window| {
            let range = |run: &(u64, usize)| offset(run.0)..offset(end(run));
            for some in runs.chunks(TOGETHER) {
                self.touch(&window, some.iter().map(range));
                if some.iter().any(|run| visit(&window.bytes()[range(run)]).is_break()) {
                    break;
                }
            }
        });
        visited.map_err(|source| io_error("read", &self.path, source))?.ok_or_else(|| self.shortened(last.0))
    }

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        let (record_bytes, count) = (self.spec.record_bytes, self.spec.count(records)?);
        if count == 0 {
            return Ok(());
        }
        let end = first.checked_add(count as u64);
        let Some(end) = end.filter(|end| end.checked_mul(record_bytes as u64).is_some()) else {
            return Err(past_end(self.spec.name, first, self.len()));
        };
        let (end_byte, at) = (self.len() * record_bytes as u64, first * record_bytes as u64);
        self.file.write_all_at(records, at).map_err(|source| io_error("write", &self.path, source))?;
        self.dirty.store(true, Ordering::Release);
        self.journal.wrote(self.spec.name, end_byte, at, records);
        self.len.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    fn discard(&self, first: u64, count: u64) -> Result<()> {
        let record_bytes = self.spec.record_bytes as u64;
        let offset = |records: u64| i64::try_from(records.saturating_mul(record_bytes)).unwrap_or(i64::MAX);
        let end = first.saturating_add(count).min(self.len());
        if end <= first {
            return Ok(());
        }
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&self.file, hole, offset(first), offset(end - first)) {
            // A file system without holes keeps the space.
            Ok(()) | Err(Errno::EOPNOTSUPP) => Ok(()),
            Err(error) => Err(io_error("free space in", &self.path, error.into())),
        }
    }

    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let before = self.len();
        if len > before {
            return Err(past_end(self.spec.name, len - 1, before));
        }
        self.len.store(len, Ordering::Release);
        let at = len * self.spec.record_bytes as u64;
        self.pages.cut(&self.file, at).map_err(|source| io_error("cut", &self.path, source))?;
        self.dirty.store(true, Ordering::Release);
        self.journal.cut(self.spec.name, at);
        Ok(())
    }
}

/// Returns `true` when this number of records lies close enough to read the whole range.
fn is_dense(first: &Range<usize>, last: &Range<usize>, records: usize) -> bool {
    records >= DENSE_RECORDS_MIN
        && first.start < last.start
        && (last.start - first.start) / records <= DENSE_GAP_BYTES_MAX
}

/// Makes the file names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| io_error("sync", folder, source))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SPEC: ArraySpec = ArraySpec { name: "numbers", record_bytes: 4 };

    #[test]
    fn reads_by_number_see_what_was_written_and_cut_since_the_file_was_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let array = FileArray::open(folder.path(), SPEC, Arc::new(Journal::after(0))).unwrap();
        array.write(0, b"aaaabbbb").unwrap();
        assert_eq!(array.read_many(&[1, 0, 1]).unwrap(), b"bbbbaaaabbbb");
        array.write(2, b"cccc").unwrap();
        assert_eq!(array.read_many(&[2]).unwrap(), b"cccc");
        array.truncate(1).unwrap();
        assert!(array.read_many(&[1]).is_err(), "cut off");
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
        let array = FileArray::open(folder.path(), SPEC, Arc::new(Journal::after(0))).unwrap();
        let records: Vec<u8> = (0u32..5000).flat_map(u32::to_le_bytes).collect();
        array.write(0, &records).unwrap();
        let numbers: Vec<u64> = (0..5000).step_by(7).collect();
        assert!(numbers.len() > DENSE_RECORDS_MIN);
        let expected: Vec<u8> = (0u32..5000).step_by(7).flat_map(u32::to_le_bytes).collect();
        assert_eq!(array.read_many(&numbers).unwrap(), expected);
    }

    #[test]
    fn discarded_records_take_no_space_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let arrays = Arrays::new(folder.path().to_owned(), Journal::after(0));
        let array = arrays.open(SPEC).unwrap();
        let records: Vec<u8> = (0u32..1 << 20).flat_map(u32::to_le_bytes).collect();
        array.write(0, &records).unwrap();
        arrays.sync().unwrap();
        let before = arrays.sizes().unwrap()[0].1;
        array.discard(100, (1 << 20) - 200).unwrap();
        array.discard((1 << 20) - 100, 0).unwrap();
        array.discard(1 << 20, u64::MAX).unwrap();
        assert!(arrays.sizes().unwrap()[0].1 < before / 100, "of {before} bytes");
        assert_eq!(array.len(), 1 << 20);
        assert_eq!(array.read_run(0, 100).unwrap(), records[..400]);
        assert_eq!(array.read_run((1 << 20) - 100, 100).unwrap(), records[records.len() - 400..]);
    }

    #[test]
    fn partial_last_record_is_cut_on_open() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("numbers"), [1, 1, 1, 1, 2, 2, 2]).unwrap();
        let array = Arrays::new(folder.path().to_owned(), Journal::after(0)).open(SPEC).unwrap();
        assert_eq!(array.len(), 1);
        array.write(1, &[3; 4]).unwrap();
        let bytes = std::fs::read(folder.path().join("numbers")).unwrap();
        assert_eq!(bytes, [1, 1, 1, 1, 3, 3, 3, 3]);
    }

    #[test]
    fn file_cut_by_another_process_is_damage_and_not_a_short_answer() {
        let folder = tempfile::tempdir().unwrap();
        let array = Arrays::new(folder.path().to_owned(), Journal::after(0)).open(SPEC).unwrap();
        array.write(0, &[7; 40]).unwrap();
        let file = OpenOptions::new().write(true).open(folder.path().join("numbers")).unwrap();
        file.set_len(10).unwrap();
        assert!(matches!(array.read_run(0, 10), Err(Error::Corrupt { .. })));
        assert!(matches!(array.read_many(&[9]), Err(Error::Corrupt { .. })));
        assert_eq!(array.read_many(&[1]).unwrap(), [7; 4]);
    }
}
