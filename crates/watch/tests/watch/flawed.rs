//! Faults below an index: blocks that cannot be read, and reads of its tables that fail.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockPart, BlockSource, FetchedBlock, FilePosition, SourceError, SourceErrorKind, SourceResult, Unit,
    Visit,
};
use birdhouse_testkit::hooked_store::{Call, Hook};
use birdhouse_testkit::rng::Rng;
use bitcoin::BlockHash;

/// Blocks of which parts cannot be read, as sectors of a disk that fail.
pub(crate) struct FlawedBlocks {
    source: Arc<dyn BlockSource>,
    lost: Mutex<HashSet<BlockHash>>,
    /// Reads that failed.
    failures: AtomicU32,
}

/// Reads of tables that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// This many of a thousand.
    Chance(u64),
    /// One, after this many others.
    Once(u64),
}

/// Tables of which reads fail.
pub(crate) struct FlawedReads {
    flaw: Mutex<Flaw>,
    rng: Mutex<Rng>,
}

// === impl FlawedBlocks ===

impl FlawedBlocks {
    pub(crate) fn of(source: Arc<dyn BlockSource>) -> Self {
        Self { source, lost: Mutex::default(), failures: AtomicU32::new(0) }
    }

    /// Lets no part of a block be read.
    pub(crate) fn lose(&self, block: BlockHash) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(block);
    }

    /// Lets every block be read again.
    pub(crate) fn repair(&self) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the number of reads that failed.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl BlockSource for FlawedBlocks {
    fn describe(&self) -> String {
        self.source.describe()
    }

    fn gives_undo_data(&self) -> bool {
        self.source.gives_undo_data()
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.source.chain(tip)
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        self.source.units(chain, heights)
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, take: &mut Visit<'_>) -> SourceResult<()> {
        self.source.read_unit(chain, unit, take)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.source.block(hash)
    }

    fn fetches_removed(&self) -> bool {
        self.source.fetches_removed()
    }

    fn first_file(&self) -> SourceResult<u32> {
        self.source.first_file()
    }

    fn fetch_removed(&self, part: BlockPart) -> SourceResult<()> {
        self.source.fetch_removed(part)
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        if self.lost.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.source.peek(position, offset, len)
        } else {
            // So every part is asked for with the hash of its block.
            Ok(None)
        }
    }

    fn close_deleted(&self) {
        self.source.close_deleted();
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        if self.lost.lock().unwrap_or_else(PoisonError::into_inner).contains(&hash) {
            self.failures.fetch_add(1, Ordering::Relaxed);
            let message = format!("a sector of block {hash} cannot be read");
            return Err(SourceError { message, kind: SourceErrorKind::Permanent });
        }
        self.source.read_part(hash, position, offset, len)
    }
}

// === impl FlawedReads ===

impl FlawedReads {
    pub(crate) fn new(seed: u64) -> Self {
        Self { flaw: Mutex::new(Flaw::None), rng: Mutex::new(Rng::new(seed)) }
    }

    /// Lets these reads fail from now on. Returns those that were still to fail.
    pub(crate) fn fail(&self, flaw: Flaw) -> Flaw {
        std::mem::replace(&mut self.flaw.lock().unwrap_or_else(PoisonError::into_inner), flaw)
    }

    fn is_flawed(&self) -> bool {
        let mut flaw = self.flaw.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *flaw {
            Flaw::None => false,
            Flaw::Chance(per_mille) => self.rng.lock().unwrap_or_else(PoisonError::into_inner).per_mille(*per_mille),
            Flaw::Once(0) => {
                *flaw = Flaw::None;
                true
            }
            Flaw::Once(left) => {
                *left -= 1;
                false
            }
        }
    }
}

impl Hook for FlawedReads {
    fn before(&self, call: Call) -> birdhouse_store::Result<()> {
        if call == Call::Read && self.is_flawed() {
            let cause = std::io::Error::other("a sector cannot be read");
            return Err(birdhouse_store::Error::Io { action: "read a table".into(), cause });
        }
        Ok(())
    }
}
