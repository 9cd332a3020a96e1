//! Headers of the chain that the first build indexes, served before its end.

use std::sync::Arc;

use crate::names::Height;
use crate::outside::{BlockId, BlockMeta};

/// The header chain of a build under way. It is complete from the build's start.
#[derive(Debug, Clone)]
pub struct EarlyHeaders {
    /// Not empty.
    chain: Arc<Vec<BlockMeta>>,
}

impl EarlyHeaders {
    /// `None` for an empty chain.
    pub(crate) fn of(chain: &Arc<Vec<BlockMeta>>) -> Option<Self> {
        (!chain.is_empty()).then(|| Self { chain: Arc::clone(chain) })
    }

    /// Height and hash of the last block.
    pub fn tip(&self) -> BlockId {
        let last = self.chain.len() - 1;
        BlockId { height: Height(u32::try_from(last).expect("heights fit 32 bits")), hash: self.chain[last].hash }
    }

    /// The header at a height; `None` beyond the tip.
    pub fn header(&self, height: Height) -> Option<[u8; 80]> {
        self.chain.get(height.0 as usize).map(|block| block.header)
    }

    /// Up to `count` consecutive headers; fewer at the tip.
    pub fn headers(&self, start: Height, count: u32) -> Vec<[u8; 80]> {
        let heights = start.0..start.0.saturating_add(count);
        heights.map_while(|height| self.header(Height(height))).collect()
    }
}
