//! Entry points for benches of private functions. Not a stable interface.

use crate::block::BlockTouches;
use crate::outside::SpentBytes;

/// Parses a block with the answer of `/rest/spenttxouts`; returns true when both are valid.
pub fn block_touches(block: &[u8], spent: &[u8]) -> bool {
    BlockTouches::of(block, SpentBytes::TxOuts(spent)).is_ok()
}
