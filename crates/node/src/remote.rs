//! Blocks that a node is asked for one by one, over REST or RPC: units, and the proof that a block is the one asked for.

use std::ops::Range;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceResult, SpentBuf, SpentBytes, Unit, Visit,
};
use bitcoin::BlockHash;

use crate::blk::{header_hash_of, inside};
use crate::error::{not_found, permanent};
use crate::record::compact_size;

/// Consecutive blocks in a unit: enough work for a thread, small enough to spread.
const BLOCKS_PER_UNIT: usize = 16;

/// An interface of a node that gives blocks.
pub trait Interface: Send + Sync {
    /// One line for the log.
    fn describe(&self) -> String;

    /// See [`BlockSource::chain`].
    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>>;

    /// A block's bytes.
    fn raw_block(&self, hash: BlockHash) -> SourceResult<Vec<u8>>;

    /// What a block spends, as `/rest/spenttxouts` gives it.
    fn spent(&self, hash: BlockHash) -> SourceResult<Vec<u8>>;

    /// `len` bytes of a block from `offset`.
    fn part(&self, hash: BlockHash, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        part_of(hash, &self.raw_block(hash)?, offset, len)
    }
}

/// A source of blocks behind an interface of a node.
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
            let meta = meta.ok_or_else(|| permanent(format!("height {height} is not in the chain")))?;
            let (block, spent) = self.fetch(meta.hash)?;
            visit(height, &block, SpentBytes::TxOuts(&spent))?;
        }
        Ok(())
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let (block, spent) = self.fetch(hash)?;
        Ok(FetchedBlock { block, spent: SpentBuf::TxOuts(spent), position: None })
    }

    fn read_part(&self, hash: BlockHash, _: Option<FilePosition>, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        self.0.part(hash, offset, len)
    }
}

/// The block's header hashes to what was asked for, and there are spent outputs for each of its transactions.
fn prove(hash: BlockHash, block: &[u8], spent: &[u8]) -> SourceResult<()> {
    if header_hash_of(block) != Some(hash) {
        return Err(permanent(format!("the node answered with another block than {hash}")));
    }
    let transactions = block.get(80..).and_then(compact_size).map(|(count, _)| count);
    if transactions.is_none() || transactions != compact_size(spent).map(|(count, _)| count) {
        return Err(permanent(format!("the node's spent outputs of block {hash} are not those of its transactions")));
    }
    Ok(())
}

/// `len` bytes at `offset` of a whole block.
pub(crate) fn part_of(hash: BlockHash, block: &[u8], offset: u32, len: u32) -> SourceResult<Vec<u8>> {
    let end = offset.checked_add(len).map(|end| end as usize);
    let part = end.and_then(|end| block.get(offset as usize..end));
    part.map(<[u8]>::to_vec).ok_or_else(|| outside(hash, offset, len))
}

/// Bytes were asked for that the block does not have.
pub(crate) fn outside(hash: BlockHash, offset: u32, len: u32) -> birdhouse_chain::source::SourceError {
    permanent(format!("bytes {offset}+{len} are not in block {hash}"))
}

/// The chain moved while it was read.
pub(crate) fn moved(hash: BlockHash) -> birdhouse_chain::source::SourceError {
    not_found(format!("block {hash} is not in the node's active chain (any more)"))
}
