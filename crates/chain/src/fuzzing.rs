//! Entry points of the fuzz targets: every decoder of outside bytes. Not for use.

use crate::block::{BlockTouches, SpentOutputs};
use crate::outside::SpentBytes;

/// Parses a block with undo data, and with the answer of `/rest/spenttxouts`.
pub fn block(block: &[u8], spent: &[u8]) {
    let _ = BlockTouches::of(block, SpentBytes::Undo(spent));
    let _ = BlockTouches::of(block, SpentBytes::TxOuts(spent));
}

/// Decodes undo data for transactions with these numbers of inputs.
pub fn spent(bytes: &[u8], inputs: &[u8]) {
    let total = inputs.iter().map(|count| usize::from(*count)).sum();
    for bytes in [SpentBytes::Undo(bytes), SpentBytes::TxOuts(bytes)] {
        let counts = inputs.iter().map(|count| usize::from(*count));
        let _ = SpentOutputs::decode(bytes, counts, total);
    }
}
