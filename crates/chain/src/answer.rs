//! What the index says, as values: entries of histories, unspent outputs, transactions, proofs.

use bitcoin::{OutPoint, Txid};

use crate::scripthash::ScriptHash;
use crate::source::BlockId;
use crate::txnum::Height;

/// Where a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confirmation {
    /// In the block at this height.
    Confirmed(Height),
    /// In the mempool.
    Unconfirmed {
        /// Whether it spends an output that is in the mempool itself.
        has_unconfirmed_inputs: bool,
    },
}

/// One transaction of a script's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The transaction.
    pub txid: Txid,
    /// The block it is in.
    pub height: Height,
}

/// One output that nothing spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unspent {
    /// The funding transaction.
    pub txid: Txid,
    /// Which of its outputs.
    pub vout: u32,
    /// Where the funding transaction is.
    pub confirmation: Confirmation,
    /// Satoshis.
    pub value: u64,
}

/// One transaction of a script that is in the mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnconfirmedEntry {
    /// The transaction.
    pub txid: Txid,
    /// Satoshis.
    pub fee: u64,
    /// Whether it spends an output that is in the mempool itself.
    pub has_unconfirmed_inputs: bool,
}

/// What a script holds, satoshis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balance {
    /// Unspent outputs in blocks, whatever the mempool spends.
    pub confirmed: u64,
    /// What the mempool adds, or takes away.
    pub unconfirmed: i64,
}

/// An output, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundOutput {
    /// Which.
    pub outpoint: OutPoint,
    /// Whose.
    pub scripthash: ScriptHash,
    /// Satoshis.
    pub value: u64,
    /// Where the funding transaction is.
    pub funding: Confirmation,
    /// The transaction that spends it, and where that is.
    pub spender: Option<(Txid, Confirmation)>,
}

/// Raw bytes of a confirmed transaction, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmedTransaction {
    /// Serialised with witness.
    pub raw: Vec<u8>,
    /// The block it is in.
    pub block: BlockId,
}

/// A merkle branch, deepest pairing first, in the hash function's byte order (display is reversed).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MerkleBranch {
    /// Sibling hashes from the leaf upwards.
    pub siblings: Vec<[u8; 32]>,
    /// The leaf's index.
    pub position: u32,
    /// The root.
    pub root: [u8; 32],
}
