//! Where blocks come from, and what a node can be asked: the traits that `node` implements.
//!
//! Everything here blocks its caller; callers that must not block use a thread of their own.

use std::ops::Range;
use std::time::Duration;

use bitcoin::{BlockHash, Txid};
use serde_json::value::RawValue;

use crate::txnum::Height;

/// Why a source or node gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// What went wrong and what to do about it, for the operator.
    pub message: String,
    /// Whether trying again can help.
    pub kind: SourceErrorKind,
}

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// The node is busy, starting or away: wait and try again.
    Transient,
    /// The thing asked for does not exist (any more); the chain may have moved.
    NotFound,
    /// A person must act.
    Permanent,
}

/// The result of asking a source.
pub type SourceResult<T> = Result<T, SourceError>;

/// Where bytes lie in the node's numbered files: `blkNNNNN.dat` or `revNNNNN.dat`.
///
/// `offset` is that of the first byte of the block or undo data, after the 8-byte record header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePosition {
    /// NNNNN.
    pub file: u32,
    /// Bytes from the start of the file.
    pub offset: u32,
}

/// What pass 0 of the build knows of a block of the active chain.
#[derive(Debug, Clone)]
pub struct BlockMeta {
    /// Its hash.
    pub hash: BlockHash,
    /// Its header, as serialised.
    pub header: [u8; 80],
    /// Its transactions, the coinbase included.
    pub tx_count: u32,
    /// Its serialised size with witness, in bytes.
    pub bytes: u32,
    /// Where it lies, when the source reads files.
    pub position: Option<FilePosition>,
}

/// The outputs that a block's transactions spend, as the source delivers them.
#[derive(Debug, Clone, Copy)]
pub enum SpentBytes<'a> {
    /// `CBlockUndo` as in `revNNNNN.dat` (Core's `undo.h`): compressed scripts and amounts, no coinbase entry.
    Undo(&'a [u8]),
    /// The answer of `/rest/spenttxouts/<hash>.bin`: plain `CTxOut`s, with an empty entry for the coinbase.
    TxOuts(&'a [u8]),
}

/// The owned form of [`SpentBytes`].
#[derive(Debug, Clone)]
pub enum SpentBuf {
    /// See [`SpentBytes::Undo`].
    Undo(Vec<u8>),
    /// See [`SpentBytes::TxOuts`].
    TxOuts(Vec<u8>),
}

impl SpentBuf {
    /// Borrows it.
    pub fn as_bytes(&self) -> SpentBytes<'_> {
        match self {
            Self::Undo(bytes) => SpentBytes::Undo(bytes),
            Self::TxOuts(bytes) => SpentBytes::TxOuts(bytes),
        }
    }
}

/// One block fetched by its hash.
#[derive(Debug, Clone)]
pub struct FetchedBlock {
    /// Header and transactions, with witness.
    pub block: Vec<u8>,
    /// What it spends. Empty undo data for the genesis block.
    pub spent: SpentBuf,
    /// Where the block lies, when the source reads files.
    pub position: Option<FilePosition>,
}

/// Some blocks that are read together: indices into the chain of [`BlockSource::chain`], ascending.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Heights, ascending, not necessarily consecutive.
    pub heights: Vec<Height>,
}

/// What [`BlockSource::read_unit`] calls for every block: height, block bytes, spent outputs.
/// An error ends the reading and is returned unchanged.
pub type Visit<'a> = dyn FnMut(Height, &[u8], SpentBytes<'_>) -> SourceResult<()> + 'a;

/// Delivers blocks with the outputs they spend.
pub trait BlockSource: Send + Sync {
    /// One line for the log: what is read, and from where.
    fn describe(&self) -> String;

    /// The chain from the genesis block to `tip` (`None`: to the block with most work that has all its
    /// data), index = height.
    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>>;

    /// Splits the blocks at `heights` into units that can be read in parallel, each at a stretch.
    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit>;

    /// Reads the blocks of a unit in order of height. Undo data is proved to belong to its block.
    /// The block bytes are those of the record; the visitor proves the merkle root.
    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()>;

    /// One block, by hash.
    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock>;

    /// What lies at `len` bytes from `offset` of the block at a position now, without any proof: the caller has one.
    /// `None`: too little lies there, or this source has no positions.
    fn peek(&self, _position: FilePosition, _offset: u32, _len: u32) -> SourceResult<Option<Vec<u8>>> {
        Ok(None)
    }

    /// `len` bytes of a block from `offset` (counted from the first byte of its header).
    /// `position` is what the source said of that block when it was indexed.
    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>>;
}

/// A height and the hash of the block there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockId {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
}

/// An answer of the node that is an error by Core's own codes (`rpc/protocol.h`).
#[derive(Debug, Clone, thiserror::Error)]
pub enum NodeError {
    /// Core understood and refused; forwarded to the client.
    #[error("{message}")]
    Rejected {
        /// Core's code, for example -25 or -26.
        code: i64,
        /// Core's message.
        message: String,
    },
    /// Core could not be asked.
    #[error(transparent)]
    Unavailable(#[from] SourceError),
}

/// What a node's mempool holds, in short: two that differ have different mempools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MempoolSize {
    /// Transactions.
    pub transactions: u64,
    /// Their fees, satoshis.
    pub fees: u64,
}

/// All txids of a node's mempool.
#[derive(Debug, Clone)]
pub struct MempoolTxids {
    /// In no order.
    pub txids: Vec<Txid>,
    /// The number of the next change; see [`MempoolChange`].
    pub sequence: u64,
}

/// One change of a node's mempool, as ZMQ's `sequence` tells it (Core's `doc/zmq.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MempoolChange {
    /// A transaction came.
    Added(Txid),
    /// A transaction left, and not into a block. Changes are numbered by the node.
    Removed {
        /// Which.
        txid: Txid,
        /// The number of the change.
        sequence: u64,
    },
}

/// What is new at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeUpdate {
    /// Nobody can say: look at everything.
    Unknown,
    /// These changes of the mempool in order and, where `blocks` says so, of the chain, and nothing else.
    Changes {
        /// Of the mempool.
        mempool: Vec<MempoolChange>,
        /// Whether blocks came or went too.
        blocks: bool,
    },
}

/// A running node.
pub trait Node: Send + Sync {
    /// The tip of the active chain.
    fn best_block(&self) -> SourceResult<BlockId>;
    /// Hashes of the active chain at these heights; shorter when the chain ends before.
    fn block_hashes(&self, heights: Range<Height>) -> SourceResult<Vec<BlockHash>>;
    /// Waits until something is new at the node, or may be, and for `timeout` at most. `known` is the tip that the caller
    /// knows.
    fn wait_for_update(&self, known: BlockHash, timeout: Duration) -> SourceResult<NodeUpdate>;
    /// The size of the mempool; `None` while the node loads it.
    fn mempool_size(&self) -> SourceResult<Option<MempoolSize>>;
    /// What the mempool holds.
    fn mempool_txids(&self) -> SourceResult<MempoolTxids>;
    /// Transactions of the mempool, serialised with witness; `None` for one that is not there any more.
    fn mempool_transactions(&self, txids: &[Txid]) -> SourceResult<Vec<Option<Vec<u8>>>>;
    /// `estimatesmartfee`, in BTC/kvB; `None` when the node has no estimate.
    fn estimate_fee(&self, blocks: u16, mode: Option<&str>) -> Result<Option<f64>, NodeError>;
    /// `relayfee` of `getnetworkinfo`, in BTC/kvB.
    fn relay_fee(&self) -> Result<f64, NodeError>;
    /// `sendrawtransaction`. Outputs that burn bitcoin pass, as those of `OP_RETURN` do.
    fn broadcast(&self, raw_hex: &str) -> Result<Txid, NodeError>;
    /// `getrawtransaction <txid> true`, of a transaction that the node finds by itself: Core's JSON, unchanged.
    fn transaction_verbose(&self, txid: Txid) -> Result<Box<RawValue>, NodeError>;
    /// `decoderawtransaction` of a transaction serialised as the node serialises it: Core's JSON, unchanged.
    fn decode_transaction(&self, raw: &[u8]) -> Result<Box<RawValue>, NodeError>;
    /// `getrawtransaction <txid> false` for a transaction in the mempool.
    fn mempool_transaction(&self, txid: Txid) -> Result<String, NodeError>;
    /// `getmempoolinfo`: Core's JSON, unchanged.
    fn mempool_info(&self) -> Result<Box<RawValue>, NodeError>;
    /// `submitpackage`: Core's JSON, unchanged. Outputs that burn bitcoin pass.
    fn submit_package(&self, raw_hex: &[String]) -> Result<Box<RawValue>, NodeError>;
    /// `testmempoolaccept`: Core's JSON, unchanged.
    fn test_mempool_accept(&self, raw_hex: &[String]) -> Result<Box<RawValue>, NodeError>;
}
