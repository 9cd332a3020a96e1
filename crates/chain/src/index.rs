//! The index as its users see it: open, build, follow the tip, ask.

use std::sync::Arc;

use bitcoin::{BlockHash, Txid};
use tokio::sync::broadcast;

use crate::scripthash::ScriptHash;
use crate::source::BlockId;
use crate::txnum::Height;

/// One transaction of a script's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The transaction.
    pub txid: Txid,
    /// The block it is in.
    pub height: Height,
}

/// One output that no confirmed transaction spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unspent {
    /// The funding transaction.
    pub txid: Txid,
    /// Which of its outputs.
    pub vout: u32,
    /// The block it is in.
    pub height: Height,
    /// Satoshis.
    pub value: u64,
}

/// Raw bytes of a confirmed transaction, and where it is.
#[derive(Debug, Clone)]
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

/// Why there is no snapshot yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the index is being built, {percent} %")]
pub struct Syncing {
    /// How far, 0 to 99.
    pub percent: u8,
}

/// A published change of the tip.
#[derive(Debug)]
pub struct Update {
    /// What is seen from now on.
    pub snapshot: Arc<Snapshot>,
    /// Every script touched by the blocks that came or went; sorted.
    pub touched: Vec<ScriptHash>,
}

/// The index of one chain in one store.
#[derive(Debug)]
pub struct Index {}

/// The index at one tip. All answers of one snapshot agree. Cheap to hold.
#[derive(Debug)]
pub struct Snapshot {}

#[expect(unused_variables, clippy::unimplemented, reason = "skeleton")]
impl Index {
    /// What is published now; an error while the index is first built.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Syncing> {
        unimplemented!()
    }
    /// Every publish from now on. A receiver that lags more than the channel holds (64) must treat every
    /// script as touched.
    pub fn updates(&self) -> broadcast::Receiver<Arc<Update>> {
        unimplemented!()
    }
    /// Hash of the block at height 0.
    pub fn genesis_hash(&self) -> BlockHash {
        unimplemented!()
    }
}

#[expect(unused_variables, clippy::unimplemented, reason = "skeleton")]
impl Snapshot {
    /// Height and hash of the tip.
    pub fn tip(&self) -> BlockId {
        unimplemented!()
    }
    /// The header at a height; `None` beyond the tip.
    pub fn header(&self, height: Height) -> Option<[u8; 80]> {
        unimplemented!()
    }
    /// Up to `count` consecutive headers; fewer at the tip.
    pub fn headers(&self, start: Height, count: u32) -> Vec<[u8; 80]> {
        unimplemented!()
    }
    /// The branch from the block hash at `height` to the merkle root over block hashes `0..=cp_height`.
    /// `None` unless `height <= cp_height <= tip`.
    pub fn header_branch(&self, height: Height, cp_height: Height) -> Option<MerkleBranch> {
        unimplemented!()
    }
    /// Confirmed history in chain order, no transaction twice.
    pub fn history(&self, scripthash: &ScriptHash) -> crate::Result<Vec<HistoryEntry>> {
        unimplemented!()
    }
    /// Electrum's status of the confirmed history; `None` when there is none.
    pub fn status(&self, scripthash: &ScriptHash) -> crate::Result<Option<[u8; 32]>> {
        unimplemented!()
    }
    /// Sum of the unspent outputs, satoshis.
    pub fn balance(&self, scripthash: &ScriptHash) -> crate::Result<u64> {
        unimplemented!()
    }
    /// Unspent outputs in chain order.
    pub fn unspent(&self, scripthash: &ScriptHash) -> crate::Result<Vec<Unspent>> {
        unimplemented!()
    }
    /// A confirmed transaction; `None` if no block up to the tip holds it.
    pub fn transaction(&self, txid: Txid) -> crate::Result<Option<ConfirmedTransaction>> {
        unimplemented!()
    }
    /// The block that holds a transaction.
    pub fn transaction_block(&self, txid: Txid) -> crate::Result<Option<BlockId>> {
        unimplemented!()
    }
    /// The branch from a transaction to its block's merkle root; `None` if the block at `height` lacks it.
    pub fn merkle(&self, txid: Txid, height: Height) -> crate::Result<Option<MerkleBranch>> {
        unimplemented!()
    }
    /// The transaction at a place in a block, with its branch; `None` beyond tip or block.
    pub fn transaction_at(&self, height: Height, position: u32) -> crate::Result<Option<(Txid, MerkleBranch)>> {
        unimplemented!()
    }
}
