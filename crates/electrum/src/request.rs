//! Requests as values, sorted into lanes by what answers them.
//!
//! [`parse`] turns a method name and JSON parameters into a [`Request`]. Each lane has an enum of its own, so the code
//! of a lane matches its own requests and no others.

pub(crate) mod kind;
pub(crate) mod parse;

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::{OutPoint, Txid};

use crate::answer::{FeaturesForm, HeadersForm};
use crate::params::BlockName;
use crate::script::Script;
use crate::version::VersionRange;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Answered by the state of the connection, as it is admitted.
    Connection(ConnectionRequest),
    /// Answered from memory.
    Memory(MemoryRequest),
    /// Answered from the index, which may wait for the disk.
    Index(IndexRequest),
    /// Answered by the node.
    Node(NodeRequest),
}

/// A request that the state of the connection does not answer itself.
#[derive(Debug)]
pub(crate) enum Work {
    Memory(MemoryRequest),
    Index(IndexRequest),
    Node(NodeRequest),
}

/// Place where a request runs, for counting: requests of the connection lane run in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumCount, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Lane {
    Memory,
    Index,
    Node,
}

/// Requests that the state of the connection answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(ConnectionKind), vis(pub(crate)), strum(serialize_all = "snake_case"))]
#[strum_discriminants(derive(strum::EnumCount, strum::EnumIter, strum::IntoStaticStr))]
#[strum_discriminants(doc = "Kinds of [`ConnectionRequest`], for counting.")]
pub(crate) enum ConnectionRequest {
    Version(VersionRange),
    HeadersUnsubscribe,
    Unsubscribe(Script),
    OutpointUnsubscribe(OutPoint),
}

/// Requests that memory answers.
#[derive(Debug, Clone, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(MemoryKind), vis(pub(crate)), strum(serialize_all = "snake_case"))]
#[strum_discriminants(derive(strum::EnumCount, strum::EnumIter, strum::IntoStaticStr))]
#[strum_discriminants(doc = "Kinds of [`MemoryRequest`], for counting.")]
pub(crate) enum MemoryRequest {
    // server.*
    Ping,
    /// From 1.7: the number of digits in the answer.
    PaddedPing(u32),
    Features(FeaturesForm),
    Banner,
    DonationAddress,
    Peers,
    /// JSON of another server's features.
    AddPeer(String),
    // blockchain.block.header, blockchain.headers.*
    Header {
        height: Height,
        cp_height: Height,
    },
    HeadersTip,
    HeadersSubscribe,
    // Of a script.
    Mempool(Script),
    // mempool.*
    FeeHistogram,
    MempoolRecent,
}

/// Requests that the index answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IndexRequest {
    /// A lookup of one script or transaction.
    Lookup(Lookup),
    /// Any other query of the index.
    Query(Query),
    /// Fees of the node, mostly answered from what other clients asked a moment ago.
    Fees(FeeQuery),
}

/// Lookups of one script or one transaction: the requests that clients send most. A few rows answer them.
#[derive(Debug, Clone, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(LookupKind), vis(pub(crate)), strum(serialize_all = "snake_case"))]
#[strum_discriminants(derive(strum::EnumCount, strum::EnumIter, strum::IntoStaticStr))]
#[strum_discriminants(doc = "Kinds of [`Lookup`], for counting.")]
pub(crate) enum Lookup {
    Balance(ScriptHash),
    /// Up to the tip and the mempool, or to an excluded height.
    History {
        script: Script,
        from: Height,
        to: Option<Height>,
    },
    Unspent(Script),
    Subscribe(Script),
    Status(ScriptHash),
    Transaction(Txid),
}

/// Queries of the index that are no [`Lookup`].
#[derive(Debug, Clone, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(QueryKind), vis(pub(crate)), strum(serialize_all = "snake_case"))]
#[strum_discriminants(derive(strum::EnumCount, strum::EnumIter, strum::IntoStaticStr))]
#[strum_discriminants(doc = "Kinds of [`Query`], for counting.")]
pub(crate) enum Query {
    // blockchain.block.headers, blockchain.header.*
    Headers {
        start: Height,
        count: u32,
        cp_height: Height,
        form: HeadersForm,
    },
    HeaderOf(BlockName),
    // Of a script.
    FirstUse(ScriptHash),
    // blockchain.outpoint.* and utxo.*
    OutpointSubscribe {
        outpoint: OutPoint,
        /// Script of the output, as the client states it.
        hint: Option<ScriptHash>,
    },
    OutpointStatus(OutPoint),
    UtxoInfo(OutPoint),
    // blockchain.transaction.*
    TransactionHeight(Txid),
    TransactionBlock {
        txid: Txid,
        detail: BlockDetail,
    },
    /// Without a height: in whichever block holds the transaction.
    Merkle {
        txid: Txid,
        height: Option<Height>,
    },
    TxidAt {
        height: Height,
        position: u32,
    },
    MerkleAt {
        height: Height,
        position: u32,
    },
}

/// Fees that the node knows, and that are kept for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumDiscriminants)]
#[strum_discriminants(name(FeeKind), vis(pub(crate)), strum(serialize_all = "snake_case"))]
#[strum_discriminants(derive(strum::EnumCount, strum::EnumIter, strum::IntoStaticStr))]
#[strum_discriminants(doc = "Kinds of [`FeeQuery`], for counting.")]
pub(crate) enum FeeQuery {
    EstimateFee { blocks: u16, mode: Option<FeeMode> },
    RelayFee,
    MempoolInfo,
}

/// Requests that the node answers.
#[derive(Debug, Clone, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(NodeKind), vis(pub(crate)), strum(serialize_all = "snake_case"))]
#[strum_discriminants(derive(strum::EnumCount, strum::EnumIter, strum::IntoStaticStr))]
#[strum_discriminants(doc = "Kinds of [`NodeRequest`], for counting.")]
pub(crate) enum NodeRequest {
    TransactionVerbose(Txid),
    Broadcast { raw: String },
    BroadcastPackage { raws: Vec<String>, detail: PackageDetail },
    TestMempoolAccept { raws: Vec<String> },
}

/// Form of the answer to a broadcast of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageDetail {
    /// Success and errors.
    Summary,
    /// Core's own answer.
    Verbose,
}

/// Members of the answer about the block that holds a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockDetail {
    /// Hash and height.
    Id,
    /// Hash, height and header.
    Header,
}

/// `estimate_mode` of Core's `estimatesmartfee`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FeeMode {
    Unset,
    Economical,
    Conservative,
}

// === conversions into Request ===

impl From<ConnectionRequest> for Request {
    fn from(request: ConnectionRequest) -> Self {
        Self::Connection(request)
    }
}

impl From<MemoryRequest> for Request {
    fn from(request: MemoryRequest) -> Self {
        Self::Memory(request)
    }
}

impl From<Lookup> for Request {
    fn from(request: Lookup) -> Self {
        Self::Index(IndexRequest::Lookup(request))
    }
}

impl From<Query> for Request {
    fn from(request: Query) -> Self {
        Self::Index(IndexRequest::Query(request))
    }
}

impl From<FeeQuery> for Request {
    fn from(request: FeeQuery) -> Self {
        Self::Index(IndexRequest::Fees(request))
    }
}

impl From<NodeRequest> for Request {
    fn from(request: NodeRequest) -> Self {
        Self::Node(request)
    }
}
