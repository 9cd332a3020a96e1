//! Blocks: by hash, their sizes, weights and times, their transactions and bytes.

use std::ops::Range;

use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Txid};

use crate::error::Result;
use crate::names::{Height, TxNum};
use crate::outside::BlockId;
use crate::rows::txpos::Span;
use crate::state::{BlockSummary, ChainBlock, Snapshot};

/// Blocks whose times a median is taken of ([BIP 113](https://github.com/bitcoin/bips/blob/master/bip-0113.mediawiki)).
const MEDIAN_BLOCKS: u32 = 11;

impl Snapshot {
    /// Returns the height of a block of the chain; `None` for a stale or an unknown one.
    pub fn block_height(&self, hash: &BlockHash) -> Option<Height> {
        self.shared.heights.find(&self.headers, hash.as_byte_array())
    }

    /// Returns header and sizes of the block at a height; `None` beyond the tip.
    pub fn block_summary(&self, height: Height) -> Option<BlockSummary> {
        let block = self.headers.get(height)?;
        let id = BlockId { height, hash: block.block_hash() };
        Some(BlockSummary {
            id,
            header: block.header,
            tx_count: block.tx_count,
            bytes: block.bytes,
            weight: block.weight,
        })
    }

    /// Returns the time in the header of the block at a height, in seconds since 1970; `None` beyond the tip.
    pub fn block_time(&self, height: Height) -> Option<u32> {
        self.headers.get(height).map(ChainBlock::time)
    }

    /// Returns the median time of the block at a height and the ten before it, in seconds since 1970; `None` beyond the
    /// tip.
    pub fn median_time(&self, height: Height) -> Option<u32> {
        let first = (height.0 + 1).saturating_sub(MEDIAN_BLOCKS);
        let mut times =
            (first..=height.0).map(|height| self.block_time(Height(height))).collect::<Option<Vec<u32>>>()?;
        times.sort_unstable();
        Some(times[times.len() / 2])
    }

    /// Returns the block with the highest time that is no later than `time`; of several, the last. `None` if the
    /// genesis block is later.
    pub fn block_at_time(&self, time: u32) -> Option<BlockId> {
        let (height, block) = self.headers.last_at_time(time)?;
        Some(BlockId { height, hash: block.block_hash() })
    }

    /// Returns the txids of the block at a height, in its order; `None` beyond the tip.
    pub fn txids_of_block(&self, height: Height) -> Result<Option<Vec<Txid>>> {
        let Some(block) = self.headers.get(height) else { return Ok(None) };
        let txids = self.block_txids(block)?;
        Ok(Some(txids.into_iter().map(Txid::from_byte_array).collect()))
    }

    /// Returns the txid at an index of a block; `None` beyond the tip or the block.
    pub fn txid_at(&self, height: Height, index: u32) -> Result<Option<Txid>> {
        let Some(block) = self.headers.get(height).filter(|block| index < block.tx_count) else { return Ok(None) };
        let txnum = TxNum(block.first_txnum.0 + u64::from(index));
        Ok(self.txids_of(&[txnum])?.pop().map(Txid::from_byte_array))
    }

    /// Returns a range of a block's bytes, of which [`BlockSummary::bytes`] has the number; `None` beyond the tip or
    /// the block.
    pub fn block_bytes(&self, height: Height, range: Range<u32>) -> Result<Option<Vec<u8>>> {
        let block = self.headers.get(height).filter(|block| range.end <= block.bytes);
        let Some((block, len)) = block.zip(range.end.checked_sub(range.start)) else { return Ok(None) };
        self.reader().block_part(block, Span { offset: range.start, len }).map(Some)
    }
}
