//! Names, parameters and versions of requests.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::protocol::BlockName;
use crate::request::{IndexRequest, Read, Work};
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
        ("blockchain.transaction.get_merkle", "[]", -32602),
        ("blockchain.transaction.get_height", r#"["HASH",1]"#, -32602),
        ("blockchain.transaction.get_confirmed_blockhash", r#"["HASH","x"]"#, -32602),
        ("blockchain.utxo.get_info", r#"["HASH"]"#, -32602),
        ("blockchain.utxo.get_info", r#"["HASH",-1]"#, 1),
        ("server.add_peer", "[]", -32602),
        ("server.add_peer", r#"["features"]"#, -32602),
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
    let by_name = parse("blockchain.block.headers", r#"{"cp_height":20,"count":10,"start_height":5}"#, Version::V1_4);
    let (start, cp_height, form) = (Height(5), Height(20), HeadersForm::Joined);
    assert_eq!(by_position, Query::Headers { start, count: 10, cp_height, form }.into());
    assert_eq!(by_name.unwrap(), by_position);
}

#[test]
fn null_and_missing_mean_the_default() {
    let default: Request = MemoryRequest::Header { height: Height(5), cp_height: Height(0) }.into();
    assert_eq!(parse("blockchain.block.header", "[5]", Version::V1_4).unwrap(), default);
    assert_eq!(parse("blockchain.block.header", "[5,null]", Version::V1_4).unwrap(), default);
}

#[test]
fn giant_heights_saturate() {
    let request = parse("blockchain.block.header", "[99999999999999999999999]", Version::V1_4).unwrap();
    assert_eq!(request, MemoryRequest::Header { height: Height(u32::MAX), cp_height: Height(0) }.into());
}

#[test]
fn methods_come_and_go_with_the_version() {
    let versions = ["1.4", "1.4.2", "1.4.3", "1.6", "1.7"].map(|text| text.parse::<Version>().unwrap());
    let known = |method: &str| versions.map(|version| Request::is_known(method, version));
    let since = |first: usize| std::array::from_fn(|version| version >= first);
    let table = [
        (
            "server.version server.ping server.features server.banner server.donation_address server.peers.subscribe \
             server.add_peer blockchain.block.header blockchain.block.headers blockchain.estimatefee \
             blockchain.headers.subscribe blockchain.headers.unsubscribe blockchain.headers.get_tip \
             blockchain.header.get blockchain.scripthash.get_balance blockchain.scripthash.get_history \
             blockchain.scripthash.get_mempool blockchain.scripthash.listunspent blockchain.scripthash.subscribe \
             blockchain.scripthash.unsubscribe blockchain.scripthash.get_status blockchain.scripthash.get_first_use \
             blockchain.utxo.get_info blockchain.transaction.get blockchain.transaction.get_height \
             blockchain.transaction.get_confirmed_blockhash blockchain.transaction.get_merkle \
             blockchain.transaction.id_from_pos blockchain.transaction.broadcast mempool.get_fee_histogram \
             blockchain.silentpayments.subscribe blockchain.silentpayments.unsubscribe",
            since(0),
        ),
        ("blockchain.relayfee", [true, true, true, false, false]),
        ("blockchain.transaction.broadcast_package mempool.get_info", since(3)),
        (
            "blockchain.scriptpubkey.get_balance blockchain.scriptpubkey.get_history \
             blockchain.scriptpubkey.get_mempool blockchain.scriptpubkey.listunspent \
             blockchain.scriptpubkey.subscribe blockchain.scriptpubkey.unsubscribe blockchain.outpoint.subscribe \
             blockchain.outpoint.get_status blockchain.outpoint.unsubscribe blockchain.transaction.testmempoolaccept \
             mempool.recent",
            since(4),
        ),
        ("blockchain.address.get_balance blockchain.block.get_header", since(5)),
    ];
    for (methods, expected) in table {
        for method in methods.split(' ') {
            assert_eq!(known(method), expected, "{method}");
        }
    }
    assert_eq!(known(""), since(5));
}

#[test]
fn the_form_of_an_answer_is_that_of_the_version() {
    let request = |method: &str, params: &str, version| parse(method, params, version).unwrap();
    for (version, form) in [(Version::V1_4, HeadersForm::Joined), (Version::V1_6, HeadersForm::List)] {
        let headers: Request = Query::Headers { start: Height(1), count: 2, cp_height: Height(0), form }.into();
        assert_eq!(request("blockchain.block.headers", "[1,2]", version), headers);
    }
    for (version, form) in
        [(Version::V1_6, FeaturesForm::WithHashFunction), (Version::V1_7, FeaturesForm::WithoutHashFunction)]
    {
        assert_eq!(request("server.features", "[]", version), MemoryRequest::Features(form).into());
    }
    assert_eq!(request("server.ping", "[]", Version::V1_6), MemoryRequest::Ping.into());
    assert_eq!(request("server.ping", "[]", Version::V1_7), MemoryRequest::PaddedPing(0).into());
}

#[test]
fn a_ping_asks_for_padding_from_1_7() {
    let ping = |params: &str| parse("server.ping", params, Version::V1_7);
    assert_eq!(ping("[5]"), Ok(MemoryRequest::PaddedPing(5).into()));
    assert_eq!(ping(r#"[0,"deadbeef0"]"#), Ok(MemoryRequest::PaddedPing(0).into()));
    assert_eq!(ping(r#"{"pong_len":7,"data":""}"#), Ok(MemoryRequest::PaddedPing(7).into()));
    // As a notification has it.
    assert_eq!(ping(r#"["deadbeef"]"#), Ok(MemoryRequest::PaddedPing(0).into()));
    assert_eq!(ping("[8000000]"), Ok(MemoryRequest::PaddedPing(8_000_000).into()));
    for (params, code) in [("[8000001]", 1), ("[-1]", 1), (r#"[5,"xyz"]"#, 1), ("[[]]", -32602), ("[0,0]", -32602)] {
        assert_eq!(ping(params).unwrap_err().code, code, "{params}");
    }
}

#[test]
fn a_script_is_named_by_its_hash_or_by_its_bytes() {
    // The example of the documentation: the first address that was ever paid.
    let script = r#"["76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac"]"#;
    let hash: ScriptHash = HASH.parse().unwrap();
    let by_pubkey = parse("blockchain.scriptpubkey.subscribe", script, Version::V1_7).unwrap();
    assert_eq!(by_pubkey, Lookup::Subscribe(Script { hash, naming: Naming::Pubkey }).into());
    let by_hash = parse("blockchain.scripthash.subscribe", &format!("[\"{HASH}\"]"), Version::V1_7).unwrap();
    assert_eq!(by_hash, Lookup::Subscribe(Script { hash, naming: Naming::Hash }).into());
    let balance = parse("blockchain.scriptpubkey.get_balance", script, Version::V1_7);
    assert_eq!(balance, Ok(Lookup::Balance(hash).into()));
    for (params, code) in [(r#"["7"]"#, 1), (r#"["zz"]"#, 1), ("[7]", -32602), ("[]", -32602)] {
        let error = parse("blockchain.scriptpubkey.get_history", params, Version::V1_7).unwrap_err();
        assert_eq!(error.code, code, "{params}");
    }
}

#[test]
fn a_history_can_be_asked_for_in_part() {
    let ask = |rest: &str| {
        let request = parse("blockchain.scripthash.get_history", &format!("[\"{HASH}\"{rest}]"), Version::V1_4)?;
        let Request::Work(Work::Read(Read::Index(IndexRequest::Lookup(Lookup::History { from, to, .. })))) = request
        else {
            panic!("{request:?}")
        };
        Ok((from.0, to.map(|height| height.0)))
    };
    assert_eq!(ask(""), Ok((0, None)));
    assert_eq!(ask(",5"), Ok((5, None)));
    assert_eq!(ask(",930000,-1"), Ok((930_000, None)));
    assert_eq!(ask(",5,10"), Ok((5, Some(10))));
    assert_eq!(ask(",5,5"), Ok((5, Some(5))));
    for (rest, code) in [(",5,4", 1), (",-1", 1), (",0,-2", 1), (",\"5\"", -32602), (",1,2,3", -32602)] {
        assert_eq!(ask(rest).map_err(|error: RpcError| error.code), Err(code), "{rest}");
    }
}

#[test]
fn an_outpoint_has_a_hint_that_may_be_missing() {
    let ask = |rest: &str| {
        let request = parse("blockchain.outpoint.subscribe", &format!("[\"{HASH}\",1{rest}]"), Version::V1_7)?;
        let Request::Work(Work::Read(Read::Index(IndexRequest::Query(Query::OutpointSubscribe { outpoint, hint })))) =
            request
        else {
            panic!("{request:?}")
        };
        assert_eq!(outpoint, OutPoint { txid: HASH.parse().unwrap(), vout: 1 });
        Ok(hint)
    };
    assert_eq!(ask(r#","0014da""#), Ok(Some(ScriptHash::of(&[0, 0x14, 0xda]))));
    // Nobody is paid by an output that can never be spent.
    for rest in ["", ",null", r#","""#, r#","6a01ff""#] {
        assert_eq!(ask(rest), Ok(None), "{rest}");
    }
    assert_eq!(ask(r#","xx""#).map_err(|error: RpcError| error.code), Err(1));
    assert_eq!(ask(",5").map_err(|error: RpcError| error.code), Err(-32602));
}

#[test]
fn a_block_is_named_by_height_or_hash() {
    let ask = |params: &str| parse("blockchain.header.get", params, Version::V1_4);
    assert_eq!(ask("[7]"), Ok(Query::HeaderOf(BlockName::Height(Height(7))).into()));
    let named = format!("[\"{HASH}\"]");
    assert_eq!(ask(&named), Ok(Query::HeaderOf(BlockName::Hash(HASH.parse().unwrap())).into()));
    assert_eq!(ask(r#"["7"]"#).unwrap_err().code, 1);
    assert_eq!(ask("[true]").unwrap_err().code, -32602);
}

#[test]
fn estimatefee_has_a_mode_from_1_6() {
    let parse = |params| parse("blockchain.estimatefee", params, Version::V1_6);
    let economical: Request = FeeQuery::EstimateFee { blocks: 2, mode: Some(FeeMode::Economical) }.into();
    assert_eq!(parse(r#"[2,"ECONOMICAL"]"#).unwrap(), economical);
    assert_eq!(parse("[2]").unwrap(), FeeQuery::EstimateFee { blocks: 2, mode: None }.into());
    assert_eq!(parse(r#"[2,"greedy"]"#).unwrap_err().code, 1);
}

#[test]
fn version_takes_no_one_or_two_versions_and_more() {
    let version = |params| parse("server.version", params, Version::V1_4).unwrap();
    let range = |min: &str, max: &str| -> Request {
        ConnectionRequest::Version(VersionRange { min: min.parse().unwrap(), max: max.parse().unwrap() }).into()
    };
    assert_eq!(version("[]"), range("1.4", "1.4"));
    assert_eq!(version(r#"["c"]"#), range("1.4", "1.4"));
    assert_eq!(version(r#"["c","1.4.2"]"#), range("1.4.2", "1.4.2"));
    assert_eq!(version(r#"["Sparrow",["1.3","1.4.2"]]"#), range("1.3", "1.4.2"));
    assert_eq!(version(r#"["c",["1.4","1.6"],"more",{}]"#), range("1.4", "1.6"));
}

#[test]
fn surplus_parameters_of_subscribes_are_ignored() {
    // `@mempool/electrum-client` passes the `raw` of version 1.3.
    let tip = parse("blockchain.headers.subscribe", "[false]", Version::MIN).unwrap();
    assert_eq!(tip, MemoryRequest::HeadersSubscribe.into());
    assert_eq!(parse("server.peers.subscribe", "[null]", Version::MIN).unwrap(), MemoryRequest::Peers.into());
    let subscribe = |rest| parse("blockchain.scripthash.subscribe", &format!("[\"{HASH}\"{rest}]"), Version::MIN);
    assert_eq!(subscribe(",1").unwrap(), subscribe("").unwrap());
    assert_eq!(parse("blockchain.headers.get_tip", "[false]", Version::MIN).unwrap_err().code, -32602);
}
