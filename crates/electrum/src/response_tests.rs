//! The exact text of every shape of reply.

#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_chain::{Balance, Confirmation, Height, HistoryEntry, MerkleBranch, UnconfirmedEntry, Unspent};
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, OutPoint, Txid};
use serde_json::value::RawValue;

use super::*;
use crate::answer::{
    Acceptance, FeaturesForm, Fees, FirstUse, HeadersForm, MempoolFees, OutpointState, OutpointStatus, PackageError,
    Peer, Prospect, TipHeader, Utxo,
};
use crate::envelope::Line as RequestLine;
use crate::limits::Limits;
use crate::script::{Naming, Script};
use crate::settings::Host;
use crate::version::Version;

const REPLY_BYTES: usize = 1_000_000;

fn id(json: &str) -> Id {
    let line = format!(r#"{{"id":{json},"method":"m"}}"#);
    match RequestLine::parse(line.as_bytes(), &Limits::default()).unwrap() {
        RequestLine::Single(Ok(envelope)) => envelope.id.unwrap(),
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

fn txid(first: u8) -> Txid {
    Txid::from_byte_array(hash(first))
}

fn unconfirmed(first: u8, has_unconfirmed_inputs: bool) -> UnconfirmedEntry {
    UnconfirmedEntry { txid: txid(first), fee: 24_310, has_unconfirmed_inputs }
}

fn line(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
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
fn a_long_list_beyond_its_bound_is_history_too_large() {
    let history = |entries: usize, naming| {
        let confirmed = vec![HistoryEntry { txid: txid(7), height: Height(200) }; entries];
        Ok(Answer::History { confirmed, unconfirmed: vec![unconfirmed(8, false)], naming })
    };
    for naming in [Naming::Hash, Naming::Pubkey] {
        let full = reply(&id("5"), &history(100, naming), REPLY_BYTES);
        for bytes_max in [full.len(), full.len() - 1] {
            assert_eq!(reply(&id("5"), &history(100, naming), bytes_max), full);
        }
        // The brace at the end is not counted.
        for bytes_max in [full.len() - 2, full.len() - 100, full.len() / 2, 60] {
            let line = String::from_utf8(reply(&id("5"), &history(100, naming), bytes_max)).unwrap();
            assert!(line.contains("10001"), "{bytes_max} {line}");
        }
    }
    let raw = Ok(Answer::Bytes(vec![7; 100]));
    assert!(reply(&id("5"), &raw, 300).ends_with(b"0707\"}"));
    assert!(reply(&id("5"), &raw, 200).ends_with(b"history too large\"}}"));
}

#[test]
fn plain_answers() {
    assert_eq!(result(Answer::Null), "null");
    assert_eq!(result(Answer::Bool(true)), "true");
    assert_eq!(result(Answer::Text("a \"b\"".into())), r#""a \"b\"""#);
    assert_eq!(result(Answer::Bytes(vec![0x02, 0xaf])), r#""02af""#);
    assert_eq!(result(Answer::Txid(txid(7))), format!("\"{}\"", shown(7)));
    assert_eq!(result(Answer::Pong(0)), r#"{"data":""}"#);
    assert_eq!(result(Answer::Pong(5)), r#"{"data":"00000"}"#);
    let version = Answer::Version { software: "Birdhouse".into(), version: Version::V1_4_2 };
    assert_eq!(result(version), r#"["Birdhouse","1.4.2"]"#);
}

#[test]
fn features_name_every_host_and_the_versions() {
    let host = Host { name: "example.org".into(), tcp_port: Some(50001), ..Host::default() };
    let onion = Host { name: "z.onion".into(), tcp_port: Some(50001), wss_port: Some(50004), ..Host::default() };
    let genesis_hash = BlockHash::from_byte_array(hash(6));
    let features = |form| {
        let hosts = vec![onion.clone(), host.clone()];
        Answer::Features { hosts, genesis_hash, server_version: "Birdhouse".into(), form }
    };
    let expected = |hash_function: &str| {
        format!(
            concat!(
                r#"{{"hosts":{{"example.org":{{"tcp_port":50001,"ssl_port":null}},"#,
                r#""z.onion":{{"tcp_port":50001,"ssl_port":null,"wss_port":50004}}}},"genesis_hash":"{}","#,
                r#"{}"server_version":"Birdhouse","protocol_min":"1.4","protocol_max":"1.7","pruning":null}}"#
            ),
            shown(6),
            hash_function
        )
    };
    assert_eq!(result(features(FeaturesForm::WithHashFunction)), expected(r#""hash_function":"sha256","#));
    assert_eq!(result(features(FeaturesForm::WithoutHashFunction)), expected(""));
}

#[test]
fn peers_are_told_with_address_name_version_and_ports() {
    let host = Host { name: "example.org".into(), tcp_port: Some(50001), ssl_port: Some(443), ..Host::default() };
    let secret = Host { name: "2001:db8::1".into(), ssl_port: Some(50002), ..Host::default() };
    let peer = |host, address: &str| Peer { host, address: address.parse().unwrap(), protocol_max: "1.6".into() };
    let peers = vec![peer(host, "192.0.2.1"), peer(secret, "2001:db8::1")];
    assert_eq!(
        result(Answer::Peers(peers)),
        concat!(
            r#"[["192.0.2.1","example.org",["v1.6","t50001","s443"]],"#,
            r#"["2001:db8::1","2001:db8::1",["v1.6","s50002"]]]"#
        )
    );
    assert_eq!(result(Answer::Peers(Vec::new())), "[]");
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
        line(notification(&SubjectState::Tip(tip))),
        format!(r#"{{"jsonrpc":"2.0","method":"blockchain.headers.subscribe","params":[{object}]}}"#)
    );
}

#[test]
fn fees_are_decimal_numbers_and_minus_one_when_unknown() {
    assert_eq!(result(Answer::Fees(Fees::One(None))), "-1");
    assert_eq!(result(Answer::Fees(Fees::One(Some(0.00001)))), "0.00001000");
    assert_eq!(result(Answer::Fees(Fees::One(Some(0.000_000_01)))), "0.00000001");
    assert_eq!(result(Answer::Fees(Fees::One(Some(f64::NAN)))), "null");
    let fees = MempoolFees { mempool_min: 0.00001, relay_min: 0.000_002, increment: 0.000_001 };
    assert_eq!(
        result(Answer::Fees(Fees::Mempool(fees))),
        r#"{"mempoolminfee":0.00001000,"minrelaytxfee":0.00000200,"incrementalrelayfee":0.00000100}"#
    );
}

#[test]
fn a_histogram_has_plain_numbers() {
    let bins = vec![(59.5, 30_324), (12.0, 1), (0.1, 7)];
    assert_eq!(result(Answer::FeeHistogram(bins)), "[[59.5,30324],[12,1],[0.1,7]]");
    assert_eq!(result(Answer::FeeHistogram(Vec::new())), "[]");
}

#[test]
fn a_balance_may_be_reduced_by_the_mempool() {
    let balance = Balance { confirmed: 2_100_000_000_000_000, unconfirmed: -24_310 };
    assert_eq!(result(Answer::Balance(balance)), r#"{"confirmed":2100000000000000,"unconfirmed":-24310}"#);
}

#[test]
fn a_history_ends_with_the_mempool_and_its_fees() {
    let history = |naming| {
        let confirmed = vec![
            HistoryEntry { txid: txid(7), height: Height(0) },
            HistoryEntry { txid: txid(8), height: Height(200) },
        ];
        let unconfirmed = vec![unconfirmed(9, false), unconfirmed(10, true)];
        result(Answer::History { confirmed, unconfirmed, naming })
    };
    let list = format!(
        concat!(
            r#"[{{"tx_hash":"{}","height":0}},{{"tx_hash":"{}","height":200}},"#,
            r#"{{"tx_hash":"{}","height":0,"fee":24310}},{{"tx_hash":"{}","height":-1,"fee":24310}}]"#
        ),
        shown(7),
        shown(8),
        shown(9),
        shown(10)
    );
    assert_eq!(history(Naming::Hash), list);
    assert_eq!(history(Naming::Pubkey), format!(r#"{{"history":{list}}}"#));
    let empty = |naming| Answer::History { confirmed: Vec::new(), unconfirmed: Vec::new(), naming };
    assert_eq!(result(empty(Naming::Hash)), "[]");
    assert_eq!(result(empty(Naming::Pubkey)), r#"{"history":[]}"#);
}

#[test]
fn unspent_outputs_in_the_mempool_have_height_0() {
    let unspent = |naming| {
        let output = |confirmation| Unspent { txid: txid(7), vout: 1, confirmation, value: 5_000 };
        let outputs = vec![
            output(Confirmation::Confirmed(Height(200))),
            output(Confirmation::Unconfirmed { has_unconfirmed_inputs: false }),
            output(Confirmation::Unconfirmed { has_unconfirmed_inputs: true }),
        ];
        result(Answer::Unspent { outputs, naming })
    };
    let output = |height: u32| format!(r#"{{"tx_hash":"{}","tx_pos":1,"height":{height},"value":5000}}"#, shown(7));
    let list = format!("[{},{},{}]", output(200), output(0), output(0));
    assert_eq!(unspent(Naming::Hash), list);
    assert_eq!(unspent(Naming::Pubkey), format!(r#"{{"utxos":{list}}}"#));
    assert_eq!(result(Answer::Unspent { outputs: Vec::new(), naming: Naming::Pubkey }), r#"{"utxos":[]}"#);
}

#[test]
fn a_status_is_hex_in_plain_order_or_null() {
    assert_eq!(result(Answer::Status(None)), "null");
    let status = format!("\"07{}\"", "0".repeat(62));
    assert_eq!(result(Answer::Status(Some(hash(7)))), status);
    let sent = |naming, status| {
        let script = Script { hash: shown(5).parse().unwrap(), naming };
        line(notification(&SubjectState::Script(script, status)))
    };
    let expected = |method: &str, status: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"blockchain.{method}.subscribe","params":["{}",{status}]}}"#, shown(5))
    };
    assert_eq!(sent(Naming::Hash, None), expected("scripthash", "null"));
    assert_eq!(sent(Naming::Pubkey, Some(hash(7))), expected("scriptpubkey", &status));
}

#[test]
fn an_outpoint_has_none_one_or_three_members() {
    let unconfirmed = Confirmation::Unconfirmed { has_unconfirmed_inputs: true };
    let table = [
        (None, None, "{}".to_owned()),
        (Some(Confirmation::Confirmed(Height(186))), None, r#"{"funder_height":186}"#.to_owned()),
        (Some(unconfirmed), None, r#"{"funder_height":-1}"#.to_owned()),
        (
            Some(Confirmation::Confirmed(Height(186))),
            Some((txid(7), Confirmation::Unconfirmed { has_unconfirmed_inputs: false })),
            format!(r#"{{"funder_height":186,"spender_txhash":"{}","spender_height":0}}"#, shown(7)),
        ),
    ];
    for (funding, spender, expected) in table {
        let status = OutpointStatus { funding, spender };
        let state = OutpointState { status, script: None, prospect: Prospect::Open };
        assert_eq!(result(Answer::Outpoint(state)), expected);
        let outpoint = OutPoint { txid: txid(3), vout: 4 };
        assert_eq!(
            line(notification(&SubjectState::Outpoint(outpoint, state))),
            format!(
                r#"{{"jsonrpc":"2.0","method":"blockchain.outpoint.subscribe","params":["{}",4,{expected}]}}"#,
                shown(3)
            )
        );
    }
}

#[test]
fn cores_json_passes_unchanged_but_for_line_breaks() {
    let core = |json: &str| result(Answer::Core(RawValue::from_string(json.into()).unwrap()));
    for json in [r#"{"fee":0.00001000,"n":1e-8,"big":123456789012345678901234567890}"#, "null", r#""\n""#] {
        assert_eq!(core(json), json);
    }
    assert_eq!(core("{\n  \"a\": 1\r\n}"), "{   \"a\": 1  }");
}

#[test]
fn fulcrums_answers_have_its_members() {
    let first = |block| result(Answer::FirstUse(Some(FirstUse { txid: txid(7), block })));
    let expected = |hash: &str, height: u32| {
        format!(r#"{{"block_hash":"{hash}","height":{height},"block_height":{height},"tx_hash":"{}"}}"#, shown(7))
    };
    let block_hash = BlockHash::from_byte_array(hash(6));
    assert_eq!(first(Some((Height(200), block_hash))), expected(&shown(6), 200));
    assert_eq!(first(None), expected(&"0".repeat(64), 0));
    assert_eq!(result(Answer::FirstUse(None)), "null");

    let height = |confirmation| result(Answer::TransactionHeight(confirmation));
    assert_eq!(height(Confirmation::Confirmed(Height(200))), "200");
    assert_eq!(height(Confirmation::Unconfirmed { has_unconfirmed_inputs: true }), "0");

    let block = |header| result(Answer::Block { hash: block_hash, height: Height(200), header });
    assert_eq!(block(None), format!(r#"{{"block_hash":"{}","block_height":200}}"#, shown(6)));
    let with_header =
        format!(r#"{{"block_hash":"{}","block_height":200,"block_header":"{}"}}"#, shown(6), "ab".repeat(80));
    assert_eq!(block(Some([0xab; 80])), with_header);

    let utxo = |funding| {
        let scripthash = shown(5).parse().unwrap();
        result(Answer::Utxo(Some(Utxo { scripthash, value: 5_000, funding })))
    };
    assert_eq!(
        utxo(Confirmation::Confirmed(Height(200))),
        format!(r#"{{"scripthash":"{}","value":5000,"confirmed_height":200}}"#, shown(5))
    );
    assert_eq!(
        utxo(Confirmation::Unconfirmed { has_unconfirmed_inputs: false }),
        format!(r#"{{"scripthash":"{}","value":5000}}"#, shown(5))
    );
    assert_eq!(result(Answer::Utxo(None)), "null");
}

#[test]
fn acceptance_leaves_out_what_is_unknown() {
    let acceptance = |allowed, reason: Option<&str>| Acceptance {
        txid: shown(1),
        wtxid: shown(2),
        allowed,
        reason: reason.map(str::to_owned),
    };
    let answer = Answer::Acceptances(vec![acceptance(Some(false), Some("missing-inputs")), acceptance(None, None)]);
    let one = format!(r#""txid":"{}","wtxid":"{}""#, shown(1), shown(2));
    assert_eq!(result(answer), format!(r#"[{{{one},"allowed":false,"reason":"missing-inputs"}},{{{one}}}]"#));
}

#[test]
fn merkle_branches_are_shown_reversed() {
    let siblings = format!(r#"["{}","{}"]"#, shown(1), shown(2));
    assert_eq!(
        result(Answer::Merkle { branch: branch(), height: Height(8) }),
        format!(r#"{{"block_height":8,"merkle":{siblings},"pos":3}}"#)
    );
    assert_eq!(
        result(Answer::TxidMerkle { txid: txid(7), branch: branch() }),
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
