//! Numbers of the chain: heights and txnums.
//!
//! A txnum names one transaction in one block for ever. Txnums ascend in the order in which blocks were appended, with
//! gaps where numbers were reserved and never used. No other transaction ever receives the same one, not even after a
//! reorg or a crash.

use std::fmt;

/// A block's distance from the genesis block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Height(pub u32);

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transaction's number; below 2^40.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxNum(pub u64);

impl TxNum {
    /// Bytes of a txnum in a key, big-endian.
    pub const LEN: usize = 5;
    /// The first number that does not fit.
    pub const LIMIT: u64 = 1 << 40;
    /// A number above all transactions.
    pub(crate) const END: Self = Self(Self::LIMIT - 1);
}
