//! Answers as values: history entries, unspent outputs, transactions, proofs.

use bitcoin::{OutPoint, Txid};

use crate::scripthash::ScriptHash;
use crate::source::BlockId;
use crate::txnum::Height;

/// The place of a transaction: a block or the mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confirmation {
    /// In the block at this height.
    Confirmed(Height),
    /// In the mempool.
    Unconfirmed {
        /// True if it spends an output that is itself in the mempool.
        has_unconfirmed_inputs: bool,
    },
}

/// One transaction of a script's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The transaction.
    pub txid: Txid,
    /// Height of its block.
    pub height: Height,
}

/// An unspent output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unspent {
    /// The funding transaction.
    pub txid: Txid,
    /// Index of the output in it.
    pub vout: u32,
    /// Confirmation of the funding transaction.
    pub confirmation: Confirmation,
    /// Value in satoshis.
    pub value: u64,
}

/// One transaction of a script in the mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnconfirmedEntry {
    /// The transaction.
    pub txid: Txid,
    /// Fee in satoshis.
    pub fee: u64,
    /// True if it spends an output that is itself in the mempool.
    pub has_unconfirmed_inputs: bool,
}

/// Balance of a script, in satoshis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balance {
    /// Sum of the outputs that no block spends; the mempool may spend some.
    pub confirmed: u64,
    /// Change of the balance by the mempool; negative when it spends more than it pays.
    pub unconfirmed: i64,
}

/// An output and its spender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundOutput {
    /// The output.
    pub outpoint: OutPoint,
    /// Hash of its script.
    pub scripthash: ScriptHash,
    /// Value in satoshis.
    pub value: u64,
    /// Confirmation of the funding transaction.
    pub funding: Confirmation,
    /// The spending transaction and its confirmation.
    pub spender: Option<(Txid, Confirmation)>,
}

/// Bytes and block of a confirmed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmedTransaction {
    /// Serialised with witness.
    pub raw: Vec<u8>,
    /// Its block.
    pub block: BlockId,
}

/// A merkle branch in the byte order of the hash function; displays reverse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MerkleBranch {
    /// Sibling hashes, from the leaf upwards.
    pub siblings: Vec<[u8; 32]>,
    /// Index of the leaf.
    pub position: u32,
    /// The root.
    pub root: [u8; 32],
}
