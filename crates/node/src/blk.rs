//! The node's own block and undo files as a source of blocks: `blkNNNNN.dat`, `revNNNNN.dat`, `xor.dat`.
//!
//! The files are read while the node writes them. Every delivered block has the hash asked for, and its undo data the
//! right checksum; the visitor verifies the merkle root. The node's database is never opened: one walk over the record
//! heads finds the blocks, and a request for an unknown block scans the newest files again.
//! Source: Core's `node/blockstorage.cpp`, `flatfile.cpp`.

mod best_chain;
mod files;
mod folder;
mod handles;
mod known;
mod opened;
mod positions;
mod prove;
mod scan;
mod undo_pairs;
mod unit;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceError, SourceErrorKind, SourceResult, Unit, Visit,
};
use bitcoin::{BlockHash, Network};
use parking_lot::RwLock;

use opened::Opened;
use scan::{HEADER_BYTES, header_hash};

pub(crate) use folder::{NETWORKS, TESTNET5, network_flag, unserved_chain};
pub use scan::BlockHead;
pub(crate) use unit::inside;

/// The folder `blocks` of a node.
///
/// The node may be wiped, restored from a copy, or downloaded again while the folder is open. Then blocks lie
/// elsewhere, under another key. A block that is not found where it was leads to a look at the folder, and to a new
/// scan if it was replaced.
pub struct BlockFiles {
    path: PathBuf,
    network: Network,
    opened: RwLock<Arc<Opened>>,
    /// Asked for a block that the files do not give.
    node: Option<Arc<dyn BlockSource>>,
}

impl fmt::Debug for BlockFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockFiles").field("path", &self.path).finish_non_exhaustive()
    }
}

impl BlockFiles {
    /// Opens the folder `blocks` of a node of this network. It scans no file yet.
    pub fn open(blocks_dir: &Path, network: Network) -> SourceResult<Self> {
        let opened = RwLock::new(Arc::new(Opened::open(blocks_dir, network)?));
        Ok(Self { path: blocks_dir.to_owned(), network, opened, node: None })
    }

    /// Asks the node for a single block that its files do not give: siblings whose undo data only a deleted block
    /// tells apart.
    #[must_use]
    pub fn with_node(self, node: Arc<dyn BlockSource>) -> Self {
        Self { node: Some(node), ..self }
    }

    fn opened(&self) -> Arc<Opened> {
        Arc::clone(&self.opened.read())
    }

    /// Calls `work`, and calls it again with the new folder if something is missing in one that was replaced.
    fn found<T>(&self, work: impl Fn(&Opened) -> SourceResult<T>) -> SourceResult<T> {
        let opened = self.opened();
        match work(&opened) {
            Err(error) if error.kind == SourceErrorKind::NotFound && opened.is_replaced() => {
                // A folder that is just being made cannot be opened yet.
                let Ok(replacing) = Opened::open(&self.path, self.network) else { return Err(error) };
                tracing::info!(path = %self.path.display(), "the node's block files were replaced, scanning them again");
                let replacing = Arc::new(replacing);
                *self.opened.write() = Arc::clone(&replacing);
                work(&replacing)
            }
            result => result,
        }
    }
}

impl BlockSource for BlockFiles {
    fn describe(&self) -> String {
        self.opened().describe()
    }

    fn gives_undo_data(&self) -> bool {
        true
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.found(|opened| opened.chain(tip))
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        self.opened().units(chain, heights)
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        self.opened().read_unit(chain, unit, visit)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let found = self.found(|opened| opened.block(hash));
        let Some(node) = &self.node else { return found };
        match found {
            // The node knows the position of the undo data that its files leave in doubt.
            Err(error) if error.kind == SourceErrorKind::NotFound => {
                let both = |by_rpc| SourceError { message: format!("{error}; over RPC: {by_rpc}"), ..error.clone() };
                node.block(hash).map_err(both)
            }
            // What would prove that the undo data is no sibling's may lie in deleted blocks.
            Ok(block) if block.has_sibling && self.opened().is_pruned() => Ok(match node.block(hash) {
                Ok(by_node) => FetchedBlock { position: block.position, ..by_node },
                Err(_) => block,
            }),
            found => found,
        }
    }

    fn close_deleted(&self) {
        self.opened().close_deleted();
    }

    fn first_file(&self) -> SourceResult<u32> {
        self.opened().first_file()
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        self.opened().peek(position, offset, len)
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        let found = self.found(|opened| opened.read_part(hash, position, offset, len));
        let is_deleted = || position.is_some_and(|position| self.opened().has_removed(position.file));
        match (&self.node, found) {
            // As of a whole block: after a crash of the node its files are not all in order. Deleted ones are another
            // matter, for which there is a cache.
            (Some(node), Err(error)) if error.kind == SourceErrorKind::NotFound && !is_deleted() => {
                node.read_part(hash, None, offset, len).map_err(|_| error)
            }
            (_, found) => found,
        }
    }
}

/// Returns the hash of the header at the beginning of `block`.
pub(crate) fn header_hash_of(block: &[u8]) -> Option<BlockHash> {
    block.first_chunk::<HEADER_BYTES>().map(header_hash)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
