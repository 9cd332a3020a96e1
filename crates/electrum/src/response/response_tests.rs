//! The exact text of every shape of reply.

#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_chain::{Balance, Confirmation, Height, HistoryEntry, MerkleBranch, UnconfirmedEntry, Unspent};
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, OutPoint, Txid};
use serde_json::value::RawValue;

use super::*;
use crate::limits::Limits;
use crate::protocol::{
    Acceptance, FeaturesForm, Fees, FirstUse, HeadersForm, Line as RequestLine, MempoolFees, Naming, Offer, Offers,
    OutpointState, OutpointStatus, Output, PackageError, Peer, Prospect, Script, TipHeader, Utxo, Version,
};
use crate::settings::Host;

const REPLY_BYTES: usize = 1_000_000;

fn id(json: &str) -> Id {
    let line = format!(r#"{{"id":{json},"method":"m"}}"#);
    match RequestLine::parse(line.as_bytes(), &Limits::default()).unwrap() {
        RequestLine::Single(Ok(envelope)) => envelope.id.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn line(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn result(answer: Answer) -> String {
    let line = line(reply(&id("0"), &Ok(answer), REPLY_BYTES));
    let result = line.strip_prefix(r#"{"jsonrpc":"2.0","id":0,"result":"#).unwrap();
    result.strip_suffix('}').unwrap().to_owned()
}

/// A line in which `<7>` stands for [`hash`] 7 as it is shown, and `<h7>` for a header of 80 bytes 7 in hexadecimal.
fn expanded(line: &str) -> String {
    (0..=10_u8).fold(line.to_owned(), |line, number| {
        let header = format!("{number:02x}").repeat(80);
        line.replace(&format!("<{number}>"), &shown(number)).replace(&format!("<h{number}>"), &header)
    })
}

fn assert_results<const N: usize>(table: [(Answer, &str); N]) {
    for (answer, expected) in table {
        assert_eq!(result(answer), expanded(expected));
    }
}

fn assert_notified(state: &SubjectState, method: &str, params: &str) {
    let expected = format!(r#"{{"jsonrpc":"2.0","method":"blockchain.{method}.subscribe","params":[{params}]}}"#);
    assert_eq!(line(notification(state)), expanded(&expected));
}

const HEADER: [u8; 80] = [1; 80];

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

fn block_hash() -> BlockHash {
    BlockHash::from_byte_array(hash(6))
}

const fn confirmed(height: u32) -> Confirmation {
    Confirmation::Confirmed(Height(height))
}

const UNCONFIRMED: Confirmation = Confirmation::Unconfirmed { has_unconfirmed_inputs: false };
/// It spends outputs of the mempool.
const DESCENDANT: Confirmation = Confirmation::Unconfirmed { has_unconfirmed_inputs: true };

fn in_mempool(first: u8) -> UnconfirmedEntry {
    UnconfirmedEntry { txid: txid(first), fee: 24_310, has_unconfirmed_inputs: false }
}

fn branch() -> MerkleBranch {
    MerkleBranch { siblings: vec![hash(1), hash(2)], position: 3, root: hash(9) }
}

#[test]
fn ids_are_echoed_to_the_byte() {
    for json in ["0", "-7", "1.50", "1e3", r#""a\u0062""#, "null", "123456789012345678901234567890"] {
        let line = line(reply(&id(json), &Ok(Answer::Null), REPLY_BYTES));
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{json},"result":null}}"#));
    }
}

#[test]
fn errors_have_code_and_message() {
    let error = RpcError::invalid_params("a \"quoted\"\nword");
    assert_eq!(
        line(reply(&id("5"), &Err(error), REPLY_BYTES)),
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"a \"quoted\"\nword"}}"#
    );
}

#[test]
fn a_reply_beyond_its_bound_is_history_too_large() {
    let text = |len| Ok(Answer::Text("x".repeat(len)));
    assert_eq!(
        line(reply(&id("5"), &text(100), 100)),
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":10001,"message":"history too large"}}"#
    );
    assert!(reply(&id("5"), &text(10), 100).ends_with(b"\"xxxxxxxxxx\"}"));
}

#[test]
fn a_long_list_beyond_its_bound_is_history_too_large() {
    let history = |entries: usize, naming| {
        let confirmed = vec![HistoryEntry { txid: txid(7), height: Height(200) }; entries];
        Ok(Answer::History { confirmed, unconfirmed: vec![in_mempool(8)], naming })
    };
    for naming in Naming::ALL {
        let full = reply(&id("5"), &history(100, naming), REPLY_BYTES);
        for bytes_max in [full.len(), full.len() - 1] {
            assert_eq!(reply(&id("5"), &history(100, naming), bytes_max), full);
        }
        // The brace at the end is not counted.
        for bytes_max in [full.len() - 2, full.len() - 100, full.len() / 2, 60] {
            let line = line(reply(&id("5"), &history(100, naming), bytes_max));
            assert!(line.contains("10001"), "{bytes_max} {line}");
        }
    }
    let raw = Ok(Answer::Bytes(vec![7; 100]));
    assert!(reply(&id("5"), &raw, 300).ends_with(b"0707\"}"));
    assert!(reply(&id("5"), &raw, 200).ends_with(b"history too large\"}}"));
}

#[test]
fn plain_answers() {
    assert_results([
        (Answer::Null, "null"),
        (Answer::Bool(true), "true"),
        (Answer::Text("a \"b\"".into()), r#""a \"b\"""#),
        (Answer::Bytes(vec![0x02, 0xaf]), r#""02af""#),
        (Answer::Txid(txid(7)), r#""<7>""#),
        (Answer::Pong(0), r#"{"data":""}"#),
        (Answer::Pong(5), r#"{"data":"00000"}"#),
        (Answer::Version { software: "Birdhouse".into(), version: Version::V1_4_2 }, r#"["Birdhouse","1.4.2"]"#),
    ]);
}

#[test]
fn features_name_every_host_and_the_versions() {
    let host = Host { name: "example.org".into(), tcp_port: Some(50001), ..Host::default() };
    let onion = Host { name: "z.onion".into(), tcp_port: Some(50001), wss_port: Some(50004), ..Host::default() };
    let both = Offers { silent_payments: Offer::Made, tweaks: Offer::Made };
    let table = [
        (FeaturesForm::WithHashFunction, Offers::NONE, r#""hash_function":"sha256","#, ""),
        (FeaturesForm::WithoutHashFunction, both, "", r#","silent_payments":[0],"tweaks":true"#),
    ];
    for (form, Offers { silent_payments, tweaks }, hash_function, versions) in table {
        let (hosts, server_version) = (vec![onion.clone(), host.clone()], "Birdhouse".into());
        let genesis_hash = block_hash();
        let features = Answer::Features { hosts, genesis_hash, server_version, form, silent_payments, tweaks };
        let expected = concat!(
            r#"{"hosts":{"example.org":{"tcp_port":50001,"ssl_port":null},"#,
            r#""z.onion":{"tcp_port":50001,"ssl_port":null,"wss_port":50004}},"genesis_hash":"<6>",FUNCTION"#,
            r#""server_version":"Birdhouse","protocol_min":"1.4","protocol_max":"1.7","pruning":nullVERSIONS}"#
        );
        let expected = expected.replace("FUNCTION", hash_function).replace("VERSIONS", versions);
        assert_results([(features, &expected)]);
    }
}

#[test]
fn peers_are_told_with_address_name_version_and_ports() {
    let host = Host { name: "example.org".into(), tcp_port: Some(50001), ssl_port: Some(443), ..Host::default() };
    let secret = Host { name: "2001:db8::1".into(), ssl_port: Some(50002), ..Host::default() };
    let peer = |host, address: &str| Peer { host, address: address.parse().unwrap(), protocol_max: "1.6".into() };
    let expected = concat!(
        r#"[["192.0.2.1","example.org",["v1.6","t50001","s443"]],"#,
        r#"["2001:db8::1","2001:db8::1",["v1.6","s50002"]]]"#
    );
    let peers = vec![peer(host, "192.0.2.1"), peer(secret, "2001:db8::1")];
    assert_results([(Answer::Peers(peers), expected), (Answer::Peers(Vec::new()), "[]")]);
}

#[test]
fn a_header_is_hex_and_with_a_checkpoint_proven() {
    assert_results([
        (Answer::Header(HEADER), r#""<h1>""#),
        (
            Answer::ProvenHeader { header: HEADER, branch: branch() },
            r#"{"branch":["<1>","<2>"],"header":"<h1>","root":"<9>"}"#,
        ),
    ]);
}

#[test]
fn headers_are_joined_until_1_6_and_listed_from_it() {
    let headers = |count, form, branch| Answer::Headers { headers: [HEADER, [2; 80]][..count].into(), form, branch };
    assert_results([
        (headers(2, HeadersForm::Joined, None), r#"{"count":2,"hex":"<h1><h2>","max":2016}"#),
        (
            headers(2, HeadersForm::List, Some(branch())),
            r#"{"count":2,"headers":["<h1>","<h2>"],"max":2016,"root":"<9>","branch":["<1>","<2>"]}"#,
        ),
        (headers(0, HeadersForm::Joined, None), r#"{"count":0,"hex":"","max":2016}"#),
    ]);
}

#[test]
fn a_tip_has_exactly_hex_and_height() {
    let tip = TipHeader { header: HEADER, height: Height(5) };
    assert_results([(Answer::Tip(tip), r#"{"hex":"<h1>","height":5}"#)]);
    assert_notified(&SubjectState::Tip(tip), "headers", r#"{"hex":"<h1>","height":5}"#);
}

#[test]
fn fees_are_decimal_numbers_and_minus_one_when_unknown() {
    let fees = MempoolFees { mempool_min: 0.00001, relay_min: 0.000_002, increment: 0.000_001 };
    assert_results([
        (Answer::Fees(Fees::One(None)), "-1"),
        (Answer::Fees(Fees::One(Some(0.00001))), "0.00001000"),
        (Answer::Fees(Fees::One(Some(0.000_000_01))), "0.00000001"),
        (Answer::Fees(Fees::One(Some(f64::NAN))), "null"),
        (
            Answer::Fees(Fees::Mempool(fees)),
            r#"{"mempoolminfee":0.00001000,"minrelaytxfee":0.00000200,"incrementalrelayfee":0.00000100}"#,
        ),
    ]);
}

#[test]
fn a_histogram_has_plain_numbers() {
    let bins = vec![(59.5, 30_324), (12.0, 1), (0.1, 7)];
    assert_results([
        (Answer::FeeHistogram(bins), "[[59.5,30324],[12,1],[0.1,7]]"),
        (Answer::FeeHistogram(Vec::new()), "[]"),
    ]);
}

#[test]
fn a_balance_may_be_reduced_by_the_mempool() {
    let balance = Balance { confirmed: 2_100_000_000_000_000, unconfirmed: -24_310 };
    assert_results([(Answer::Balance(balance), r#"{"confirmed":2100000000000000,"unconfirmed":-24310}"#)]);
}

#[test]
fn a_history_ends_with_the_mempool_and_its_fees() {
    let history = |naming| {
        let confirmed = [(7, 0), (8, 200)];
        let confirmed = confirmed.map(|(first, height)| HistoryEntry { txid: txid(first), height: Height(height) });
        let unconfirmed = vec![in_mempool(9), UnconfirmedEntry { has_unconfirmed_inputs: true, ..in_mempool(10) }];
        Answer::History { confirmed: confirmed.into(), unconfirmed, naming }
    };
    let list = concat!(
        r#"[{"tx_hash":"<7>","height":0},{"tx_hash":"<8>","height":200},"#,
        r#"{"tx_hash":"<9>","height":0,"fee":24310},{"tx_hash":"<10>","height":-1,"fee":24310}]"#
    );
    let empty = |naming| Answer::History { confirmed: Vec::new(), unconfirmed: Vec::new(), naming };
    assert_results([
        (history(Naming::Hash), list),
        (history(Naming::Pubkey), &format!(r#"{{"history":{list}}}"#)),
        (empty(Naming::Hash), "[]"),
        (empty(Naming::Pubkey), r#"{"history":[]}"#),
    ]);
}

#[test]
fn unspent_outputs_in_the_mempool_have_height_0() {
    let unspent = |naming| {
        let output = |confirmation| Unspent { txid: txid(7), vout: 1, confirmation, value: 5_000 };
        Answer::Unspent { outputs: [confirmed(200), UNCONFIRMED, DESCENDANT].map(output).into(), naming }
    };
    let list = concat!(
        r#"[{"tx_hash":"<7>","tx_pos":1,"height":200,"value":5000},"#,
        r#"{"tx_hash":"<7>","tx_pos":1,"height":0,"value":5000},"#,
        r#"{"tx_hash":"<7>","tx_pos":1,"height":0,"value":5000}]"#
    );
    assert_results([
        (unspent(Naming::Hash), list),
        (unspent(Naming::Pubkey), &format!(r#"{{"utxos":{list}}}"#)),
        (Answer::Unspent { outputs: Vec::new(), naming: Naming::Pubkey }, r#"{"utxos":[]}"#),
    ]);
}

#[test]
fn a_status_is_hex_in_plain_order_or_null() {
    let status = format!("\"07{}\"", "0".repeat(62));
    assert_results([(Answer::Status(None), "null"), (Answer::Status(Some(hash(7))), &status)]);
    let state = |naming, status| SubjectState::Script(Script { hash: shown(5).parse().unwrap(), naming }, status);
    assert_notified(&state(Naming::Hash, None), "scripthash", r#""<5>",null"#);
    assert_notified(&state(Naming::Pubkey, Some(hash(7))), "scriptpubkey", &format!(r#""<5>",{status}"#));
}

#[test]
fn an_outpoint_has_none_one_or_three_members() {
    let spender = (txid(7), UNCONFIRMED);
    for (funding, spender, expected) in [
        (None, None, "{}"),
        (Some(confirmed(186)), None, r#"{"funder_height":186}"#),
        (Some(DESCENDANT), None, r#"{"funder_height":-1}"#),
        (Some(confirmed(186)), Some(spender), r#"{"funder_height":186,"spender_txhash":"<7>","spender_height":0}"#),
    ] {
        let status = OutpointStatus { funding, spender };
        let state = OutpointState { status, output: Output::Unseen, prospect: Prospect::Open };
        assert_results([(Answer::Outpoint(state), expected)]);
        let outpoint = OutPoint { txid: txid(3), vout: 4 };
        assert_notified(&SubjectState::Outpoint(outpoint, state), "outpoint", &format!(r#""<3>",4,{expected}"#));
    }
}

#[test]
fn cores_json_passes_unchanged_but_for_line_breaks() {
    let core = |json: &str| Answer::Core(RawValue::from_string(json.into()).unwrap());
    for json in [r#"{"fee":0.00001000,"n":1e-8,"big":123456789012345678901234567890}"#, "null", r#""\n""#] {
        assert_results([(core(json), json)]);
    }
    assert_results([(core("{\n  \"a\": 1\r\n}"), "{   \"a\": 1  }")]);
}

#[test]
fn fulcrums_answers_have_its_members() {
    let first = |block| Answer::FirstUse(Some(FirstUse { txid: txid(7), block }));
    let block = |header| Answer::Block { hash: block_hash(), height: Height(200), header };
    let scripthash = shown(5).parse().unwrap();
    let utxo = |funding| Answer::Utxo(Some(Utxo { scripthash, value: 5_000, funding }));
    assert_results([
        (
            first(Some((Height(200), block_hash()))),
            r#"{"block_hash":"<6>","height":200,"block_height":200,"tx_hash":"<7>"}"#,
        ),
        (first(None), r#"{"block_hash":"<0>","height":0,"block_height":0,"tx_hash":"<7>"}"#),
        (Answer::FirstUse(None), "null"),
        (Answer::TransactionHeight(confirmed(200)), "200"),
        (Answer::TransactionHeight(DESCENDANT), "0"),
        (block(None), r#"{"block_hash":"<6>","block_height":200}"#),
        (block(Some(HEADER)), r#"{"block_hash":"<6>","block_height":200,"block_header":"<h1>"}"#),
        (utxo(confirmed(200)), r#"{"scripthash":"<5>","value":5000,"confirmed_height":200}"#),
        (utxo(UNCONFIRMED), r#"{"scripthash":"<5>","value":5000}"#),
        (Answer::Utxo(None), "null"),
    ]);
}

#[test]
fn acceptance_leaves_out_what_is_unknown() {
    let acceptance = |allowed, reason: Option<&str>| Acceptance {
        txid: shown(1),
        wtxid: shown(2),
        allowed,
        reason: reason.map(str::to_owned),
    };
    let expected = concat!(
        r#"[{"txid":"<1>","wtxid":"<2>","allowed":false,"reason":"missing-inputs"},"#,
        r#"{"txid":"<1>","wtxid":"<2>"}]"#
    );
    let acceptances = vec![acceptance(Some(false), Some("missing-inputs")), acceptance(None, None)];
    assert_results([(Answer::Acceptances(acceptances), expected)]);
}

#[test]
fn merkle_branches_are_shown_reversed() {
    assert_results([
        (
            Answer::Merkle { branch: branch(), height: Height(8) },
            r#"{"block_height":8,"merkle":["<1>","<2>"],"pos":3}"#,
        ),
        (Answer::TxidMerkle { txid: txid(7), branch: branch() }, r#"{"tx_hash":"<7>","merkle":["<1>","<2>"]}"#),
    ]);
}

#[test]
fn a_package_tells_errors_only_where_there_are_some() {
    let errors = vec![PackageError { txid: shown(7), error: "dust".into() }];
    assert_results([
        (Answer::Package { success: true, errors: Vec::new() }, r#"{"success":true}"#),
        (Answer::Package { success: false, errors }, r#"{"success":false,"errors":[{"txid":"<7>","error":"dust"}]}"#),
    ]);
}
