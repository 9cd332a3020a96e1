//! Unspent outputs of the wallet.

use bitcoin::{OutPoint, TxOut};

use crate::script::Lock;

/// An unspent output that the wallet can spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coin {
    /// The outpoint that names it.
    pub outpoint: OutPoint,
    /// The output itself.
    pub output: TxOut,
    /// The lock that it pays.
    pub lock: Lock,
    /// The first height at which it may be spent; coinbases wait 100 blocks.
    pub spendable_from: u32,
}

impl Coin {
    /// Returns the value in satoshi.
    pub fn sat(&self) -> u64 {
        self.output.value.to_sat()
    }
}
