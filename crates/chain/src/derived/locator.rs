//! A locator: some blocks of a chain, dense at its end, by which the last block that another chain shares is found.

use bitcoin::BlockHash;
use bitcoin::hashes::Hash as _;

use crate::block::{Cursor, Malformed};
use crate::names::Height;
use crate::outside::{BlockId, BlockMeta};
use crate::state::{ChainBlock, Snapshot};

/// Blocks at the end that are all in it: reorgs are shallow, and a snapshot that is held is no further behind. Of one
/// that is, a few of the last blocks seem to be missing.
const DENSE: u32 = 100;

/// A chain whose blocks have a hash at each height.
pub(super) trait Chain {
    /// Returns the hash of the block at a height; `None` beyond the tip.
    fn hash_at(&self, height: Height) -> Option<BlockHash>;
}

impl Chain for Snapshot {
    fn hash_at(&self, height: Height) -> Option<BlockHash> {
        self.headers.get(height).map(ChainBlock::block_hash)
    }
}

impl Chain for [BlockMeta] {
    fn hash_at(&self, height: Height) -> Option<BlockHash> {
        self.get(height.0 as usize).map(|block| block.hash)
    }
}

/// Blocks of one chain, the highest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Locator(Vec<BlockId>);

impl Locator {
    /// Returns the locator of the first `len` blocks of a chain.
    pub(super) fn of<C: Chain + ?Sized>(chain: &C, len: u32) -> Self {
        let (mut blocks, mut height, mut step) = (Vec::new(), len.checked_sub(1), 1);
        while let Some(here) = height {
            let Some(hash) = chain.hash_at(Height(here)) else { break };
            blocks.push(BlockId { height: Height(here), hash });
            step = if blocks.len() > DENSE as usize { step * 2 } else { 1 };
            height = match here {
                0 => None,
                here => Some(here.saturating_sub(step)),
            };
        }
        Self(blocks)
    }

    /// Number of blocks up to the highest one.
    pub(super) fn len(&self) -> u32 {
        self.0.first().map_or(0, |block| block.height.0 + 1)
    }

    /// Number of blocks that it surely shares with a chain.
    pub(super) fn shared<C: Chain + ?Sized>(&self, chain: &C) -> u32 {
        let shared = self.0.iter().find(|block| chain.hash_at(block.height) == Some(block.hash));
        shared.map_or(0, |block| block.height.0 + 1)
    }

    /// Encodes it behind the version of a format: version 1, then each: height u32 LE, hash 32.
    pub(super) fn encode(&self, format: u8) -> Vec<u8> {
        let mut out = vec![format];
        for block in &self.0 {
            out.extend_from_slice(&block.height.0.to_le_bytes());
            out.extend_from_slice(block.hash.as_byte_array());
        }
        out
    }

    /// Decodes the version of the format, and the locator.
    pub(super) fn decode(bytes: &[u8]) -> Result<(u8, Self), Malformed> {
        let mut cursor = Cursor::new(bytes);
        let format = cursor.u8("version")?;
        let mut blocks: Vec<BlockId> = Vec::new();
        while !cursor.is_at_end() {
            let height = Height(cursor.u32_le("height")?);
            if blocks.last().is_some_and(|above| height >= above.height) {
                return Err(cursor.malformed("height"));
            }
            blocks.push(BlockId { height, hash: BlockHash::from_byte_array(*cursor.array("hash")?) });
        }
        Ok((format, Self(blocks)))
    }
}
