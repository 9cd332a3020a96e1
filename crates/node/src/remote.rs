//! Blocks requested one by one from a node, over REST or RPC: units of work, and the check that an answer is the
//! requested block.

use std::ops::Range;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceError, SourceResult, SpentBuf, SpentBytes, Unit, Visit,
};
use bitcoin::BlockHash;

use crate::blk::{header_hash_of, inside};
use crate::error::{not_found, permanent};
use crate::record::compact_size;

/// Number of consecutive blocks in a unit: enough work for a thread, few enough to spread over threads.
const BLOCKS_PER_UNIT: usize = 16;

/// A remote interface of a node that serves blocks.
pub trait Interface: Send + Sync {
    /// Returns one line for the log.
    fn describe(&self) -> String;

    /// Returns the chain as [`BlockSource::chain`] does.
    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>>;

    /// Returns the bytes of a block.
    fn raw_block(&self, hash: BlockHash) -> SourceResult<Vec<u8>>;

    /// Returns the outputs that a block spends, in the format of `/rest/spenttxouts`.
    fn spent(&self, hash: BlockHash) -> SourceResult<Vec<u8>>;

    /// Returns `len` bytes of a block from `offset` on.
    fn part(&self, hash: BlockHash, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        part_of(hash, &self.raw_block(hash)?, offset, len)
    }
}

/// A source of blocks over a remote interface of a node.
#[derive(Debug)]
pub struct RemoteSource<I>(pub(crate) I);

impl<I: Interface> RemoteSource<I> {
    fn fetch(&self, hash: BlockHash) -> SourceResult<(Vec<u8>, Vec<u8>)> {
        let (block, spent) = (self.0.raw_block(hash)?, self.0.spent(hash)?);
        prove(hash, &block, &spent)?;
        Ok((block, spent))
    }
}

impl<I: Interface> BlockSource for RemoteSource<I> {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.0.chain(tip)
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        let all: Vec<Height> = inside(chain, heights).collect();
        all.chunks(BLOCKS_PER_UNIT).map(|part| Unit { heights: part.to_vec() }).collect()
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        for &height in &unit.heights {
            let meta = chain.get(height.0 as usize);
            let meta =
                meta.ok_or_else(|| permanent(format!("failed to read height {height}: it is not in the chain")))?;
            let (block, spent) = self.fetch(meta.hash)?;
            visit(height, &block, SpentBytes::TxOuts(&spent))?;
        }
        Ok(())
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let (block, spent) = self.fetch(hash)?;
        let spent = SpentBuf::TxOuts(spent);
        Ok(FetchedBlock { block, txids: None, spent, position: None, has_sibling: false })
    }

    fn read_part(&self, hash: BlockHash, _: Option<FilePosition>, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        self.0.part(hash, offset, len)
    }
}

/// Checks that the block's header has the requested hash and that there are spent outputs for each transaction.
fn prove(hash: BlockHash, block: &[u8], spent: &[u8]) -> SourceResult<()> {
    if header_hash_of(block) != Some(hash) {
        return Err(permanent(format!("the node sent another block than {hash}")));
    }
    let transactions = block.get(80..).and_then(compact_size).map(|(count, _)| count);
    if transactions.is_none() || transactions != compact_size(spent).map(|(count, _)| count) {
        return Err(permanent(format!("the node sent spent outputs that do not fit the transactions of block {hash}")));
    }
    Ok(())
}

/// Returns `len` bytes at `offset` of a whole block.
pub(crate) fn part_of(hash: BlockHash, block: &[u8], offset: u32, len: u32) -> SourceResult<Vec<u8>> {
    let end = offset.checked_add(len).map(|end| end as usize);
    let part = end.and_then(|end| block.get(offset as usize..end));
    part.map(<[u8]>::to_vec).ok_or_else(|| outside(hash, offset, len))
}

/// Returns the error of a part that reaches past the end of its block.
pub(crate) fn outside(hash: BlockHash, offset: u32, len: u32) -> SourceError {
    permanent(format!("failed to read {len} bytes at {offset} of block {hash}: they reach past its end"))
}

/// Returns the error of a block that left the active chain during the read.
pub(crate) fn moved(hash: BlockHash) -> SourceError {
    not_found(format!("block {hash} is not, or no longer, in the node's active chain"))
}
