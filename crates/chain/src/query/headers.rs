//! Answers from the header chain, which is in memory.

use bitcoin::BlockHash;

use crate::names::Height;
use crate::state::{ChainBlock, MerkleBranch, Snapshot};

impl Snapshot {
    /// The header at a height; `None` beyond the tip.
    pub fn header(&self, height: Height) -> Option<[u8; 80]> {
        self.headers.get(height).map(|block| block.header)
    }

    /// Up to `count` consecutive headers; fewer at the tip.
    pub fn headers(&self, start: Height, count: u32) -> Vec<[u8; 80]> {
        let heights = start.0..start.0.saturating_add(count);
        heights.map_while(|height| self.header(Height(height))).collect()
    }

    /// The hash of the block at a height; `None` beyond the tip.
    pub fn block_hash(&self, height: Height) -> Option<BlockHash> {
        self.headers.get(height).map(ChainBlock::block_hash)
    }

    /// The number of transactions in all blocks up to the tip.
    pub fn transaction_count(&self) -> u64 {
        let blocks = (0..self.headers.len()).filter_map(|height| self.headers.get(Height(height)));
        blocks.map(|block| u64::from(block.tx_count)).sum()
    }

    /// The branch from the block hash at `height` to the merkle root over block hashes `0..=cp_height`.
    /// `None` unless `height <= cp_height <= tip`.
    pub fn header_branch(&self, height: Height, cp_height: Height) -> Option<MerkleBranch> {
        let (siblings, root) = self.headers.branch(height, cp_height)?;
        Some(MerkleBranch { siblings, position: height.0, root })
    }
}
