//! Traits of a block source and of a running node. The crate `birdhouse-node` implements them for Bitcoin Core.
//!
//! Every method blocks its caller. Callers that must not block use a thread of their own.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use bitcoin::{BlockHash, OutPoint, TxOut, Txid, Work};
use serde_json::value::RawValue;

use crate::names::{Hash256, Height};

/// A failure of a source or a node.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// The failure and its remedy, for the operator.
    pub message: String,
    /// The kind of failure, which decides if trying again can help.
    pub kind: SourceErrorKind,
}

/// Kinds of failures, by their remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// The node is busy, starting or unreachable: wait and try again.
    Transient,
    /// The item does not exist, or no longer; the chain may have moved.
    NotFound,
    /// A person must act.
    Permanent,
}

/// The result of asking a source.
pub type SourceResult<T> = Result<T, SourceError>;

/// A position in the node's numbered files: `blkNNNNN.dat` or `revNNNNN.dat`.
///
/// `offset` is the position of the first byte of the block or undo data, after the 8-byte record header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePosition {
    /// NNNNN.
    pub file: u32,
    /// Bytes from the start of the file.
    pub offset: u32,
}

/// A block of the active chain, as pass 0 of the build sees it.
#[derive(Debug, Clone)]
pub struct BlockMeta {
    /// Its hash.
    pub hash: BlockHash,
    /// Its serialised header.
    pub header: [u8; 80],
    /// Its transactions, the coinbase included.
    pub tx_count: u32,
    /// Its serialised size with witness, in bytes.
    pub bytes: u32,
    /// Its position, if the source reads files.
    pub position: Option<FilePosition>,
}

/// The outputs that a block spends, in the form that the source delivers.
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
    /// The owned form of [`SpentBytes::Undo`].
    Undo(Vec<u8>),
    /// The owned form of [`SpentBytes::TxOuts`].
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

/// Some bytes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockPart {
    /// The block.
    pub block: BlockHash,
    /// Where they begin, counted from the first byte of its header.
    pub offset: u32,
    /// Their number.
    pub len: u32,
}

/// One block fetched by its hash.
#[derive(Debug, Clone)]
pub struct FetchedBlock {
    /// Header and transactions, with witness.
    pub block: Vec<u8>,
    /// The txids in order, if the source has proved the block by them: they hash to the merkle root of its header.
    pub txids: Option<Vec<Hash256>>,
    /// The outputs it spends. Empty undo data for the genesis block.
    pub spent: SpentBuf,
    /// Position of the block, if the source reads files.
    pub position: Option<FilePosition>,
    /// True where `spent` may be that of a sibling: undo data names only the block before, and the source knows another
    /// block on the same one.
    pub has_sibling: bool,
}

/// Blocks that are read together, by their index in the chain of [`BlockSource::chain`].
#[derive(Debug, Clone)]
pub struct Unit {
    /// Heights, ascending but not necessarily consecutive.
    pub heights: Vec<Height>,
}

/// Callback of [`BlockSource::read_unit`] for every block: height, block bytes, spent outputs. An error ends the
/// reading and is returned unchanged.
pub type Visit<'a> = dyn FnMut(Height, &[u8], SpentBytes<'_>) -> SourceResult<()> + 'a;

/// A source of blocks with the outputs they spend.
pub trait BlockSource: Send + Sync {
    /// Describes the source in one line for the log.
    fn describe(&self) -> String;

    /// Returns true if the outputs that blocks spend come as undo data, which has the heights that funded them.
    fn gives_undo_data(&self) -> bool {
        false
    }

    /// Returns the chain from the genesis block to `tip`, indexed by height. `None` chooses the block with most work
    /// that has all its data.
    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>>;

    /// Splits the blocks at `heights` into units that can be read in parallel, each sequentially.
    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit>;

    /// Reads the blocks of a unit in order of height. The source proves that undo data belongs to its block; the
    /// visitor proves the merkle root of the block bytes.
    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()>;

    /// Returns the txids by which later inputs name the transactions of a block, in their order; `None` where these are
    /// their own, as in every chain that a node knows. A chain that is made up as it is read cannot know the txids of
    /// earlier transactions, so it has others, by which the first build matches inputs and outputs.
    fn outpoint_txids(&self, _height: Height) -> Option<Vec<Hash256>> {
        None
    }

    /// Fetches one block. Where it comes without txids, the caller proves its merkle root.
    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock>;

    /// Returns true if [`Self::fetch_removed`] can bring back blocks that the node has removed.
    fn fetches_removed(&self) -> bool {
        false
    }

    /// Returns the number of the first block file that is left; 0 where none was removed, or where there are no files.
    fn first_file(&self) -> SourceResult<u32> {
        Ok(0)
    }

    /// Brings back a part of a block of the chain that the node has removed, so that [`Self::read_part`] reads it. It
    /// takes milliseconds to some tens of seconds; those who want one block at a time wait for one attempt.
    ///
    /// # Errors
    /// [`SourceErrorKind::Transient`] if no peer of the node sent the block.
    fn fetch_removed(&self, part: BlockPart) -> SourceResult<()> {
        Err(SourceError {
            message: format!("the node has removed block {}, and no other source of blocks is known", part.block),
            kind: SourceErrorKind::NotFound,
        })
    }

    /// Reads the `len` bytes that lie at `offset` of the block at `position` now, unproved: the caller must prove them.
    /// `None` if the file ends before, or if this source has no positions.
    fn peek(&self, _position: FilePosition, _offset: u32, _len: u32) -> SourceResult<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Closes files that the node has deleted: while they are open, their space on disk is not free.
    fn close_deleted(&self) {}

    /// Reads `len` bytes of a block from `offset`, counted from the first byte of its header. `position` is the
    /// position that the source reported when the block was indexed.
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

/// The tip of a node, and its download of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeProgress {
    /// Tip of the active chain: every block up to it can be read, with the outputs that it spends.
    pub tip: BlockId,
    /// While the node downloads the chain, or connects it anew: the height of the best header that it knows.
    pub best_header: Option<Height>,
}

/// A node's knowledge of a block that is not in its active chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockStanding {
    /// The node does not know the block.
    Unknown,
    /// It knows the header, or the block without having connected it.
    Unconnected,
    /// It has connected the block once: a valid fork.
    Fork,
    /// It calls the block invalid.
    Invalid,
}

/// A node's chain beside a chain of ours that forks from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainView {
    /// Tip of the node's active chain.
    pub tip: BlockId,
    /// Work of the active chain above the fork.
    pub work: Work,
    /// True while the node downloads or connects blocks: initial download, `-reindex`, or a header ahead of its tip.
    pub is_syncing: bool,
    /// The node's knowledge of our tip.
    pub ours: BlockStanding,
}

/// A failed call of the node. Rejections carry Core's own codes
/// ([`rpc/protocol.h`](https://github.com/bitcoin/bitcoin/blob/master/src/rpc/protocol.h)).
#[derive(Debug, Clone, thiserror::Error)]
pub enum NodeError {
    /// Core understood the call and refused it. The client receives code and message.
    #[error("{message}")]
    Rejected {
        /// Core's code, for example -25 or -26.
        code: i64,
        /// Core's message.
        message: String,
    },
    /// Core did not answer.
    #[error(transparent)]
    Unavailable(#[from] SourceError),
}

impl NodeError {
    /// Returns the failure of a node that gives no answer now.
    pub fn unavailable(message: &str) -> Self {
        Self::Unavailable(SourceError { message: message.to_owned(), kind: SourceErrorKind::Transient })
    }
}

/// The order in which a node mines its mempool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ranking {
    /// By chunks of clusters, from Core 31 on.
    #[default]
    Chunks,
    /// By sets of ancestors.
    Ancestors,
}

/// Rules by which a node mines, besides the transactions of its mempool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MiningRules {
    /// The order.
    pub ranking: Ranking,
    /// Satoshis that the node's operator has added to the fees of transactions (`prioritisetransaction`).
    pub fee_deltas: HashMap<Txid, i64>,
}

/// Size of a node's mempool. Mempools of different sizes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MempoolSize {
    /// The order in which the node mines it.
    pub ranking: Ranking,
    /// Number of transactions.
    pub transactions: u64,
    /// Sum of their fees, in satoshis.
    pub fees: u64,
}

/// All txids of a node's mempool.
#[derive(Debug, Clone)]
pub struct MempoolTxids {
    /// The txids, in no order.
    pub txids: Vec<Txid>,
    /// The number of the next [`MempoolChange`].
    pub sequence: u64,
}

/// One change of a node's mempool, as ZMQ's `sequence` publishes it
/// ([`doc/zmq.md`](https://github.com/bitcoin/bitcoin/blob/master/doc/zmq.md)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MempoolChange {
    /// A transaction entered.
    Added(Txid),
    /// A transaction left without being confirmed. The node numbers its changes.
    Removed {
        /// The transaction.
        txid: Txid,
        /// The number of the change.
        sequence: u64,
    },
}

/// The changes of a node since the last wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeUpdate {
    /// Unknown: chain and mempool must be compared with the node's.
    Unknown,
    /// These changes and no other.
    Changes {
        /// Changes of the mempool, in order.
        mempool: Vec<MempoolChange>,
        /// True if blocks were connected or disconnected too.
        blocks: bool,
    },
}

/// A running node. A source that only follows a chain need not have the calls that serve clients: they are refused.
pub trait Node: Send + Sync {
    /// Returns the tip of the active chain.
    fn best_block(&self) -> SourceResult<BlockId>;
    /// Returns the tip of the active chain, and how far the node's download of blocks is.
    fn progress(&self) -> SourceResult<NodeProgress> {
        Ok(NodeProgress { tip: self.best_block()?, best_header: None })
    }
    /// Compares the active chain with a chain of ours that leaves it after the block `fork` and ends with `ours`.
    fn chain_view(&self, ours: BlockHash, fork: BlockHash) -> SourceResult<ChainView>;
    /// Returns the reason for which the node lacks the block that follows `indexed` in its own chain, with a remedy;
    /// `None` where it has it.
    fn missing_blocks(&self, indexed: Height) -> SourceResult<Option<String>>;
    /// Returns the hashes of the active chain at these heights; fewer when the chain ends before.
    fn block_hashes(&self, heights: Range<Height>) -> SourceResult<Vec<BlockHash>>;
    /// Waits until the node changes, or may have changed, and for `timeout` at most. `known` is the tip that the caller
    /// knows.
    fn wait_for_update(&self, known: BlockHash, timeout: Duration) -> SourceResult<NodeUpdate>;
    /// Returns the size of the mempool; `None` while the node loads it.
    fn mempool_size(&self) -> SourceResult<Option<MempoolSize>>;
    /// Returns the satoshis that the node's operator has added to the fees of transactions of the mempool.
    fn fee_deltas(&self) -> SourceResult<HashMap<Txid, i64>> {
        Ok(HashMap::new())
    }
    /// Returns the txids of the mempool.
    fn mempool_txids(&self) -> SourceResult<MempoolTxids>;
    /// Returns transactions of the mempool, serialised with witness; `None` for one that has left it.
    fn mempool_transactions(&self, txids: &[Txid]) -> SourceResult<Vec<Option<Vec<u8>>>>;

    /// Calls `estimatesmartfee`. Returns BTC/kvB; `None` when the node has no estimate.
    fn estimate_fee(&self, _blocks: u16, _mode: Option<&str>) -> Result<Option<f64>, NodeError> {
        refused()
    }

    /// Returns `relayfee` of `getnetworkinfo`, in BTC/kvB.
    fn relay_fee(&self) -> Result<f64, NodeError> {
        refused()
    }

    /// Calls `sendrawtransaction`. Outputs that burn bitcoin are accepted, as those of `OP_RETURN` are.
    fn broadcast(&self, _raw_hex: &str) -> Result<Txid, NodeError> {
        refused()
    }

    /// Calls `getrawtransaction <txid> true` for a transaction that the node finds by itself. Returns Core's JSON
    /// unchanged.
    fn transaction_verbose(&self, _txid: Txid) -> Result<Box<RawValue>, NodeError> {
        refused()
    }

    /// Calls `decoderawtransaction` for a transaction serialised as the node does. Returns Core's JSON unchanged.
    fn decode_transaction(&self, _raw: &[u8]) -> Result<Box<RawValue>, NodeError> {
        refused()
    }

    /// Calls `getrawtransaction <txid> false` for a transaction in the mempool.
    fn mempool_transaction(&self, _txid: Txid) -> Result<String, NodeError> {
        refused()
    }

    /// Calls `getmempoolinfo`. Returns Core's JSON unchanged.
    fn mempool_info(&self) -> Result<Box<RawValue>, NodeError> {
        refused()
    }

    /// Returns transactions that spend outputs, as far as the node keeps an index of spenders (Core's
    /// `txospenderindex`). It may leave some out, or name ones of another branch.
    fn spending_txids(&self, _outputs: &[OutPoint]) -> Result<Vec<Txid>, NodeError> {
        refused()
    }

    /// Returns outputs that blocks hold and no block spends, up to the node's tip (`gettxout`); `None` for others. They
    /// are asked for where a pruned node has deleted the block that holds one.
    fn unspent_outputs(&self, outputs: &[OutPoint]) -> SourceResult<Vec<Option<TxOut>>> {
        Ok(vec![None; outputs.len()])
    }

    /// Calls `submitpackage`. Returns Core's JSON unchanged. Outputs that burn bitcoin are accepted.
    fn submit_package(&self, _raw_hex: &[String]) -> Result<Box<RawValue>, NodeError> {
        refused()
    }

    /// Returns Core's judgement of an address (`validateaddress`).
    fn validate_address(&self, _text: &str) -> Result<Box<RawValue>, NodeError> {
        refused()
    }

    /// Calls `testmempoolaccept`. Returns Core's JSON unchanged.
    fn test_mempool_accept(&self, _raw_hex: &[String]) -> Result<Box<RawValue>, NodeError> {
        refused()
    }
}

/// Returns Core's rejection of an unknown method.
fn refused<T>() -> Result<T, NodeError> {
    Err(NodeError::Rejected { code: -32601, message: "Method not found".to_owned() })
}
