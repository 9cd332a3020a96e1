//! Blocks of a node that has none to read yet: one that is just created, or that does not answer and keeps its files
//! elsewhere.
//!
//! The cheapest source is chosen at the first read that finds one, and stays.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockPart, BlockSource, FetchedBlock, FilePosition, SourceResult, Unit, Visit,
};
use bitcoin::{BlockHash, Network};

use crate::open::open_source;
use crate::rpc::Rpc;

/// A source of blocks that opens once the node has files, or answers.
pub struct AwaitedSource {
    blocks_dir: PathBuf,
    network: Network,
    rpc: Arc<Rpc>,
    opened: OnceLock<Box<dyn BlockSource>>,
}

impl AwaitedSource {
    /// Returns the blocks of the node behind `rpc`, to be looked for in `blocks_dir` first. It opens nothing yet.
    pub fn new(blocks_dir: &Path, network: Network, rpc: Arc<Rpc>) -> Self {
        Self { blocks_dir: blocks_dir.to_owned(), network, rpc, opened: OnceLock::new() }
    }

    fn opened(&self) -> SourceResult<&dyn BlockSource> {
        if let Some(opened) = self.opened.get() {
            return Ok(&**opened);
        }
        let chosen = open_source(&self.blocks_dir, self.network, Some(&self.rpc))?;
        tracing::info!(source = chosen.source.describe(), "opened the block source");
        Ok(&**self.opened.get_or_init(|| chosen.source))
    }
}

impl BlockSource for AwaitedSource {
    fn describe(&self) -> String {
        match self.opened.get() {
            Some(opened) => opened.describe(),
            None => {
                format!("the node, which is waited for; its block files are expected in {}", self.blocks_dir.display())
            }
        }
    }

    fn gives_undo_data(&self) -> bool {
        self.opened().is_ok_and(BlockSource::gives_undo_data)
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.opened()?.chain(tip)
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        self.opened().map(|opened| opened.units(chain, heights)).unwrap_or_default()
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        self.opened()?.read_unit(chain, unit, visit)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.opened()?.block(hash)
    }

    fn close_deleted(&self) {
        if let Some(opened) = self.opened.get() {
            opened.close_deleted();
        }
    }

    fn fetches_removed(&self) -> bool {
        self.opened.get().is_some_and(|opened| opened.fetches_removed())
    }

    fn fetch_removed(&self, part: BlockPart) -> SourceResult<()> {
        self.opened()?.fetch_removed(part)
    }

    fn first_file(&self) -> SourceResult<u32> {
        self.opened()?.first_file()
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        self.opened()?.peek(position, offset, len)
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        self.opened()?.read_part(hash, position, offset, len)
    }
}
