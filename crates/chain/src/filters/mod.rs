//! Compact block filters: basic filters (BIP 158) and the chain of their headers (BIP 157).
//!
//! A filter is computed from a block and the outputs that it spends whenever somebody asks for it. Only the headers are
//! stored, because each of them depends on all before it: 32 bytes a block, in a derived index.
//!
//! Source: [BIP 157](https://github.com/bitcoin/bips/blob/master/bip-0157.mediawiki),
//! [BIP 158](https://github.com/bitcoin/bips/blob/master/bip-0158.mediawiki).

mod basic;
mod golomb;
mod headers;

pub use golomb::put_compact_size;
pub use headers::FilterHeaders;

use crate::block::ProvedBlock;
use crate::error::{Error, Result};
use crate::names::Height;
use crate::outside::{SourceError, SourceErrorKind};
use crate::state::Snapshot;

impl Snapshot {
    /// Computes the basic filter of the block at a height; `None` beyond the tip. Reads the whole block.
    ///
    /// # Errors
    /// The source has not the block, or not the outputs that it spends. Peers of the node send none of the latter.
    pub fn basic_filter(&self, height: Height) -> Result<Option<Vec<u8>>> {
        let Some(hash) = self.block_hash(height) else { return Ok(None) };
        // To search all files for a block that is gone would cost more than many filters, and so would their list.
        if !self.has_block(height)? && self.is_deleted(height)? {
            let message = format!("the node has deleted block {hash}, and with it the outputs that it spends");
            return Err(SourceError { message, kind: SourceErrorKind::NotFound }.into());
        }
        let fetched = self.shared.storage.source.block(hash)?;
        let block = ProvedBlock::of(&fetched.block, fetched.spent.as_bytes());
        let block = block.map_err(|error| Error::Block { height, error })?;
        Ok(Some(basic::of_block(hash, &block)))
    }
}
