//! Names of transactions, outputs and scripts by numbers.

/// The place of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TxPlace {
    /// The coinbase of the block at a height.
    Coinbase(u64),
    /// A transaction of a cell.
    Cell { cell: u64, tx: usize },
}

/// The place of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OutPlace {
    /// An output of the coinbase at a height.
    Coinbase { height: u64, vout: u64 },
    /// An output of a cell.
    Cell { cell: u64, output: usize },
}

/// A script: its class and its number in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Script {
    pub(super) class: u8,
    pub(super) number: u64,
}

/// The class of the outputs that fill queues; their numbers are those of the outputs.
pub(super) const FILLING_CLASS: u8 = 100;
/// The class of coinbases: scripts of pools have the first numbers, then each block has one.
pub(super) const COINBASE_CLASS: u8 = 101;
/// A class that no output pays.
pub(super) const NEVER_CLASS: u8 = 102;
