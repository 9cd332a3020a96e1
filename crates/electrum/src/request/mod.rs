//! Requests as values, sorted once into lanes by what answers them.
//!
//! [`parse`] turns a method name and JSON parameters into a [`Request`]. Each lane has an enum of its own, so the code
//! of a lane matches its own requests and no others.

mod parse;
mod silent_payments;
mod tweaks;

pub(crate) use self::silent_payments::{SilentKeys, SilentRequest, SilentStart, SilentSubscribe, holds_scan_key};

pub(crate) use self::tweaks::{TweakRange, is_about_tweaks};

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::{OutPoint, Txid};
use strum::VariantNames as _;

use crate::protocol::{BlockName, FeaturesForm, HeadersForm, Script, VersionRange};

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Answered by the state of the connection, as it is admitted.
    Connection(ConnectionRequest),
    /// Answered by the connection's subscriptions to silent payments, as it is admitted.
    Silent(SilentRequest),
    /// Left to run after admission.
    Work(Work),
}

/// A request that runs after admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    Read(Read),
    /// Answered by the node.
    Node(NodeRequest),
}

/// A request that this server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// Answered from memory.
    Memory(MemoryRequest),
    /// Answered from the index, which may wait for the disk.
    Index(IndexRequest),
}

/// Label of the latency metrics: what answers a request. Requests of the connection count as memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumCount, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Lane {
    Memory,
    Index,
    Node,
}

/// Requests that the state of the connection answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum ConnectionRequest {
    Version(VersionRange),
    HeadersUnsubscribe,
    Unsubscribe(Script),
    OutpointUnsubscribe(OutPoint),
}

/// Requests that memory answers.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
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

/// Digits of a reply to a ping from which it is not short.
const SHORT_PONG_DIGITS: u32 = 1000;

impl MemoryRequest {
    /// Returns true if its answer is short, whoever asks.
    pub(crate) fn is_short(&self) -> bool {
        match self {
            Self::PaddedPing(digits) => *digits < SHORT_PONG_DIGITS,
            Self::Mempool(_) => false,
            Self::Ping
            | Self::Features(_)
            | Self::Banner
            | Self::DonationAddress
            | Self::Peers
            | Self::AddPeer(_)
            | Self::Header { .. }
            | Self::HeadersTip
            | Self::HeadersSubscribe
            | Self::FeeHistogram
            | Self::MempoolRecent => true,
        }
    }
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
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
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
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
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
    // blockchain.tweaks.*
    TweaksSubscribe(TweakRange),
    TweaksGet(OutPoint),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum FeeQuery {
    EstimateFee { blocks: u16, mode: Option<FeeMode> },
    RelayFee,
    MempoolInfo,
}

/// Requests that the node answers.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case", ascii_case_insensitive)]
pub(crate) enum FeeMode {
    Unset,
    Economical,
    Conservative,
}

// === impl Request ===

impl Request {
    /// Returns the name of every kind of request.
    pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
        let connection = [ConnectionRequest::VARIANTS, SilentRequest::VARIANTS, MemoryRequest::VARIANTS];
        let index = [Lookup::VARIANTS, Query::VARIANTS, FeeQuery::VARIANTS];
        connection.into_iter().chain(index).chain([NodeRequest::VARIANTS]).flatten().copied()
    }

    /// Returns the name of the request's kind in metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Connection(request) => request.into(),
            Self::Silent(request) => request.into(),
            Self::Work(Work::Read(Read::Memory(request))) => request.into(),
            Self::Work(Work::Read(Read::Index(IndexRequest::Lookup(lookup)))) => lookup.into(),
            Self::Work(Work::Read(Read::Index(IndexRequest::Query(query)))) => query.into(),
            Self::Work(Work::Read(Read::Index(IndexRequest::Fees(query)))) => query.into(),
            Self::Work(Work::Node(request)) => request.into(),
        }
    }

    fn of_index(request: IndexRequest) -> Self {
        Self::Work(Work::Read(Read::Index(request)))
    }
}

impl Read {
    /// Returns the lane that the request counts for.
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Memory(_) => Lane::Memory,
            Self::Index(_) => Lane::Index,
        }
    }
}

/// Implements conversions into [`Request`].
macro_rules! into_request {
    ($($from:ty => |$request:ident| $into:expr;)*) => {
        $(impl From<$from> for Request {
            fn from($request: $from) -> Self {
                $into
            }
        })*
    };
}

into_request! {
    ConnectionRequest => |request| Self::Connection(request);
    SilentRequest => |request| Self::Silent(request);
    MemoryRequest => |request| Self::Work(Work::Read(Read::Memory(request)));
    Lookup => |lookup| Self::of_index(IndexRequest::Lookup(lookup));
    Query => |query| Self::of_index(IndexRequest::Query(query));
    FeeQuery => |query| Self::of_index(IndexRequest::Fees(query));
    NodeRequest => |request| Self::Work(Work::Node(request));
}
