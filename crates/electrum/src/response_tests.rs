//! The exact text of every shape of reply.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::Limits;
use crate::envelope::Line;

const REPLY_BYTES: usize = 1_000_000;

fn id(json: &str) -> Id {
    let line = format!(r#"{{"id":{json},"method":"m"}}"#);
    match Line::parse(line.as_bytes(), &Limits::default()).unwrap() {
        Line::Single(Ok(envelope)) => envelope.id.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn result(answer: Answer) -> String {
    let line = String::from_utf8(reply(&id("0"), &Ok(answer), REPLY_BYTES)).unwrap();
    let result = line.strip_prefix(r#"{"jsonrpc":"2.0","id":0,"result":"#).unwrap();
    result.strip_suffix('}').unwrap().to_owned()
}

fn hash(first: u8) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[0] = first;
    hash
}

/// [`hash`] as it is shown.
fn shown(first: u8) -> String {
    format!("{}{first:02x}", "0".repeat(62))
}

fn branch() -> MerkleBranch {
    MerkleBranch { siblings: vec![hash(1), hash(2)], position: 3, root: hash(9) }
}

#[test]
fn ids_are_echoed_to_the_byte() {
    for json in ["0", "-7", "1.50", "1e3", r#""a\u0062""#, "null", "123456789012345678901234567890"] {
        let line = String::from_utf8(reply(&id(json), &Ok(Answer::Null), REPLY_BYTES)).unwrap();
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{json},"result":null}}"#));
    }
}

#[test]
fn errors_have_code_and_message() {
    let error = RpcError::invalid_params("a \"quoted\"\nword");
    assert_eq!(
        String::from_utf8(reply(&id("5"), &Err(error), REPLY_BYTES)).unwrap(),
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"a \"quoted\"\nword"}}"#
    );
}

#[test]
fn a_reply_beyond_its_bound_is_history_too_large() {
    let text = |len| Ok(Answer::Text("x".repeat(len)));
    let line = reply(&id("5"), &text(100), 100);
    assert_eq!(
        String::from_utf8(line).unwrap(),
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":10001,"message":"history too large"}}"#
    );
    assert!(reply(&id("5"), &text(10), 100).ends_with(b"\"xxxxxxxxxx\"}"));
}

#[test]
fn plain_answers() {
    assert_eq!(result(Answer::Null), "null");
    assert_eq!(result(Answer::Bool(true)), "true");
    assert_eq!(result(Answer::Text("a \"b\"".into())), r#""a \"b\"""#);
    assert_eq!(result(Answer::Nothing), "[]");
    assert_eq!(result(Answer::Bytes(vec![0x02, 0xaf])), r#""02af""#);
    assert_eq!(result(Answer::Txid(Txid::from_byte_array(hash(7)))), format!("\"{}\"", shown(7)));
    let version = Answer::Version { software: "Birdhouse".into(), version: Version::V1_4_2 };
    assert_eq!(result(version), r#"["Birdhouse","1.4.2"]"#);
}

#[test]
fn features_name_every_host_and_the_versions() {
    let host = Host { name: "example.org".into(), tcp_port: Some(50001), ..Host::default() };
    let onion = Host { name: "z.onion".into(), tcp_port: Some(50001), wss_port: Some(50004), ..Host::default() };
    let genesis_hash = BlockHash::from_byte_array(hash(6));
    let features = Answer::Features { hosts: vec![onion, host], genesis_hash, server_version: "Birdhouse".into() };
    assert_eq!(
        result(features),
        format!(
            concat!(
                r#"{{"hosts":{{"example.org":{{"tcp_port":50001,"ssl_port":null}},"#,
                r#""z.onion":{{"tcp_port":50001,"ssl_port":null,"wss_port":50004}}}},"genesis_hash":"{}","#,
                r#""hash_function":"sha256","server_version":"Birdhouse","protocol_min":"1.4","#,
                r#""protocol_max":"1.6","pruning":null}}"#
            ),
            shown(6)
        )
    );
}

#[test]
fn a_header_is_hex_and_with_a_checkpoint_proven() {
    let header = [0xab; 80];
    let hex = "ab".repeat(80);
    assert_eq!(result(Answer::Header(header)), format!("\"{hex}\""));
    assert_eq!(
        result(Answer::ProvenHeader { header, branch: branch() }),
        format!(r#"{{"branch":["{}","{}"],"header":"{hex}","root":"{}"}}"#, shown(1), shown(2), shown(9))
    );
}

#[test]
fn headers_are_joined_until_1_6_and_listed_from_it() {
    let headers = |form, branch| Answer::Headers { headers: vec![[1; 80], [2; 80]], form, branch };
    let (one, two) = ("01".repeat(80), "02".repeat(80));
    assert_eq!(result(headers(HeadersForm::Joined, None)), format!(r#"{{"count":2,"hex":"{one}{two}","max":2016}}"#));
    assert_eq!(
        result(headers(HeadersForm::List, Some(branch()))),
        format!(
            r#"{{"count":2,"headers":["{one}","{two}"],"max":2016,"root":"{}","branch":["{}","{}"]}}"#,
            shown(9),
            shown(1),
            shown(2)
        )
    );
    let none = Answer::Headers { headers: Vec::new(), form: HeadersForm::Joined, branch: None };
    assert_eq!(result(none), r#"{"count":0,"hex":"","max":2016}"#);
}

#[test]
fn a_tip_has_exactly_hex_and_height() {
    let tip = TipHeader { header: [0; 80], height: Height(5) };
    let object = format!(r#"{{"hex":"{}","height":5}}"#, "00".repeat(80));
    assert_eq!(result(Answer::Tip(tip)), object);
    assert_eq!(
        String::from_utf8(tip_notification(&tip)).unwrap(),
        format!(r#"{{"jsonrpc":"2.0","method":"blockchain.headers.subscribe","params":[{object}]}}"#)
    );
}

#[test]
fn fees_are_decimal_numbers_and_minus_one_when_unknown() {
    assert_eq!(result(Answer::Fee(None)), "-1");
    assert_eq!(result(Answer::Fee(Some(0.00001))), "0.00001000");
    assert_eq!(result(Answer::Fee(Some(0.000_000_01))), "0.00000001");
    assert_eq!(result(Answer::Fee(Some(f64::NAN))), "null");
    let info = Answer::MempoolInfo { mempool_min: 0.00001, relay_min: 0.000_002, relay_increment: 0.000_001 };
    assert_eq!(
        result(info),
        r#"{"mempoolminfee":0.00001000,"minrelaytxfee":0.00000200,"incrementalrelayfee":0.00000100}"#
    );
}

#[test]
fn balance_history_and_unspent_are_integers() {
    assert_eq!(
        result(Answer::Balance(Balance { confirmed: 2_100_000_000_000_000, unconfirmed: -7 })),
        r#"{"confirmed":2100000000000000,"unconfirmed":-7}"#
    );
    let txid = Txid::from_byte_array(hash(7));
    assert_eq!(result(Answer::History { confirmed: Vec::new(), unconfirmed: Vec::new() }), "[]");
    assert_eq!(
        result(Answer::History {
            confirmed: vec![HistoryEntry { txid, height: Height(200) }],
            unconfirmed: Vec::new()
        }),
        format!(r#"[{{"tx_hash":"{}","height":200}}]"#, shown(7))
    );
    assert_eq!(
        result(Answer::Unspent(vec![Unspent {
            txid,
            vout: 1,
            confirmation: Confirmation::Confirmed(Height(200)),
            value: 5_000
        }])),
        format!(r#"[{{"tx_hash":"{}","tx_pos":1,"height":200,"value":5000}}]"#, shown(7))
    );
}

#[test]
fn a_status_is_hex_in_plain_order_or_null() {
    assert_eq!(result(Answer::Status(None)), "null");
    assert_eq!(result(Answer::Status(Some(hash(7)))), format!("\"07{}\"", "0".repeat(62)));
    let scripthash: ScriptHash = shown(5).parse().unwrap();
    assert_eq!(
        String::from_utf8(status_notification(&scripthash, None)).unwrap(),
        format!(r#"{{"jsonrpc":"2.0","method":"blockchain.scripthash.subscribe","params":["{}",null]}}"#, shown(5))
    );
}

#[test]
fn merkle_branches_are_shown_reversed() {
    let siblings = format!(r#"["{}","{}"]"#, shown(1), shown(2));
    assert_eq!(
        result(Answer::Merkle { branch: branch(), height: Height(8) }),
        format!(r#"{{"block_height":8,"merkle":{siblings},"pos":3}}"#)
    );
    assert_eq!(
        result(Answer::TxidMerkle { txid: Txid::from_byte_array(hash(7)), branch: branch() }),
        format!(r#"{{"tx_hash":"{}","merkle":{siblings}}}"#, shown(7))
    );
}

#[test]
fn a_package_tells_errors_only_where_there_are_some() {
    let errors = vec![PackageError { txid: shown(7), error: "dust".into() }];
    assert_eq!(result(Answer::Package { success: true, errors: Vec::new() }), r#"{"success":true}"#);
    assert_eq!(
        result(Answer::Package { success: false, errors }),
        format!(r#"{{"success":false,"errors":[{{"txid":"{}","error":"dust"}}]}}"#, shown(7))
    );
}
