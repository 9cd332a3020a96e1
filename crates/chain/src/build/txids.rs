//! Txids by txnum while the build runs: the array of the full profile, or a temporary file of keyed hashes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_store::Array;
use zerocopy::IntoBytes as _;

use crate::build::context::Build;
use crate::build::parallel::in_parallel;
use crate::build::record::TxRecord;
use crate::build::spool::Spool;
use crate::error::{Error, Result};
use crate::prefix::Keyer;
use crate::sha::Hash256;
use crate::txnum::TxNum;

/// Transactions that a thread hashes at once.
const CHUNK: u64 = 1 << 14;
/// Bytes of a hash in the file, in the machine's byte order.
const HASH_BYTES: u64 = 8;

/// The txids of the transactions that were read.
pub(crate) enum Txids<'a> {
    Array(&'a dyn Array),
    Hashes(HashFile),
}

/// The keyed hashes of txids by txnum, 8 bytes each.
pub(crate) struct HashFile {
    file: File,
    path: PathBuf,
}

impl Txids<'_> {
    /// Writes the txids of a block, of which `hashes` are the keyed hashes. Threads may write blocks in any order.
    pub(crate) fn write(&self, first: TxNum, txids: &[Hash256], hashes: &[u64]) -> Result<()> {
        match self {
            Self::Array(array) => Ok(array.write(first.0, txids.as_flattened())?),
            Self::Hashes(HashFile { file, path }) => {
                file.write_all_at(hashes.as_bytes(), first.0 * HASH_BYTES).map_err(Error::io("write", path))
            }
        }
    }

    /// The number of transactions that are kept.
    pub(crate) fn len(&self) -> Result<u64> {
        match self {
            Self::Array(array) => Ok(array.len()),
            Self::Hashes(HashFile { file, path }) => {
                Ok(file.metadata().map_err(Error::io("read", path))?.len() / HASH_BYTES)
            }
        }
    }

    /// Removes the transactions from `end` on.
    pub(crate) fn truncate(&self, end: TxNum) -> Result<()> {
        let end = end.0.min(self.len()?);
        match self {
            Self::Array(array) => Ok(array.truncate(end)?),
            Self::Hashes(HashFile { file, path }) => {
                file.set_len(end * HASH_BYTES).map_err(Error::io("truncate", path))
            }
        }
    }

    /// Makes temporary hashes durable. The array is durable with the next publish.
    pub(crate) fn sync(&self) -> Result<()> {
        match self {
            Self::Array(_) => Ok(()),
            Self::Hashes(HashFile { file, path }) => file.sync_all().map_err(Error::io("sync", path)),
        }
    }

    /// Returns the keyed hashes of consecutive transactions.
    fn hashes(&self, range: Range<u64>, keyer: &Keyer) -> Result<Vec<u64>> {
        let count = usize::try_from(range.end - range.start).expect("at most a chunk");
        match self {
            Self::Array(array) => {
                let mut hashes = Vec::with_capacity(count);
                array.visit_run(range.start, count, &mut |bytes| {
                    hashes.extend(bytes.as_chunks().0.iter().map(|txid| keyer.txid(txid)));
                })?;
                Ok(hashes)
            }
            Self::Hashes(HashFile { file, path }) => {
                let mut hashes = vec![0_u64; count];
                let read = file.read_exact_at(hashes.as_mut_slice().as_mut_bytes(), range.start * HASH_BYTES);
                read.map_err(Error::io("read", path))?;
                Ok(hashes)
            }
        }
    }

    /// Returns the number of rounds in which transactions are spooled. The hashes remain on disk until the last one, so
    /// the spool beside them is kept small. The array is part of the index, and long: it is read once.
    pub(crate) fn rounds(&self) -> usize {
        match self {
            Self::Array(_) => 1,
            Self::Hashes(_) => 4,
        }
    }

    /// Spools the transactions of some partitions by their keyed hashes.
    pub(crate) fn spool(
        &self,
        build: &Build<'_>,
        keyer: &Keyer,
        spool: &Spool<TxRecord>,
        partitions: &Range<usize>,
    ) -> Result<()> {
        let (next, end) = (AtomicU64::new(0), self.len()?);
        in_parallel(build.options.threads, || {
            let mut writer = spool.writer();
            loop {
                let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                if first >= end {
                    return writer.finish();
                }
                build.progress.check()?;
                let hashes = self.hashes(first..end.min(first + CHUNK), keyer)?;
                for (hash, txnum) in hashes.into_iter().zip(first..) {
                    if partitions.contains(&spool.partition(hash)) {
                        writer.push(hash, TxRecord { hash, txnum })?;
                    }
                }
            }
        })
    }
}

impl HashFile {
    /// Opens the file at `path`, or creates an empty one.
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        Ok(Self { file, path })
    }
}
