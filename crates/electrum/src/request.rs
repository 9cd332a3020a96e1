//! Requests as values: where a method's name and JSON parameters become one variant of [`Request`].
//!
//! Names of methods and parameters are those of the protocol documentation, "Protocol Methods"; which
//! version has which method is decided here and nowhere else. Methods that only Fulcrum has are served in every version.
//! `scripthash.*` stays where 1.7 replaces it: the documentation allows more methods than it lists, and a wallet in
//! transition may use both.

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::{OutPoint, ScriptBuf, Txid};

use crate::error::{RpcError, echo};
use crate::params::{Args, BlockName, Object, Padding, Param, PongLength};
use crate::response::{FeaturesForm, HeadersForm};
use crate::script::{Naming, Script};
use crate::version::{Version, VersionRange};

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(RequestKind), vis(pub(crate)), strum(serialize_all = "snake_case"))]
#[strum_discriminants(derive(strum::EnumCount, strum::EnumIter, strum::IntoStaticStr))]
#[strum_discriminants(doc = "What kind of request it is: for counting.")]
pub(crate) enum Request {
    // server.*
    Version(VersionRange),
    Ping,
    /// From 1.7: with so many digits in the answer.
    PaddedPing(u32),
    Features(FeaturesForm),
    Banner,
    DonationAddress,
    Peers,
    /// The JSON of another server's features.
    AddPeer(String),
    // blockchain.block.*, header.*, headers.*
    Header {
        height: Height,
        cp_height: Height,
    },
    Headers {
        start: Height,
        count: u32,
        cp_height: Height,
        form: HeadersForm,
    },
    HeaderOf(BlockName),
    HeadersTip,
    HeadersSubscribe,
    HeadersUnsubscribe,
    // blockchain.scripthash.* and scriptpubkey.*
    Balance(ScriptHash),
    /// To the tip and the mempool, or to a height that is not in it any more.
    History {
        script: Script,
        from: Height,
        to: Option<Height>,
    },
    Mempool(Script),
    Unspent(Script),
    Subscribe(Script),
    Unsubscribe(Script),
    Status(ScriptHash),
    FirstUse(ScriptHash),
    // blockchain.outpoint.* and utxo.*
    OutpointSubscribe {
        outpoint: OutPoint,
        /// Whose it is, by what the client says.
        hint: Option<ScriptHash>,
    },
    OutpointUnsubscribe(OutPoint),
    OutpointStatus(OutPoint),
    UtxoInfo(OutPoint),
    // blockchain.transaction.*
    Transaction(Txid),
    TransactionVerbose(Txid),
    TransactionHeight(Txid),
    TransactionBlock {
        txid: Txid,
        detail: BlockDetail,
    },
    /// Without a height: in whichever block holds it.
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
    Broadcast {
        raw: String,
    },
    BroadcastPackage {
        raws: Vec<String>,
        detail: PackageDetail,
    },
    TestMempoolAccept {
        raws: Vec<String>,
    },
    // mempool.*, and fees
    FeeHistogram,
    MempoolInfo,
    MempoolRecent,
    EstimateFee {
        blocks: u16,
        mode: Option<FeeMode>,
    },
    RelayFee,
}

/// What a broadcast of a package is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageDetail {
    /// Success and errors.
    Summary,
    /// Core's own answer.
    Verbose,
}

/// What is told of the block that holds a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockDetail {
    /// Its hash and height.
    Place,
    /// And its header.
    Header,
}

/// `estimate_mode` of Core's `estimatesmartfee`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FeeMode {
    Unset,
    Economical,
    Conservative,
}

/// Core's `MAX_PACKAGE_COUNT`.
pub(crate) const PACKAGE_TRANSACTIONS_MAX: usize = 25;
/// Core's range of confirmation targets for `estimatesmartfee`.
const FEE_TARGETS: std::ops::RangeInclusive<u32> = 1..=1008;
/// Digits that `server.ping` gives back at most: as many as the largest transaction that fits a block has.
pub(crate) const PONG_DIGITS_MAX: u32 = 8_000_000;

// === impl Request ===

impl Request {
    /// Reads a request of a client that speaks `version`.
    pub(crate) fn parse(method: &str, args: Result<Args<'_>, RpcError>, version: Version) -> Result<Self, RpcError> {
        let parse = parser(method, version).ok_or_else(|| RpcError::unknown_method(method))?;
        let mut args = args?;
        let request = parse(&mut args)?;
        // Wallets of a later version may say more in it than this server knows.
        if !matches!(request, Self::Version(_)) {
            args.end()?;
        }
        Ok(request)
    }

    /// Whether a client of `version` has the method.
    pub(crate) fn is_known(method: &str, version: Version) -> bool {
        parser(method, version).is_some()
    }
}

type Parser = fn(&mut Args<'_>) -> Result<Request, RpcError>;

fn parser(method: &str, version: Version) -> Option<Parser> {
    Some(match method {
        "server.version" => |args| {
            args.optional("client_name", String::new())?;
            let oldest = VersionRange { min: Version::V1_4, max: Version::V1_4 };
            args.optional("protocol_version", oldest).map(Request::Version)
        },
        "server.ping" if version < Version::V1_7 => |_| Ok(Request::Ping),
        "server.ping" => ping,
        "server.features" if version < Version::V1_7 => |_| Ok(Request::Features(FeaturesForm::WithHashFunction)),
        "server.features" => |_| Ok(Request::Features(FeaturesForm::WithoutHashFunction)),
        "server.banner" => |_| Ok(Request::Banner),
        "server.donation_address" => |_| Ok(Request::DonationAddress),
        "server.peers.subscribe" => |_| Ok(Request::Peers),
        "server.add_peer" => |args| args.required("features").map(|Object(json)| Request::AddPeer(json)),

        "blockchain.block.header" => |args| {
            let height = args.required("height")?;
            Ok(Request::Header { height, cp_height: args.optional("cp_height", Height(0))? })
        },
        "blockchain.block.headers" if version < Version::V1_6 => |args| headers(args, HeadersForm::Joined),
        "blockchain.block.headers" => |args| headers(args, HeadersForm::List),
        "blockchain.headers.subscribe" => |_| Ok(Request::HeadersSubscribe),
        "blockchain.headers.unsubscribe" => |_| Ok(Request::HeadersUnsubscribe),
        "blockchain.headers.get_tip" => |_| Ok(Request::HeadersTip),
        "blockchain.header.get" => |args| args.required("block_hash").map(Request::HeaderOf),

        "blockchain.scripthash.get_balance" => |args| args.required("scripthash").map(Request::Balance),
        "blockchain.scripthash.get_history" => |args| {
            let script = by_hash(args)?;
            let from = args.optional("from_height", Height(0))?;
            history(script, from, args.optional("to_height", None)?)
        },
        "blockchain.scripthash.get_mempool" => |args| by_hash(args).map(Request::Mempool),
        "blockchain.scripthash.listunspent" => |args| by_hash(args).map(Request::Unspent),
        "blockchain.scripthash.subscribe" => |args| by_hash(args).map(Request::Subscribe),
        // Of 1.4.2, and harmless to a client of 1.4.
        "blockchain.scripthash.unsubscribe" => |args| by_hash(args).map(Request::Unsubscribe),
        "blockchain.scripthash.get_status" => |args| args.required("scripthash").map(Request::Status),
        "blockchain.scripthash.get_first_use" => |args| args.required("scripthash").map(Request::FirstUse),

        "blockchain.scriptpubkey.get_balance" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(|script| Request::Balance(script.hash))
        }
        "blockchain.scriptpubkey.get_history" if version >= Version::V1_7 => {
            |args| history(by_pubkey(args)?, Height(0), None)
        }
        "blockchain.scriptpubkey.get_mempool" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(Request::Mempool)
        }
        "blockchain.scriptpubkey.listunspent" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(Request::Unspent)
        }
        "blockchain.scriptpubkey.subscribe" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(Request::Subscribe)
        }
        "blockchain.scriptpubkey.unsubscribe" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(Request::Unsubscribe)
        }

        "blockchain.outpoint.subscribe" if version >= Version::V1_7 => |args| {
            let outpoint = outpoint(args, "txout_idx")?;
            Ok(Request::OutpointSubscribe { outpoint, hint: hint(args)? })
        },
        "blockchain.outpoint.get_status" if version >= Version::V1_7 => |args| {
            let outpoint = outpoint(args, "txout_idx")?;
            hint(args).map(|_| Request::OutpointStatus(outpoint))
        },
        "blockchain.outpoint.unsubscribe" if version >= Version::V1_7 => {
            |args| outpoint(args, "txout_idx").map(Request::OutpointUnsubscribe)
        }
        "blockchain.utxo.get_info" => |args| outpoint(args, "out_n").map(Request::UtxoInfo),

        "blockchain.transaction.get" => |args| {
            let txid = args.required("tx_hash")?;
            Ok(if args.optional("verbose", false)? {
                Request::TransactionVerbose(txid)
            } else {
                Request::Transaction(txid)
            })
        },
        "blockchain.transaction.get_height" => |args| args.required("tx_hash").map(Request::TransactionHeight),
        "blockchain.transaction.get_confirmed_blockhash" => |args| {
            let txid = args.required("tx_hash")?;
            let detail = if args.optional("include_header", false)? { BlockDetail::Header } else { BlockDetail::Place };
            Ok(Request::TransactionBlock { txid, detail })
        },
        "blockchain.transaction.get_merkle" => |args| {
            let txid = args.required("tx_hash")?;
            Ok(Request::Merkle { txid, height: args.maybe("height")? })
        },
        "blockchain.transaction.id_from_pos" => |args| {
            let (height, position) = (args.required("height")?, args.required("tx_pos")?);
            Ok(if args.optional("merkle", false)? {
                Request::MerkleAt { height, position }
            } else {
                Request::TxidAt { height, position }
            })
        },
        "blockchain.transaction.broadcast" => |args| Ok(Request::Broadcast { raw: args.required("raw_tx")? }),
        "blockchain.transaction.broadcast_package" if version >= Version::V1_6 => |args| {
            let raws = package(args)?;
            let detail = if args.optional("verbose", false)? { PackageDetail::Verbose } else { PackageDetail::Summary };
            Ok(Request::BroadcastPackage { raws, detail })
        },
        "blockchain.transaction.testmempoolaccept" if version >= Version::V1_7 => {
            |args| Ok(Request::TestMempoolAccept { raws: package(args)? })
        }

        "blockchain.estimatefee" if version < Version::V1_6 => {
            |args| Ok(Request::EstimateFee { blocks: fee_target(args)?, mode: None })
        }
        "blockchain.estimatefee" => |args| {
            let blocks = fee_target(args)?;
            Ok(Request::EstimateFee { blocks, mode: args.maybe("mode")? })
        },
        "blockchain.relayfee" if version < Version::V1_6 => |_| Ok(Request::RelayFee),
        "mempool.get_fee_histogram" => |_| Ok(Request::FeeHistogram),
        "mempool.get_info" if version >= Version::V1_6 => |_| Ok(Request::MempoolInfo),
        "mempool.recent" if version >= Version::V1_7 => |_| Ok(Request::MempoolRecent),
        _ => return None,
    })
}

// === parameters that several methods share ===

fn ping(args: &mut Args<'_>) -> Result<Request, RpcError> {
    let PongLength(digits) = args.optional("pong_len", PongLength(0))?;
    args.optional("data", Padding)?;
    if digits > PONG_DIGITS_MAX {
        return Err(RpcError::bad_request(format!("pong_len may be at most {PONG_DIGITS_MAX}")));
    }
    Ok(Request::PaddedPing(digits))
}

fn headers(args: &mut Args<'_>, form: HeadersForm) -> Result<Request, RpcError> {
    let start = args.required("start_height")?;
    let count = args.required("count")?;
    Ok(Request::Headers { start, count, cp_height: args.optional("cp_height", Height(0))?, form })
}

fn by_hash(args: &mut Args<'_>) -> Result<Script, RpcError> {
    Ok(Script { hash: args.required("scripthash")?, naming: Naming::Hash })
}

fn by_pubkey(args: &mut Args<'_>) -> Result<Script, RpcError> {
    let script: ScriptBuf = args.required("scriptpubkey")?;
    Ok(Script { hash: ScriptHash::of(script.as_bytes()), naming: Naming::Pubkey })
}

fn history(script: Script, from: Height, to: Option<Height>) -> Result<Request, RpcError> {
    match to {
        Some(to) if to < from => Err(RpcError::bad_request("from_height must be <= to_height")),
        _ => Ok(Request::History { script, from, to }),
    }
}

fn outpoint(args: &mut Args<'_>, vout_name: &str) -> Result<OutPoint, RpcError> {
    Ok(OutPoint { txid: args.required("tx_hash")?, vout: args.required(vout_name)? })
}

/// The protocol asks for a hint and some clients have none. An empty one is none, nor is a script that is not indexed.
fn hint(args: &mut Args<'_>) -> Result<Option<ScriptHash>, RpcError> {
    let hint: Option<ScriptBuf> = args.maybe("spk_hint")?;
    let hint = hint.filter(|script| !script.is_empty() && !script.is_op_return());
    Ok(hint.map(|script| ScriptHash::of(script.as_bytes())))
}

fn fee_target(args: &mut Args<'_>) -> Result<u16, RpcError> {
    let blocks: u32 = args.required("number")?;
    let known = Some(blocks).filter(|blocks| FEE_TARGETS.contains(blocks));
    known.and_then(|blocks| u16::try_from(blocks).ok()).ok_or_else(|| {
        RpcError::bad_request(format!("number of blocks should be {} to {}", FEE_TARGETS.start(), FEE_TARGETS.end()))
    })
}

fn package(args: &mut Args<'_>) -> Result<Vec<String>, RpcError> {
    let raws: Vec<String> = args.required("raw_txs")?;
    if raws.is_empty() || raws.len() > PACKAGE_TRANSACTIONS_MAX {
        let message = format!("raw_txs should be 1 to {PACKAGE_TRANSACTIONS_MAX} transactions");
        return Err(RpcError::bad_request(message));
    }
    Ok(raws)
}

// === impl FeeMode ===

impl FeeMode {
    /// Core's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unset => "unset",
            Self::Economical => "economical",
            Self::Conservative => "conservative",
        }
    }
}

impl Param for FeeMode {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        let text = String::parse(name, json)?;
        [Self::Unset, Self::Economical, Self::Conservative]
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(&text))
            .ok_or_else(|| RpcError::bad_request(format!("unknown estimatefee mode: {}", echo(&text))))
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
