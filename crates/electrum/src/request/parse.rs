//! Method names and parameters, and the versions that have them.
//!
//! Names of methods and parameters are those of the [protocol documentation], "Protocol Methods". This file alone
//! decides which version has which method. Methods that only Fulcrum, Frigate or Cake has are served in every version.
//! `scripthash.*` stays where 1.7 replaces it: the documentation allows more methods than it lists, and a wallet in
//! transition may use both.
//!
//! [protocol documentation]: https://electrum-protocol.readthedocs.io/en/latest/protocol-methods.html

use std::ops::RangeInclusive;

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::{OutPoint, ScriptBuf};

use super::{
    BlockDetail, ConnectionRequest, FeeMode, FeeQuery, Lookup, MemoryRequest, NodeRequest, PackageDetail, Query,
    Request, SilentRequest, silent_payments, tweaks,
};
use crate::error::{RpcError, echo};
use crate::limits::{PACKAGE_TRANSACTIONS_MAX, PONG_DIGITS_MAX};
use crate::protocol::{
    Args, FeaturesForm, HeadersForm, Naming, Object, Padding, Param, PongLength, Script, Version, VersionRange,
};

/// Core's range of confirmation targets for `estimatesmartfee`.
const FEE_TARGETS: RangeInclusive<u32> = 1..=1008;

// === impl Request ===

impl Request {
    /// Parses a request of a client that speaks `version`.
    pub(crate) fn parse(method: &str, args: Result<Args<'_>, RpcError>, version: Version) -> Result<Self, RpcError> {
        let parse = parser(method, version).ok_or_else(|| RpcError::unknown_method(method))?;
        let mut args = args?;
        let request = parse(&mut args)?;
        // Wallets of a later version may pass more parameters than this server knows, and clients of mempool's server
        // pass one of an older version: `blockchain.headers.subscribe(false)`.
        if method != "server.version" && !method.ends_with(".subscribe") {
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

/// Declares `parser`: for each method, the versions that have it, and its request as an expression of its parameters.
macro_rules! methods {
    (|$version:ident, $args:ident| $($method:literal $(if $has:expr)? => $request:expr,)+) => {
        fn parser(method: &str, $version: Version) -> Option<Parser> {
            Some(match method {
                $($method $(if $has)? => |$args| {
                    // Some methods have no parameters.
                    let _ = &$args;
                    Ok($request.into())
                },)+
                _ => return None,
            })
        }
    };
}

methods! {
    |version, args|
    "server.version" => version_range(args)?,
    "server.ping" if version < Version::V1_7 => MemoryRequest::Ping,
    "server.ping" => MemoryRequest::PaddedPing(pong_digits(args)?),
    "server.features" if version < Version::V1_7 => MemoryRequest::Features(FeaturesForm::WithHashFunction),
    "server.features" => MemoryRequest::Features(FeaturesForm::WithoutHashFunction),
    "server.banner" => MemoryRequest::Banner,
    "server.donation_address" => MemoryRequest::DonationAddress,
    "server.peers.subscribe" => MemoryRequest::Peers,
    "server.add_peer" => MemoryRequest::AddPeer(args.required::<Object>("features")?.0),

    "blockchain.block.header" =>
        MemoryRequest::Header { height: args.required("height")?, cp_height: cp_height(args)? },
    "blockchain.block.headers" if version < Version::V1_6 => headers(args, HeadersForm::Joined)?,
    "blockchain.block.headers" => headers(args, HeadersForm::List)?,
    "blockchain.headers.subscribe" => MemoryRequest::HeadersSubscribe,
    "blockchain.headers.unsubscribe" => ConnectionRequest::HeadersUnsubscribe,
    "blockchain.headers.get_tip" => MemoryRequest::HeadersTip,
    "blockchain.header.get" => Query::HeaderOf(args.required("block_hash")?),

    "blockchain.scripthash.get_balance" => Lookup::Balance(by_hash(args)?.hash),
    "blockchain.scripthash.get_history" => history_between(args)?,
    "blockchain.scripthash.get_mempool" => MemoryRequest::Mempool(by_hash(args)?),
    "blockchain.scripthash.listunspent" => Lookup::Unspent(by_hash(args)?),
    "blockchain.scripthash.subscribe" => Lookup::Subscribe(by_hash(args)?),
    // Added by 1.4.2, and harmless to a client of 1.4.
    "blockchain.scripthash.unsubscribe" => ConnectionRequest::Unsubscribe(by_hash(args)?),
    "blockchain.scripthash.get_status" => Lookup::Status(by_hash(args)?.hash),
    "blockchain.scripthash.get_first_use" => Query::FirstUse(by_hash(args)?.hash),

    "blockchain.scriptpubkey.get_balance" if version >= Version::V1_7 => Lookup::Balance(by_pubkey(args)?.hash),
    "blockchain.scriptpubkey.get_history" if version >= Version::V1_7 =>
        Lookup::History { script: by_pubkey(args)?, from: Height(0), to: None },
    "blockchain.scriptpubkey.get_mempool" if version >= Version::V1_7 => MemoryRequest::Mempool(by_pubkey(args)?),
    "blockchain.scriptpubkey.listunspent" if version >= Version::V1_7 => Lookup::Unspent(by_pubkey(args)?),
    "blockchain.scriptpubkey.subscribe" if version >= Version::V1_7 => Lookup::Subscribe(by_pubkey(args)?),
    "blockchain.scriptpubkey.unsubscribe" if version >= Version::V1_7 =>
        ConnectionRequest::Unsubscribe(by_pubkey(args)?),

    "blockchain.outpoint.subscribe" if version >= Version::V1_7 =>
        Query::OutpointSubscribe { outpoint: outpoint(args, "txout_idx")?, hint: hint(args)? },
    "blockchain.outpoint.get_status" if version >= Version::V1_7 => outpoint_status(args)?,
    "blockchain.outpoint.unsubscribe" if version >= Version::V1_7 =>
        ConnectionRequest::OutpointUnsubscribe(outpoint(args, "txout_idx")?),
    "blockchain.utxo.get_info" => Query::UtxoInfo(outpoint(args, "out_n")?),

    "blockchain.silentpayments.subscribe" => silent_payments::subscribe(args)?,
    "blockchain.silentpayments.unsubscribe" => SilentRequest::SilentUnsubscribe(silent_payments::keys(args)?),

    "blockchain.tweaks.subscribe" => tweaks::subscribe(args)?,
    "blockchain.tweaks.get" => tweaks::get(args)?,

    "blockchain.transaction.get" => match (args.required("tx_hash")?, args.optional("verbose", false)?) {
        (txid, true) => Request::from(NodeRequest::TransactionVerbose(txid)),
        (txid, false) => Lookup::Transaction(txid).into(),
    },
    "blockchain.transaction.get_height" => Query::TransactionHeight(args.required("tx_hash")?),
    "blockchain.transaction.get_confirmed_blockhash" => Query::TransactionBlock {
        txid: args.required("tx_hash")?,
        detail: if args.optional("include_header", false)? { BlockDetail::Header } else { BlockDetail::Id },
    },
    "blockchain.transaction.get_merkle" =>
        Query::Merkle { txid: args.required("tx_hash")?, height: args.maybe("height")? },
    "blockchain.transaction.id_from_pos" => {
        let (height, position) = (args.required("height")?, args.required("tx_pos")?);
        let has_merkle = args.optional("merkle", false)?;
        if has_merkle { Query::MerkleAt { height, position } } else { Query::TxidAt { height, position } }
    },
    "blockchain.transaction.broadcast" => NodeRequest::Broadcast { raw: args.required("raw_tx")? },
    "blockchain.transaction.broadcast_package" if version >= Version::V1_6 => NodeRequest::BroadcastPackage {
        raws: package(args)?,
        detail: if args.optional("verbose", false)? { PackageDetail::Verbose } else { PackageDetail::Summary },
    },
    "blockchain.transaction.testmempoolaccept" if version >= Version::V1_7 =>
        NodeRequest::TestMempoolAccept { raws: package(args)? },

    "blockchain.estimatefee" if version < Version::V1_6 =>
        FeeQuery::EstimateFee { blocks: fee_target(args)?, mode: None },
    "blockchain.estimatefee" => FeeQuery::EstimateFee { blocks: fee_target(args)?, mode: args.maybe("mode")? },
    "blockchain.relayfee" if version < Version::V1_6 => FeeQuery::RelayFee,
    "mempool.get_fee_histogram" => MemoryRequest::FeeHistogram,
    "mempool.get_info" if version >= Version::V1_6 => FeeQuery::MempoolInfo,
    "mempool.recent" if version >= Version::V1_7 => MemoryRequest::MempoolRecent,
}

// === parameters that several methods share ===

/// A client that states no version speaks the oldest.
fn version_range(args: &mut Args<'_>) -> Result<ConnectionRequest, RpcError> {
    args.optional("client_name", String::new())?;
    let oldest = VersionRange { min: Version::MIN, max: Version::MIN };
    args.optional("protocol_version", oldest).map(ConnectionRequest::Version)
}

fn pong_digits(args: &mut Args<'_>) -> Result<u32, RpcError> {
    let PongLength(digits) = args.optional("pong_len", PongLength(0))?;
    args.optional("data", Padding)?;
    if digits > PONG_DIGITS_MAX {
        return Err(RpcError::bad_request(format!("pong_len may be at most {PONG_DIGITS_MAX}")));
    }
    Ok(digits)
}

fn cp_height(args: &mut Args<'_>) -> Result<Height, RpcError> {
    args.optional("cp_height", Height(0))
}

fn headers(args: &mut Args<'_>, form: HeadersForm) -> Result<Query, RpcError> {
    let (start, count) = (args.required("start_height")?, args.required("count")?);
    Ok(Query::Headers { start, count, cp_height: cp_height(args)?, form })
}

fn by_hash(args: &mut Args<'_>) -> Result<Script, RpcError> {
    Ok(Script { hash: args.required("scripthash")?, naming: Naming::Hash })
}

fn by_pubkey(args: &mut Args<'_>) -> Result<Script, RpcError> {
    let script: ScriptBuf = args.required("scriptpubkey")?;
    Ok(Script { hash: ScriptHash::of(script.as_bytes()), naming: Naming::Pubkey })
}

fn history_between(args: &mut Args<'_>) -> Result<Lookup, RpcError> {
    let (script, from) = (by_hash(args)?, args.optional("from_height", Height(0))?);
    match args.optional("to_height", None)? {
        Some(to) if to < from => Err(RpcError::bad_request("from_height must be <= to_height")),
        to => Ok(Lookup::History { script, from, to }),
    }
}

fn outpoint(args: &mut Args<'_>, vout_name: &str) -> Result<OutPoint, RpcError> {
    Ok(OutPoint { txid: args.required("tx_hash")?, vout: args.required(vout_name)? })
}

fn outpoint_status(args: &mut Args<'_>) -> Result<Query, RpcError> {
    let outpoint = outpoint(args, "txout_idx")?;
    hint(args).map(|_| Query::OutpointStatus(outpoint))
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

impl Param for FeeMode {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        let text = String::parse(name, json)?;
        text.parse().map_err(|_| RpcError::bad_request(format!("unknown estimatefee mode: {}", echo(&text))))
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
