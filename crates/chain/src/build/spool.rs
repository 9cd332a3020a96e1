//! Temporary files of a generation: records by partition, and the offsets of transactions by block.
//!
//! Only [`Positions::save`] is durable: a build that is interrupted repeats its generation. The files of a [`Spool`]
//! have no names once they are open, so none is left behind, and no other process can meet them.

use std::fs::File;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::block::{Cursor, prefetch, put_leb128};
use crate::build::temp_files::{unnamed_file, write_durably};
use crate::error::{Error, Result};
use crate::names::Height;

/// Records that can be spooled: plain bytes of fixed size.
pub(crate) trait Plain: FromBytes + IntoBytes + Immutable + Copy + Send + Sync {}
impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + Sync> Plain for T {}

/// Bytes that a writer buffers per partition.
const BUFFERED_BYTES: usize = 32 << 10;
/// Bytes of a cache line. The place so far behind the last record is fetched into the cache.
const LINE_BYTES: usize = 64;

/// Records in one file per partition, written by many threads in any order.
#[derive(Debug)]
pub(crate) struct Spool<R> {
    files: Vec<Partition>,
    /// Bits of a hash behind those of the partition.
    shift: u32,
    bytes: AtomicU64,
    records: PhantomData<fn() -> R>,
}

#[derive(Debug)]
struct Partition {
    file: File,
    /// The path at which the file was created, for messages.
    path: PathBuf,
    len: AtomicU64,
}

impl<R: Plain> Spool<R> {
    pub(crate) fn create(dir: &Path, name: &str, partitions: usize) -> Result<Self> {
        let open = |index| {
            let path = dir.join(format!("{name}-{index:03}.tmp"));
            Ok(Partition { file: unnamed_file(&path)?, path, len: AtomicU64::new(0) })
        };
        let files = (0..partitions).map(open).collect::<Result<_>>()?;
        Ok(Self { files, shift: 64 - partitions.ilog2(), bytes: AtomicU64::new(0), records: PhantomData })
    }

    /// Bytes of the records that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the longest partition, as far as they are written.
    pub(crate) fn longest(&self) -> u64 {
        self.files.iter().map(|partition| partition.len.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// The partition with the number in the first bits of `hash`.
    #[inline]
    pub(super) fn partition(&self, hash: u64) -> usize {
        usize::try_from(hash >> self.shift).expect("few bits")
    }

    /// A buffer in front of the files, for one thread.
    pub(crate) fn writer(&self) -> SpoolWriter<'_, R> {
        let capacity = BUFFERED_BYTES / size_of::<R>();
        let buffers = self.files.iter().map(|_| Vec::with_capacity(capacity)).collect();
        SpoolWriter { spool: self, buffers }
    }

    /// All records of one partition, in no order. The file is emptied, and takes records again afterwards: a file that
    /// is used again costs the disk's folders less than a new one.
    pub(crate) fn take(&self, partition: usize) -> Result<Vec<R>> {
        let records = self.read(partition)?;
        let Partition { file, path, len } = &self.files[partition];
        self.bytes.fetch_sub(len.swap(0, Ordering::AcqRel), Ordering::Relaxed);
        file.set_len(0).map_err(Error::io("truncate", path))?;
        Ok(records)
    }

    /// All records of one partition, in no order.
    pub(crate) fn read(&self, partition: usize) -> Result<Vec<R>> {
        let Partition { file, path, len } = &self.files[partition];
        let bytes = usize::try_from(len.load(Ordering::Acquire)).expect("a partition fits memory");
        let mut records = vec![R::new_zeroed(); bytes / size_of::<R>()];
        file.read_exact_at(records.as_mut_slice().as_mut_bytes(), 0).map_err(Error::io("read", path))?;
        Ok(records)
    }

    fn append(&self, partition: usize, records: &[R]) -> Result<()> {
        let Partition { file, path, len } = &self.files[partition];
        let bytes = records.as_bytes();
        let at = len.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        file.write_all_at(bytes, at).map_err(Error::io("write", path))
    }
}

/// Buffered writer of one thread; made by [`Spool::writer`].
pub(crate) struct SpoolWriter<'a, R: Plain> {
    spool: &'a Spool<R>,
    buffers: Vec<Vec<R>>,
}

impl<R: Plain> SpoolWriter<'_, R> {
    /// Adds a record to the partition of `hash`.
    #[inline]
    pub(crate) fn push(&mut self, hash: u64, record: R) -> Result<()> {
        let partition = self.spool.partition(hash);
        let buffer = &mut self.buffers[partition];
        buffer.push(record);
        prefetch::to_write(buffer.spare_capacity_mut(), LINE_BYTES / size_of::<R>());
        if buffer.len() == buffer.capacity() { self.flush(partition) } else { Ok(()) }
    }

    /// Writes out all buffered records.
    pub(crate) fn finish(mut self) -> Result<()> {
        (0..self.buffers.len()).try_for_each(|partition| self.flush(partition))
    }

    fn flush(&mut self, partition: usize) -> Result<()> {
        self.spool.append(partition, &self.buffers[partition])?;
        self.buffers[partition].clear();
        Ok(())
    }
}

/// Weight and transaction offsets of each block, in one file. A block is its weight, the first offset, and the
/// difference of each following offset to the one before, LEB128 each.
#[derive(Debug)]
pub(super) struct Positions {
    file: File,
    path: PathBuf,
    state: Mutex<PositionsState>,
}

#[derive(Debug, Default)]
struct PositionsState {
    end: u64,
    /// Height, offset and length in the file.
    blocks: Vec<(Height, u64, usize)>,
}

impl Positions {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).map_err(Error::io("create", &path))?;
        Ok(Self { file, path, state: Mutex::default() })
    }

    /// Adds one block.
    pub(super) fn push(&self, height: Height, weight: u32, offsets: &[u32]) -> Result<()> {
        let mut bytes = Vec::with_capacity(4 + 2 * offsets.len());
        put_leb128(&mut bytes, weight.into());
        put_leb128(&mut bytes, offsets[0].into());
        offsets.windows(2).for_each(|pair| put_leb128(&mut bytes, u64::from(pair[1] - pair[0])));
        let mut state = self.state.lock();
        let at = state.end;
        state.end += bytes.len() as u64;
        state.blocks.push((height, at, bytes.len()));
        drop(state);
        self.file.write_all_at(&bytes, at).map_err(Error::io("write", &self.path))
    }

    /// Visits weight and offsets of every block, by ascending height.
    pub(super) fn for_each(&self, mut visit: impl FnMut(Height, u32, &[u32]) -> Result<()>) -> Result<()> {
        let mut blocks = self.state.lock().blocks.clone();
        blocks.sort_unstable_by_key(|(height, ..)| *height);
        for (height, at, len) in blocks {
            let mut bytes = vec![0; len];
            self.file.read_exact_at(&mut bytes, at).map_err(Error::io("read", &self.path))?;
            let mut cursor = Cursor::new(&bytes);
            let damaged = |malformed| Error::damaged(&self.path, malformed);
            let weight = cursor.leb128("block weight").map_err(damaged)?;
            let weight = u32::try_from(weight).expect("as it was pushed");
            let (mut offset, mut offsets) = (0, Vec::new());
            while !cursor.is_at_end() {
                offset += cursor.leb128("transaction size").map_err(damaged)?;
                offsets.push(u32::try_from(offset).expect("as it was pushed"));
            }
            visit(height, weight, &offsets)?;
        }
        Ok(())
    }

    /// Makes the offsets durable, with an index of them by height at `path`.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let mut blocks = self.state.lock().blocks.clone();
        blocks.sort_unstable_by_key(|(height, ..)| *height);
        let mut index = Vec::with_capacity(blocks.len() * 16);
        for (height, at, len) in blocks {
            put_leb128(&mut index, height.0.into());
            put_leb128(&mut index, at);
            put_leb128(&mut index, len as u64);
        }
        self.file.sync_data().map_err(Error::io("sync", &self.path))?;
        write_durably(path, &index)
    }

    /// Opens the data and the index that [`Positions::save`] wrote.
    pub(super) fn load(data: PathBuf, index: &Path) -> Result<Self> {
        let file = File::open(&data).map_err(Error::io("open", &data))?;
        let bytes = std::fs::read(index).map_err(Error::io("read", index))?;
        let mut cursor = Cursor::new(&bytes);
        let mut blocks = Vec::new();
        let damaged = |malformed| Error::damaged(index, malformed);
        while !cursor.is_at_end() {
            let height = cursor.leb128("height").map_err(damaged)?;
            let at = cursor.leb128("offset").map_err(damaged)?;
            let len = cursor.leb128("length").map_err(damaged)?;
            let height = u32::try_from(height).map_err(|_| damaged(cursor.malformed("height")))?;
            let len = usize::try_from(len).map_err(|_| damaged(cursor.malformed("length")))?;
            blocks.push((Height(height), at, len));
        }
        Ok(Self { file, path: data, state: Mutex::new(PositionsState { end: 0, blocks }) })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn two_spools_of_one_folder_and_name_have_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let spools = [1, 2].map(|_| Spool::<u64>::create(folder.path(), "same", 4).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files have names");
        for (spool, value) in spools.iter().zip([7, 9]) {
            let mut writer = spool.writer();
            (0..1000).for_each(|_| writer.push(u64::MAX, value).unwrap());
            writer.push(0, value).unwrap();
            writer.finish().unwrap();
        }
        for (spool, value) in spools.iter().zip([7, 9]) {
            assert_eq!((spool.bytes(), spool.longest()), (8008, 8000));
            assert_eq!(spool.take(3).unwrap(), vec![value; 1000]);
            assert_eq!((spool.read(0).unwrap(), spool.take(0).unwrap()), (vec![value], vec![value]));
            assert_eq!((spool.bytes(), spool.longest()), (0, 0));
        }
    }
}
