//! Block files that note which of their bytes are read for single transactions.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceResult, Unit, Visit};
use birdhouse_node::BlockFiles;
use bitcoin::BlockHash;

/// Bytes of a block: its position, and the offset in it.
pub(crate) type Read = (Option<FilePosition>, u32);

/// The files of a node.
pub(crate) struct NotedReads {
    files: BlockFiles,
    reads: Mutex<Vec<Read>>,
}

// === impl NotedReads ===

impl NotedReads {
    pub(crate) fn of(files: BlockFiles) -> Self {
        Self { files, reads: Mutex::default() }
    }

    /// Takes the reads since the last call.
    pub(crate) fn take(&self) -> Vec<Read> {
        std::mem::take(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, position: Option<FilePosition>, offset: u32) {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push((position, offset));
    }
}

impl BlockSource for NotedReads {
    fn describe(&self) -> String {
        self.files.describe()
    }

    fn gives_undo_data(&self) -> bool {
        self.files.gives_undo_data()
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.files.chain(tip)
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        self.files.units(chain, heights)
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, take: &mut Visit<'_>) -> SourceResult<()> {
        self.files.read_unit(chain, unit, take)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.files.block(hash)
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        self.note(Some(position), offset);
        self.files.peek(position, offset, len)
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        self.note(position, offset);
        self.files.read_part(hash, position, offset, len)
    }
}
