//! What REST and RPC have in common as sources of blocks: units, and the proof that a block is the one asked for.

use std::ops::Range;

use birdhouse_chain::Height;
use birdhouse_chain::source::{BlockMeta, SourceResult, SpentBytes, Unit, Visit};
use bitcoin::BlockHash;

use crate::blk::{header_hash_of, inside};
use crate::error::{not_found, permanent};
use crate::record::compact_size;

/// Consecutive blocks in a unit: enough work for a thread, small enough to spread.
const BLOCKS_PER_UNIT: usize = 16;

/// Units of consecutive blocks.
pub(crate) fn units(chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
    let all: Vec<Height> = inside(chain, heights).collect();
    all.chunks(BLOCKS_PER_UNIT).map(|part| Unit { heights: part.to_vec() }).collect()
}

/// Reads a unit block by block with `fetch`, which gives block and `spenttxouts` bytes.
pub(crate) fn read_unit(
    chain: &[BlockMeta],
    unit: &Unit,
    visit: &mut Visit<'_>,
    fetch: impl Fn(BlockHash) -> SourceResult<(Vec<u8>, Vec<u8>)>,
) -> SourceResult<()> {
    for &height in &unit.heights {
        let meta = chain.get(height.0 as usize);
        let meta = meta.ok_or_else(|| permanent(format!("height {height} is not in the chain")))?;
        let (block, spent) = fetch(meta.hash)?;
        visit(height, &block, SpentBytes::TxOuts(&spent))?;
    }
    Ok(())
}

/// The block's header hashes to what was asked for, and there are spent outputs for each of its transactions.
pub(crate) fn prove(hash: BlockHash, block: &[u8], spent: &[u8]) -> SourceResult<()> {
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
pub(crate) fn part(hash: BlockHash, block: &[u8], offset: u32, len: u32) -> SourceResult<Vec<u8>> {
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
