//! Method names and parameters, and the versions that have them.
//!
//! Names of methods and parameters are those of the [protocol documentation], "Protocol Methods". This file alone
//! decides which version has which method. Methods that only Fulcrum has are served in every version. `scripthash.*`
//! stays where 1.7 replaces it: the documentation allows more methods than it lists, and a wallet in transition may
//! use both.
//!
//! [protocol documentation]: https://electrum-protocol.readthedocs.io/en/latest/protocol-methods.html

use std::ops::RangeInclusive;

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::{OutPoint, ScriptBuf};

use super::{
    BlockDetail, ConnectionRequest, FeeMode, FeeQuery, Lookup, MemoryRequest, NodeRequest, PackageDetail, Query,
    Request,
};
use crate::answer::{FeaturesForm, HeadersForm};
use crate::error::{RpcError, echo};
use crate::params::{Args, Object, Padding, Param, PongLength};
use crate::script::{Naming, Script};
use crate::version::{Version, VersionRange};

/// Core's `MAX_PACKAGE_COUNT`.
pub(crate) const PACKAGE_TRANSACTIONS_MAX: usize = 25;
/// Core's range of confirmation targets for `estimatesmartfee`.
const FEE_TARGETS: RangeInclusive<u32> = 1..=1008;
/// Digits that `server.ping` returns at most: as many as the largest transaction that fits a block has.
pub(crate) const PONG_DIGITS_MAX: u32 = 8_000_000;

// === impl Request ===

impl Request {
    /// Parses a request of a client that speaks `version`.
    pub(crate) fn parse(method: &str, args: Result<Args<'_>, RpcError>, version: Version) -> Result<Self, RpcError> {
        let parse = parser(method, version).ok_or_else(|| RpcError::unknown_method(method))?;
        let mut args = args?;
        let request = parse(&mut args)?;
        // Wallets of a later version may pass more parameters than this server knows.
        if !matches!(request, Self::Connection(ConnectionRequest::Version(_))) {
            args.end()?;
        }
        Ok(request)
    }

    /// Returns true if `version` has the method.
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
            args.optional("protocol_version", oldest).map(ConnectionRequest::Version).map(Into::into)
        },
        "server.ping" if version < Version::V1_7 => |_| Ok(MemoryRequest::Ping.into()),
        "server.ping" => ping,
        "server.features" if version < Version::V1_7 => {
            |_| Ok(MemoryRequest::Features(FeaturesForm::WithHashFunction).into())
        }
        "server.features" => |_| Ok(MemoryRequest::Features(FeaturesForm::WithoutHashFunction).into()),
        "server.banner" => |_| Ok(MemoryRequest::Banner.into()),
        "server.donation_address" => |_| Ok(MemoryRequest::DonationAddress.into()),
        "server.peers.subscribe" => |_| Ok(MemoryRequest::Peers.into()),
        "server.add_peer" => |args| args.required("features").map(|Object(json)| MemoryRequest::AddPeer(json).into()),

        "blockchain.block.header" => |args| {
            let height = args.required("height")?;
            Ok(MemoryRequest::Header { height, cp_height: args.optional("cp_height", Height(0))? }.into())
        },
        "blockchain.block.headers" if version < Version::V1_6 => |args| headers(args, HeadersForm::Joined),
        "blockchain.block.headers" => |args| headers(args, HeadersForm::List),
        "blockchain.headers.subscribe" => |_| Ok(MemoryRequest::HeadersSubscribe.into()),
        "blockchain.headers.unsubscribe" => |_| Ok(ConnectionRequest::HeadersUnsubscribe.into()),
        "blockchain.headers.get_tip" => |_| Ok(MemoryRequest::HeadersTip.into()),
        "blockchain.header.get" => |args| args.required("block_hash").map(Query::HeaderOf).map(Into::into),

        "blockchain.scripthash.get_balance" => |args| args.required("scripthash").map(Lookup::Balance).map(Into::into),
        "blockchain.scripthash.get_history" => |args| {
            let script = by_hash(args)?;
            let from = args.optional("from_height", Height(0))?;
            history(script, from, args.optional("to_height", None)?)
        },
        "blockchain.scripthash.get_mempool" => |args| by_hash(args).map(MemoryRequest::Mempool).map(Into::into),
        "blockchain.scripthash.listunspent" => |args| by_hash(args).map(Lookup::Unspent).map(Into::into),
        "blockchain.scripthash.subscribe" => |args| by_hash(args).map(Lookup::Subscribe).map(Into::into),
        // Added by 1.4.2, and harmless to a client of 1.4.
        "blockchain.scripthash.unsubscribe" => |args| by_hash(args).map(ConnectionRequest::Unsubscribe).map(Into::into),
        "blockchain.scripthash.get_status" => |args| args.required("scripthash").map(Lookup::Status).map(Into::into),
        "blockchain.scripthash.get_first_use" => {
            |args| args.required("scripthash").map(Query::FirstUse).map(Into::into)
        }

        "blockchain.scriptpubkey.get_balance" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(|script| Lookup::Balance(script.hash).into())
        }
        "blockchain.scriptpubkey.get_history" if version >= Version::V1_7 => {
            |args| history(by_pubkey(args)?, Height(0), None)
        }
        "blockchain.scriptpubkey.get_mempool" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(MemoryRequest::Mempool).map(Into::into)
        }
        "blockchain.scriptpubkey.listunspent" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(Lookup::Unspent).map(Into::into)
        }
        "blockchain.scriptpubkey.subscribe" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(Lookup::Subscribe).map(Into::into)
        }
        "blockchain.scriptpubkey.unsubscribe" if version >= Version::V1_7 => {
            |args| by_pubkey(args).map(ConnectionRequest::Unsubscribe).map(Into::into)
        }

        "blockchain.outpoint.subscribe" if version >= Version::V1_7 => |args| {
            let outpoint = outpoint(args, "txout_idx")?;
            Ok(Query::OutpointSubscribe { outpoint, hint: hint(args)? }.into())
        },
        "blockchain.outpoint.get_status" if version >= Version::V1_7 => |args| {
            let outpoint = outpoint(args, "txout_idx")?;
            hint(args).map(|_| Query::OutpointStatus(outpoint).into())
        },
        "blockchain.outpoint.unsubscribe" if version >= Version::V1_7 => {
            |args| outpoint(args, "txout_idx").map(ConnectionRequest::OutpointUnsubscribe).map(Into::into)
        }
        "blockchain.utxo.get_info" => |args| outpoint(args, "out_n").map(Query::UtxoInfo).map(Into::into),

        "blockchain.transaction.get" => |args| {
            let txid = args.required("tx_hash")?;
            let is_verbose = args.optional("verbose", false)?;
            Ok(if is_verbose { NodeRequest::TransactionVerbose(txid).into() } else { Lookup::Transaction(txid).into() })
        },
        "blockchain.transaction.get_height" => {
            |args| args.required("tx_hash").map(Query::TransactionHeight).map(Into::into)
        }
        "blockchain.transaction.get_confirmed_blockhash" => |args| {
            let txid = args.required("tx_hash")?;
            let detail = if args.optional("include_header", false)? { BlockDetail::Header } else { BlockDetail::Id };
            Ok(Query::TransactionBlock { txid, detail }.into())
        },
        "blockchain.transaction.get_merkle" => |args| {
            let txid = args.required("tx_hash")?;
            Ok(Query::Merkle { txid, height: args.maybe("height")? }.into())
        },
        "blockchain.transaction.id_from_pos" => |args| {
            let (height, position) = (args.required("height")?, args.required("tx_pos")?);
            let has_merkle = args.optional("merkle", false)?;
            Ok(if has_merkle { Query::MerkleAt { height, position } } else { Query::TxidAt { height, position } }
                .into())
        },
        "blockchain.transaction.broadcast" => {
            |args| Ok(NodeRequest::Broadcast { raw: args.required("raw_tx")? }.into())
        }
        "blockchain.transaction.broadcast_package" if version >= Version::V1_6 => |args| {
            let raws = package(args)?;
            let detail = if args.optional("verbose", false)? { PackageDetail::Verbose } else { PackageDetail::Summary };
            Ok(NodeRequest::BroadcastPackage { raws, detail }.into())
        },
        "blockchain.transaction.testmempoolaccept" if version >= Version::V1_7 => {
            |args| Ok(NodeRequest::TestMempoolAccept { raws: package(args)? }.into())
        }

        "blockchain.estimatefee" if version < Version::V1_6 => {
            |args| Ok(FeeQuery::EstimateFee { blocks: fee_target(args)?, mode: None }.into())
        }
        "blockchain.estimatefee" => |args| {
            let blocks = fee_target(args)?;
            Ok(FeeQuery::EstimateFee { blocks, mode: args.maybe("mode")? }.into())
        },
        "blockchain.relayfee" if version < Version::V1_6 => |_| Ok(FeeQuery::RelayFee.into()),
        "mempool.get_fee_histogram" => |_| Ok(MemoryRequest::FeeHistogram.into()),
        "mempool.get_info" if version >= Version::V1_6 => |_| Ok(FeeQuery::MempoolInfo.into()),
        "mempool.recent" if version >= Version::V1_7 => |_| Ok(MemoryRequest::MempoolRecent.into()),
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
    Ok(MemoryRequest::PaddedPing(digits).into())
}

fn headers(args: &mut Args<'_>, form: HeadersForm) -> Result<Request, RpcError> {
    let start = args.required("start_height")?;
    let count = args.required("count")?;
    Ok(Query::Headers { start, count, cp_height: args.optional("cp_height", Height(0))?, form }.into())
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
        _ => Ok(Lookup::History { script, from, to }.into()),
    }
}

fn outpoint(args: &mut Args<'_>, vout_name: &str) -> Result<OutPoint, RpcError> {
    Ok(OutPoint { txid: args.required("tx_hash")?, vout: args.required(vout_name)? })
}

/// Parses `spk_hint`. The protocol requires it, but some clients have none. An empty script and one that is not indexed
/// count as none.
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
    /// Returns Core's name of the mode.
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
#[path = "parse_tests.rs"]
mod tests;
