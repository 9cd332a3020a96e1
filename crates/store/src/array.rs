//! Arrays as plain files: record `n` stands at byte `n * record_bytes`, nothing else is in the file.
//!
//! Measured against an engine, a plain file is exact in size and two to thirteen times cheaper to read
//! warm. It has no checksum: what a mark promises is there (publish syncs the file first), and what lies
//! past the mark is cut by the caller after opening.
//!
//! Invariants: the file always holds whole records; a number below `len` was written or is a zeroed hole;
//! after a failed sync the array refuses to publish until it is opened again, for the kernel may have
//! dropped the pages it could not write.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{io_error, not_whole_records, past_end, record_size_differs};
use crate::{Array, ArraySpec, Error, Result};

/// `st_blocks` counts in these, whatever the filesystem's own block size.
const STAT_BLOCK_BYTES: u64 = 512;

/// Records not asked for that are read rather than seek over, in bytes: copying them costs what a system call does.
const GAP_BYTES_MAX: u64 = 2048;
/// One read of several records, in bytes: what is read over should stay in the processor's cache.
const SPAN_BYTES_MAX: u64 = 64 << 10;

/// The open arrays of one folder.
#[derive(Debug)]
pub(crate) struct Arrays {
    folder: PathBuf,
    open: Mutex<BTreeMap<&'static str, Arc<FileArray>>>,
}

/// One array in one file.
#[derive(Debug)]
struct FileArray {
    spec: ArraySpec,
    path: PathBuf,
    file: File,
    /// In records.
    len: AtomicU64,
    /// Set after each write, so that a write that has returned is never missed by a sync.
    dirty: AtomicBool,
    sync_failed: AtomicBool,
}

// === impl Arrays ===

impl Arrays {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, open: Mutex::default() }
    }

    /// The array `spec` names; the same one for every caller.
    pub(crate) fn open(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        let mut open = self.lock();
        if let Some(array) = open.get(spec.name) {
            let bytes = array.spec.record_bytes;
            return if bytes == spec.record_bytes {
                Ok(Arc::clone(array) as _)
            } else {
                Err(record_size_differs(spec.name, bytes, spec.record_bytes))
            };
        }
        let array = Arc::new(FileArray::open(&self.folder, spec)?);
        open.insert(spec.name, Arc::clone(&array));
        Ok(array)
    }

    /// Makes every record written so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let open: Vec<_> = self.lock().values().cloned().collect();
        open.iter().try_for_each(|array| array.sync())
    }

    /// Allocated bytes of every file in the folder, opened or not.
    pub(crate) fn sizes(&self) -> Result<Vec<(String, u64)>> {
        let failed = |source| io_error("listing", &self.folder, source);
        let mut sizes = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            sizes.push((name, metadata.blocks() * STAT_BLOCK_BYTES));
        }
        Ok(sizes)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<FileArray>>> {
        self.open.lock().expect("nothing panics while the list is held")
    }
}

// === impl FileArray ===

impl FileArray {
    fn open(folder: &Path, spec: ArraySpec) -> Result<Self> {
        if spec.record_bytes == 0 {
            return Err(not_whole_records(spec.name, 0, 0));
        }
        let path = folder.join(spec.name);
        let failed = |source| io_error("opening", &path, source);
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
            len: AtomicU64::new(len),
            // What an earlier process wrote may not have reached the disk.
            dirty: AtomicBool::new(len > 0),
            sync_failed: AtomicBool::new(false),
        })
    }

    fn sync(&self) -> Result<()> {
        if self.dirty.swap(false, Ordering::AcqRel)
            && let Err(source) = self.file.sync_data()
        {
            self.sync_failed.store(true, Ordering::Release);
            return Err(io_error("syncing", &self.path, source));
        }
        if self.sync_failed.load(Ordering::Acquire) {
            let source = std::io::Error::other("an earlier sync failed; start again");
            return Err(io_error("syncing", &self.path, source));
        }
        Ok(())
    }

    /// Fills `records` from record `first` on; the caller gives whole records.
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
            io_error("reading", &self.path, source)
        })
    }

    /// Somebody else cut the file while it was open.
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
        let mut records = vec![0; numbers.len() * record_bytes];
        let mut left = records.as_mut_slice();
        let mut span = Vec::new();
        for near in Nearby::new(numbers, record_bytes as u64) {
            let (now, after) = left.split_at_mut(near.len() * record_bytes);
            left = after;
            let (first, last) = (near[0], near[near.len() - 1]);
            if last - first + 1 == near.len() as u64 {
                self.read_into(first, now)?;
                continue;
            }
            let span_records = usize::try_from(last - first + 1).expect("a span is at most SPAN_BYTES_MAX long");
            span.resize(span_records * record_bytes, 0);
            self.read_into(first, &mut span)?;
            for (record, number) in now.chunks_exact_mut(record_bytes).zip(near) {
                let at = usize::try_from(number - first).expect("inside the span") * record_bytes;
                record.copy_from_slice(&span[at..at + record_bytes]);
            }
        }
        Ok(records)
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

    fn write(&self, first: u64, records: &[u8]) -> Result<()> {
        let (record_bytes, count) = (self.spec.record_bytes, self.spec.count(records)?);
        if count == 0 {
            return Ok(());
        }
        let end = first.checked_add(count as u64);
        let Some(end) = end.filter(|end| end.checked_mul(record_bytes as u64).is_some()) else {
            return Err(past_end(self.spec.name, first, self.len()));
        };
        self.file
            .write_all_at(records, first * record_bytes as u64)
            .map_err(|source| io_error("writing", &self.path, source))?;
        self.dirty.store(true, Ordering::Release);
        self.len.fetch_max(end, Ordering::AcqRel);
        Ok(())
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
        self.file
            .set_len(len * self.spec.record_bytes as u64)
            .map_err(|source| io_error("cutting", &self.path, source))?;
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }
}

/// Numbers in stretches that are read at once: strictly ascending, without large gaps, and not too long.
struct Nearby<'a> {
    left: &'a [u64],
    record_bytes: u64,
}

impl<'a> Nearby<'a> {
    fn new(left: &'a [u64], record_bytes: u64) -> Self {
        Self { left, record_bytes }
    }
}

impl<'a> Iterator for Nearby<'a> {
    type Item = &'a [u64];

    fn next(&mut self) -> Option<&'a [u64]> {
        let first = *self.left.first()?;
        let gap_max = 1 + GAP_BYTES_MAX / self.record_bytes;
        let span_max = SPAN_BYTES_MAX / self.record_bytes;
        let near = |pair: &&[u64]| {
            let (a, b) = (pair[0], pair[1]);
            b > a && b - a <= gap_max && b - first < span_max
        };
        let count = 1 + self.left.windows(2).take_while(near).count();
        let (now, after) = self.left.split_at(count);
        self.left = after;
        Some(now)
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| io_error("syncing", folder, source))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const SPEC: ArraySpec = ArraySpec { name: "numbers", record_bytes: 4 };

    #[test]
    fn numbers_are_read_in_stretches_without_large_gaps() {
        let stretches = |numbers: &[u64]| Nearby::new(numbers, 32).map(<[u64]>::len).collect::<Vec<_>>();
        assert_eq!(stretches(&[]), []);
        assert_eq!(stretches(&[5, 6, 7, 7, 3, 4]), [3, 1, 2]);
        assert_eq!(stretches(&[0, 65, 131]), [2, 1]);
        let dense: Vec<u64> = (0..5000).collect();
        assert_eq!(stretches(&dense), [2048, 2048, 904]);
    }

    #[test]
    fn partial_last_record_is_cut_on_open() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("numbers"), [1, 1, 1, 1, 2, 2, 2]).unwrap();
        let array = Arrays::new(folder.path().to_owned()).open(SPEC).unwrap();
        assert_eq!(array.len(), 1);
        array.write(1, &[3; 4]).unwrap();
        let bytes = std::fs::read(folder.path().join("numbers")).unwrap();
        assert_eq!(bytes, [1, 1, 1, 1, 3, 3, 3, 3]);
    }

    #[test]
    fn file_cut_by_somebody_else_is_damage_and_not_a_short_answer() {
        let folder = tempfile::tempdir().unwrap();
        let array = Arrays::new(folder.path().to_owned()).open(SPEC).unwrap();
        array.write(0, &[7; 40]).unwrap();
        let file = OpenOptions::new().write(true).open(folder.path().join("numbers")).unwrap();
        file.set_len(10).unwrap();
        assert!(matches!(array.read_run(0, 10), Err(Error::Corrupt { .. })));
        assert!(matches!(array.read_many(&[9]), Err(Error::Corrupt { .. })));
        assert_eq!(array.read_many(&[1]).unwrap(), [7; 4]);
    }
}
