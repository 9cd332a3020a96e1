//! Txids by txnum while the build runs: the array of the full profile, or temporary files of keyed hashes.
//!
//! ```text
//! txhashes    the bytes of the hash that a pack keeps, for each transaction
//! tiphashes   hash 8 BE, for each transaction of the last blocks: a delta keeps all of it
//! ```

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_store::Array;

use crate::block::put_first;
use crate::build::context::Build;
use crate::build::parallel::in_parallel;
use crate::build::record::TxRecord;
use crate::build::spool::Spool;
use crate::error::{Error, Result};
use crate::names::{Hash256, KeyLength, Keyer, TxNum};

/// Transactions that a thread hashes at once.
const CHUNK: u64 = 1 << 14;

/// The txids of the transactions that were read.
pub(super) enum Txids<'a> {
    Array(&'a dyn Array),
    Hashes(TxHashes),
}

/// The keyed hashes of txids by txnum.
pub(super) struct TxHashes {
    /// The bytes of them that packs keep.
    kept: HashFile,
    tip: HashFile,
    /// The first transaction in `tip`.
    tip_start: TxNum,
}

/// The first bytes of hashes, all of one length.
struct HashFile {
    file: File,
    path: PathBuf,
    hash_bytes: usize,
}

impl Txids<'_> {
    /// Writes the txids of a block, of which `hashes` are the keyed hashes. Threads may write blocks in any order.
    pub(super) fn write(&self, first: TxNum, txids: &[Hash256], hashes: &[u64]) -> Result<()> {
        match self {
            Self::Array(array) => Ok(array.write(first.0, txids.as_flattened())?),
            Self::Hashes(TxHashes { kept, tip, tip_start }) => {
                kept.write(first.0, hashes)?;
                first.0.checked_sub(tip_start.0).map_or(Ok(()), |first| tip.write(first, hashes))
            }
        }
    }

    /// True if the transactions before `end` are kept.
    pub(super) fn has_all_before(&self, end: TxNum) -> Result<bool> {
        match self {
            Self::Array(array) => Ok(array.len() >= end.0),
            Self::Hashes(TxHashes { kept, .. }) => Ok(kept.len()? >= end.0),
        }
    }

    /// True if the transactions before `end` are kept as those of a build that has no others.
    pub(super) fn is_whole_until(&self, end: TxNum) -> Result<bool> {
        let has_tip = match self {
            Self::Array(_) => true,
            Self::Hashes(TxHashes { tip, tip_start, .. }) => tip.len()? == end.0.saturating_sub(tip_start.0),
        };
        Ok(has_tip && self.has_all_before(end)?)
    }

    /// Removes the transactions from `end` on, where a generation begins.
    pub(super) fn truncate(&self, end: TxNum) -> Result<()> {
        match self {
            Self::Array(array) => Ok(array.truncate(end.0.min(array.len()))?),
            Self::Hashes(TxHashes { kept, tip, .. }) => {
                kept.truncate(end.0.min(kept.len()?))?;
                tip.truncate(0)
            }
        }
    }

    /// Makes temporary hashes durable. The array is durable with the next publish.
    pub(super) fn sync(&self) -> Result<()> {
        match self {
            Self::Array(_) => Ok(()),
            Self::Hashes(TxHashes { kept, tip, .. }) => kept.sync().and_then(|()| tip.sync()),
        }
    }

    /// Bytes of the temporary hashes.
    pub(super) fn temp_bytes(&self) -> Result<u64> {
        match self {
            Self::Array(_) => Ok(0),
            Self::Hashes(TxHashes { kept, .. }) => Ok(kept.len()? * kept.hash_bytes as u64),
        }
    }

    /// Returns the keyed hashes of consecutive transactions; of those before `packs_end`, at least what packs keep.
    fn hashes(&self, range: Range<u64>, packs_end: TxNum, keyer: &Keyer) -> Result<Vec<u64>> {
        match self {
            Self::Array(array) => {
                let count = usize::try_from(range.end - range.start).expect("at most a chunk");
                let mut hashes = Vec::with_capacity(count);
                array.visit_run(range.start, count, &mut |bytes| {
                    hashes.extend(bytes.as_chunks().0.iter().map(|txid| keyer.txid(txid)));
                })?;
                Ok(hashes)
            }
            Self::Hashes(TxHashes { kept, tip, tip_start }) => {
                let cut = packs_end.0.clamp(range.start, range.end);
                let in_tip = |txnum: u64| txnum.saturating_sub(tip_start.0);
                let mut hashes = kept.read(range.start..cut)?;
                hashes.extend(tip.read(in_tip(cut)..in_tip(range.end))?);
                Ok(hashes)
            }
        }
    }

    /// Returns the number of rounds in which transactions are spooled. The hashes remain on disk until the last one, so
    /// the spool beside them is kept small. The array is part of the index, and long: it is read once.
    pub(super) fn rounds(&self) -> usize {
        match self {
            Self::Array(_) => 1,
            Self::Hashes(_) => 4,
        }
    }

    /// Spools the transactions of some partitions by their keyed hashes.
    pub(super) fn spool(
        &self,
        build: &Build<'_>,
        keyer: &Keyer,
        spool: &Spool<TxRecord>,
        partitions: &Range<usize>,
        packs_end: TxNum,
        end: TxNum,
    ) -> Result<()> {
        let (next, end) = (AtomicU64::new(0), end.0);
        in_parallel(build.options.threads, || {
            let mut writer = spool.writer();
            loop {
                let first = next.fetch_add(CHUNK, Ordering::Relaxed);
                if first >= end {
                    return writer.finish();
                }
                build.progress.check()?;
                let hashes = self.hashes(first..end.min(first + CHUNK), packs_end, keyer)?;
                for (hash, txnum) in hashes.into_iter().zip(first..) {
                    if partitions.contains(&spool.partition(hash)) {
                        writer.push(hash, TxRecord { hash, txnum })?;
                    }
                }
            }
        })
    }
}

impl TxHashes {
    /// Opens the files of `build`, or creates empty ones. Those of the transactions from `tip_start` on are kept whole.
    pub(super) fn open(build: &Build<'_>, key_length: KeyLength, tip_start: TxNum) -> Result<Self> {
        let file = |kind, hash_bytes| HashFile::open(build.block_file(kind, 0), hash_bytes);
        Ok(Self {
            kept: file("txhashes", key_length.txid_bytes())?,
            tip: file("tiphashes", size_of::<u64>())?,
            tip_start,
        })
    }
}

impl HashFile {
    fn open(path: PathBuf, hash_bytes: usize) -> Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(Error::io("open", &path))?;
        Ok(Self { file, path, hash_bytes })
    }

    /// Number of hashes.
    fn len(&self) -> Result<u64> {
        let bytes = self.file.metadata().map_err(Error::io("read", &self.path))?.len();
        Ok(bytes / self.hash_bytes as u64)
    }

    fn write(&self, first: u64, hashes: &[u64]) -> Result<()> {
        let mut bytes = Vec::with_capacity(hashes.len() * self.hash_bytes + size_of::<u64>());
        for hash in hashes {
            put_first(&mut bytes, hash.to_be_bytes(), self.hash_bytes);
        }
        let written = self.file.write_all_at(&bytes, first * self.hash_bytes as u64);
        written.map_err(Error::io("write", &self.path))
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u64>> {
        let count = usize::try_from(range.end - range.start).expect("at most a chunk");
        let mut bytes = vec![0; count * self.hash_bytes + size_of::<u64>()];
        let end = count * self.hash_bytes;
        let read = self.file.read_exact_at(&mut bytes[..end], range.start * self.hash_bytes as u64);
        read.map_err(Error::io("read", &self.path))?;
        let kept = u64::MAX << (64 - 8 * self.hash_bytes);
        let hash = |at| {
            let wide = bytes[at..].first_chunk().expect("the buffer ends with eight bytes more");
            u64::from_be_bytes(*wide) & kept
        };
        Ok((0..end).step_by(self.hash_bytes).map(hash).collect())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.file.set_len(len * self.hash_bytes as u64).map_err(Error::io("truncate", &self.path))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(Error::io("sync", &self.path))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::names::Secret;

    #[test]
    fn hashes_are_kept_short_before_the_tip_and_whole_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = |kind, hash_bytes| HashFile::open(folder.path().join(kind), hash_bytes).unwrap();
        let tip_start = TxNum(10);
        let txids = Txids::Hashes(TxHashes { kept: file("kept", 5), tip: file("tip", 8), tip_start });
        let hash = |txnum: u64| (txnum + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let all: Vec<u64> = (0..16).map(hash).collect();
        // Blocks arrive in any order.
        for block in [10..16, 0..4, 4..10] {
            txids.write(TxNum(block.start as u64), &[], &all[block]).unwrap();
        }
        assert_eq!(txids.temp_bytes().unwrap(), 80);
        assert!(txids.is_whole_until(TxNum(16)).unwrap() && txids.has_all_before(TxNum(15)).unwrap());
        assert!(!txids.is_whole_until(TxNum(15)).unwrap() && !txids.has_all_before(TxNum(17)).unwrap());
        let keyer = Keyer::new(Secret([1; 16]), KeyLength::Wide);
        let kept = |hash: u64| hash >> 24 << 24;
        for packs_end in [10, 12, 16] {
            let expected = |txnum: u64| if txnum < packs_end { kept(hash(txnum)) } else { hash(txnum) };
            for range in [0..16, 0..5, 9..13, 12..12] {
                let hashes = txids.hashes(range.clone(), TxNum(packs_end), &keyer).unwrap();
                assert_eq!(hashes, range.map(expected).collect::<Vec<_>>());
            }
        }
        txids.truncate(TxNum(4)).unwrap();
        assert!(txids.is_whole_until(TxNum(4)).unwrap() && !txids.has_all_before(TxNum(5)).unwrap());
    }
}
