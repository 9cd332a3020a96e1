//! The txids of spooled blocks, in the order of the chain: their numbers are reserved after all of them were read.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use birdhouse_store::Array;
use zerocopy::IntoBytes as _;

use crate::build::unnamed_file;
use crate::error::{Error, Result};
use crate::names::{Hash256, TxNum};

/// Txids that are copied at once, 2 MiB.
const COPIED: usize = 1 << 16;

/// Txids without numbers.
pub(super) struct SpooledTxids {
    /// All of them; `None` for an index that keeps none.
    file: Option<TxidFile>,
    /// The last ones.
    last: Vec<Hash256>,
    last_max: usize,
}

struct TxidFile {
    file: File,
    /// The path at which the file was created, for messages.
    path: PathBuf,
    txids: u64,
}

impl SpooledTxids {
    /// Creates an empty list that remembers its last `last_max` txids, with a file of all in `dir`.
    pub(super) fn create(dir: Option<&Path>, last_max: usize) -> Result<Self> {
        let file = dir.map(|dir| TxidFile::create(dir.join("behind-txids.tmp"))).transpose()?;
        Ok(Self { file, last: Vec::new(), last_max })
    }

    /// Adds the txids of the next block.
    pub(super) fn push(&mut self, txids: &[Hash256]) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.push(txids)?;
        }
        self.last.extend_from_slice(&txids[txids.len().saturating_sub(self.last_max)..]);
        if self.last.len() > 2 * self.last_max {
            self.last.drain(..self.last.len() - self.last_max);
        }
        Ok(())
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.txids * size_of::<Hash256>() as u64)
    }

    /// Copies all txids to an array, where the first one has this number.
    pub(super) fn copy_to(&self, array: &dyn Array, first: TxNum) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.copy_to(array, first))
    }

    /// The last txids.
    pub(super) fn last(&self) -> &[Hash256] {
        &self.last
    }
}

impl TxidFile {
    fn create(path: PathBuf) -> Result<Self> {
        Ok(Self { file: unnamed_file(&path)?, path, txids: 0 })
    }

    fn push(&mut self, txids: &[Hash256]) -> Result<()> {
        let at = self.txids * size_of::<Hash256>() as u64;
        self.file.write_all_at(txids.as_bytes(), at).map_err(Error::io("write", &self.path))?;
        self.txids += txids.len() as u64;
        Ok(())
    }

    fn copy_to(&self, array: &dyn Array, first: TxNum) -> Result<()> {
        let mut txids = vec![Hash256::default(); COPIED];
        let mut copied = 0;
        while copied < self.txids {
            let some = usize::try_from(self.txids - copied).unwrap_or(COPIED).min(COPIED);
            let at = copied * size_of::<Hash256>() as u64;
            let read = self.file.read_exact_at(txids[..some].as_mut_bytes(), at);
            read.map_err(Error::io("read", &self.path))?;
            array.write(first.0 + copied, txids[..some].as_bytes())?;
            copied += some as u64;
        }
        Ok(())
    }
}
