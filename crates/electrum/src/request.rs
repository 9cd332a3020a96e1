//! Requests as values: where a method's name and JSON parameters become one variant of [`Request`].
//!
//! Names of methods and parameters are those of the protocol documentation, "Protocol Methods"; which
//! version has which method is decided here and nowhere else.

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::Txid;

use crate::error::{RpcError, echo};
use crate::params::{Args, Param};
use crate::response::HeadersForm;
use crate::version::{Version, VersionRange};

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    // server.*
    Version(VersionRange),
    Ping,
    Features,
    Banner,
    DonationAddress,
    Peers,
    // blockchain.*
    Header { height: Height, cp_height: Height },
    Headers { start: Height, count: u32, cp_height: Height, form: HeadersForm },
    HeadersSubscribe,
    EstimateFee { blocks: u16, mode: Option<FeeMode> },
    RelayFee,
    // blockchain.scripthash.*
    Balance(ScriptHash),
    History(ScriptHash),
    Mempool(ScriptHash),
    Unspent(ScriptHash),
    Subscribe(ScriptHash),
    Unsubscribe(ScriptHash),
    // blockchain.transaction.*
    Transaction(Txid),
    TransactionVerbose(Txid),
    Merkle { txid: Txid, height: Height },
    TxidAt { height: Height, position: u32 },
    MerkleAt { height: Height, position: u32 },
    Broadcast { raw: String },
    BroadcastPackage { raws: Vec<String>, detail: PackageDetail },
    // mempool.*
    FeeHistogram,
    MempoolInfo,
}

/// What a broadcast of a package is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageDetail {
    /// Success and errors.
    Summary,
    /// Core's own answer.
    Verbose,
}

/// `estimate_mode` of Core's `estimatesmartfee`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeeMode {
    Unset,
    Economical,
    Conservative,
}

/// Core's `MAX_PACKAGE_COUNT`.
const PACKAGE_TRANSACTIONS_MAX: usize = 25;
/// Core's range of confirmation targets for `estimatesmartfee`.
const FEE_TARGETS: std::ops::RangeInclusive<u32> = 1..=1008;

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
}

type Parser = fn(&mut Args<'_>) -> Result<Request, RpcError>;

fn parser(method: &str, version: Version) -> Option<Parser> {
    Some(match method {
        "server.version" => |args| {
            args.optional("client_name", String::new())?;
            let oldest = VersionRange { min: Version::V1_4, max: Version::V1_4 };
            args.optional("protocol_version", oldest).map(Request::Version)
        },
        "server.ping" => |_| Ok(Request::Ping),
        "server.features" => |_| Ok(Request::Features),
        "server.banner" => |_| Ok(Request::Banner),
        "server.donation_address" => |_| Ok(Request::DonationAddress),
        "server.peers.subscribe" => |_| Ok(Request::Peers),

        "blockchain.block.header" => |args| {
            let height = args.required("height")?;
            Ok(Request::Header { height, cp_height: args.optional("cp_height", Height(0))? })
        },
        "blockchain.block.headers" if version < Version::V1_6 => |args| headers(args, HeadersForm::Joined),
        "blockchain.block.headers" => |args| headers(args, HeadersForm::List),
        "blockchain.headers.subscribe" => |_| Ok(Request::HeadersSubscribe),
        "blockchain.estimatefee" if version < Version::V1_6 => {
            |args| Ok(Request::EstimateFee { blocks: fee_target(args)?, mode: None })
        }
        "blockchain.estimatefee" => |args| {
            let blocks = fee_target(args)?;
            Ok(Request::EstimateFee { blocks, mode: args.optional("mode", None)? })
        },
        "blockchain.relayfee" if version < Version::V1_6 => |_| Ok(Request::RelayFee),

        "blockchain.scripthash.get_balance" => |args| args.required("scripthash").map(Request::Balance),
        "blockchain.scripthash.get_history" => |args| args.required("scripthash").map(Request::History),
        "blockchain.scripthash.get_mempool" => |args| args.required("scripthash").map(Request::Mempool),
        "blockchain.scripthash.listunspent" => |args| args.required("scripthash").map(Request::Unspent),
        "blockchain.scripthash.subscribe" => |args| args.required("scripthash").map(Request::Subscribe),
        // Of 1.4.2, and harmless to a client of 1.4.
        "blockchain.scripthash.unsubscribe" => |args| args.required("scripthash").map(Request::Unsubscribe),

        "blockchain.transaction.get" => |args| {
            let txid = args.required("tx_hash")?;
            Ok(if args.optional("verbose", false)? {
                Request::TransactionVerbose(txid)
            } else {
                Request::Transaction(txid)
            })
        },
        "blockchain.transaction.get_merkle" => {
            |args| Ok(Request::Merkle { txid: args.required("tx_hash")?, height: args.required("height")? })
        }
        "blockchain.transaction.id_from_pos" => |args| {
            let (height, position) = (args.required("height")?, args.required("tx_pos")?);
            Ok(if args.optional("merkle", false)? {
                Request::MerkleAt { height, position }
            } else {
                Request::TxidAt { height, position }
            })
        },
        "blockchain.transaction.broadcast" => |args| Ok(Request::Broadcast { raw: args.required("raw_tx")? }),
        "blockchain.transaction.broadcast_package" if version >= Version::V1_6 => package,

        "mempool.get_fee_histogram" => |_| Ok(Request::FeeHistogram),
        "mempool.get_info" if version >= Version::V1_6 => |_| Ok(Request::MempoolInfo),
        _ => return None,
    })
}

fn headers(args: &mut Args<'_>, form: HeadersForm) -> Result<Request, RpcError> {
    let start = args.required("start_height")?;
    let count = args.required("count")?;
    Ok(Request::Headers { start, count, cp_height: args.optional("cp_height", Height(0))?, form })
}

fn fee_target(args: &mut Args<'_>) -> Result<u16, RpcError> {
    let blocks: u32 = args.required("number")?;
    let known = Some(blocks).filter(|blocks| FEE_TARGETS.contains(blocks));
    known.and_then(|blocks| u16::try_from(blocks).ok()).ok_or_else(|| {
        RpcError::bad_request(format!("number of blocks should be {} to {}", FEE_TARGETS.start(), FEE_TARGETS.end()))
    })
}

fn package(args: &mut Args<'_>) -> Result<Request, RpcError> {
    let raws: Vec<String> = args.required("raw_txs")?;
    if raws.is_empty() || raws.len() > PACKAGE_TRANSACTIONS_MAX {
        let message = format!("a package has 1 to {PACKAGE_TRANSACTIONS_MAX} transactions");
        return Err(RpcError::bad_request(message));
    }
    let detail = if args.optional("verbose", false)? { PackageDetail::Verbose } else { PackageDetail::Summary };
    Ok(Request::BroadcastPackage { raws, detail })
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

impl Param for Option<FeeMode> {
    fn parse(name: &str, json: &str) -> Result<Self, RpcError> {
        let text = String::parse(name, json)?;
        [FeeMode::Unset, FeeMode::Economical, FeeMode::Conservative]
            .into_iter()
            .find(|mode| mode.name().eq_ignore_ascii_case(&text))
            .map(Some)
            .ok_or_else(|| RpcError::bad_request(format!("unknown estimatefee mode: {}", echo(&text))))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::value::RawValue;

    const HASH: &str = "8b01df4e368ea28f8dc0423bcf7a4923e3a12d307c875e47a0cfbf90b5c39161";

    fn parse(method: &str, params: &str, version: Version) -> Result<Request, RpcError> {
        let params: &RawValue = serde_json::from_str(params).unwrap();
        Request::parse(method, Args::parse(Some(params)), version)
    }

    fn code(method: &str, params: &str) -> i32 {
        parse(method, params, Version::V1_4).map_or_else(|error| error.code, |request| panic!("{request:?}"))
    }

    #[test]
    fn each_wrong_parameter_has_its_error() {
        let hash = |text: &str| text.replace("HASH", HASH);
        let table = [
            ("blockchain.scripthash.get_balance", "[]", -32602),
            ("blockchain.scripthash.get_balance", "null", -32602),
            ("blockchain.scripthash.get_balance", "[null]", -32602),
            ("blockchain.scripthash.get_balance", "[1]", -32602),
            ("blockchain.scripthash.get_balance", "[[]]", -32602),
            ("blockchain.scripthash.get_balance", r#"["HASH","HASH"]"#, -32602),
            ("blockchain.scripthash.get_balance", r#"{"hash":"HASH"}"#, -32602),
            ("blockchain.scripthash.get_balance", r#"{"scripthash":"HASH","more":1}"#, -32602),
            ("blockchain.scripthash.get_balance", "\"HASH\"", -32602),
            ("blockchain.scripthash.get_balance", "7", -32602),
            ("blockchain.scripthash.get_balance", r#"[""]"#, 1),
            ("blockchain.scripthash.get_balance", r#"["HASH0"]"#, 1),
            ("blockchain.scripthash.get_balance", r#"["zz01df4e"]"#, 1),
            ("blockchain.scripthash.get_balance", r#"["ééééé"]"#, 1),
            ("blockchain.transaction.get", r#"["HASH0"]"#, 1),
            ("blockchain.transaction.get", r#"["HASH","yes"]"#, -32602),
            ("blockchain.transaction.get", r#"["HASH",2]"#, -32602),
            ("blockchain.transaction.get_merkle", r#"["HASH"]"#, -32602),
            ("blockchain.transaction.get_merkle", r#"["HASH",-1]"#, 1),
            ("blockchain.block.header", "[-1]", 1),
            ("blockchain.block.header", "[1.5]", -32602),
            ("blockchain.block.header", "[1e3]", -32602),
            ("blockchain.block.header", r#"["1"]"#, -32602),
            ("blockchain.block.header", "[true]", -32602),
            ("blockchain.block.header", "[1,2,3]", -32602),
            ("blockchain.block.headers", "[1]", -32602),
            ("blockchain.estimatefee", "[0]", 1),
            ("blockchain.estimatefee", "[1009]", 1),
            ("blockchain.estimatefee", r#"[2,"economical"]"#, -32602),
            ("blockchain.transaction.broadcast", "[{}]", -32602),
            ("server.ping", "[0]", -32602),
            ("server.version", "[1]", -32602),
            ("server.version", r#"["c",1.4]"#, -32602),
            ("server.version", r#"["c",["1.4"]]"#, -32602),
            ("server.version", r#"["c","latest"]"#, 1),
            ("server.nothing", "[]", -32601),
            ("", "[]", -32601),
            ("blockchain.transaction.broadcast_package", "[[]]", -32601),
            ("mempool.get_info", "[]", -32601),
        ];
        for (method, params, expected) in table {
            assert_eq!(code(method, &hash(params)), expected, "{method} {params}");
        }
    }

    #[test]
    fn parameters_come_by_position_or_by_name() {
        let by_position = parse("blockchain.block.headers", "[5,10,20]", Version::V1_4).unwrap();
        let by_name =
            parse("blockchain.block.headers", r#"{"cp_height":20,"count":10,"start_height":5}"#, Version::V1_4);
        let (start, cp_height, form) = (Height(5), Height(20), HeadersForm::Joined);
        assert_eq!(by_position, Request::Headers { start, count: 10, cp_height, form });
        assert_eq!(by_name.unwrap(), by_position);
    }

    #[test]
    fn null_and_missing_mean_the_default() {
        let default = Request::Header { height: Height(5), cp_height: Height(0) };
        assert_eq!(parse("blockchain.block.header", "[5]", Version::V1_4).unwrap(), default);
        assert_eq!(parse("blockchain.block.header", "[5,null]", Version::V1_4).unwrap(), default);
    }

    #[test]
    fn giant_heights_saturate() {
        let request = parse("blockchain.block.header", "[99999999999999999999999]", Version::V1_4).unwrap();
        assert_eq!(request, Request::Header { height: Height(u32::MAX), cp_height: Height(0) });
    }

    #[test]
    fn methods_come_and_go_with_the_version() {
        let is_known = |method, params, version| parse(method, params, version).is_ok();
        assert!(is_known("blockchain.relayfee", "[]", Version::V1_4_2));
        assert!(!is_known("blockchain.relayfee", "[]", Version::V1_6));
        assert!(!is_known("mempool.get_info", "[]", Version::V1_4_2));
        assert!(is_known("mempool.get_info", "[]", Version::V1_6));
        assert!(!is_known("blockchain.transaction.broadcast_package", r#"[["00"]]"#, Version::V1_4));
        assert!(is_known("blockchain.transaction.broadcast_package", r#"[["00"]]"#, Version::V1_6));
    }

    #[test]
    fn estimatefee_has_a_mode_from_1_6() {
        let parse = |params| parse("blockchain.estimatefee", params, Version::V1_6);
        let economical = Request::EstimateFee { blocks: 2, mode: Some(FeeMode::Economical) };
        assert_eq!(parse(r#"[2,"ECONOMICAL"]"#).unwrap(), economical);
        assert_eq!(parse("[2]").unwrap(), Request::EstimateFee { blocks: 2, mode: None });
        assert_eq!(parse(r#"[2,"greedy"]"#).unwrap_err().code, 1);
    }

    #[test]
    fn version_takes_no_one_or_two_versions_and_more() {
        let version = |params| parse("server.version", params, Version::V1_4).unwrap();
        let range = |min: &str, max: &str| {
            Request::Version(VersionRange { min: min.parse().unwrap(), max: max.parse().unwrap() })
        };
        assert_eq!(version("[]"), range("1.4", "1.4"));
        assert_eq!(version(r#"["c"]"#), range("1.4", "1.4"));
        assert_eq!(version(r#"["c","1.4.2"]"#), range("1.4.2", "1.4.2"));
        assert_eq!(version(r#"["Sparrow",["1.3","1.4.2"]]"#), range("1.3", "1.4.2"));
        assert_eq!(version(r#"["c",["1.4","1.6"],"more",{}]"#), range("1.4", "1.6"));
    }
}
