//! Requests that are malformed, or ask for what is not there: the right status and text, whatever they hold.

use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::hex::FromHex as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::world::{SMALL, World};

#[test]
fn wrong_requests_get_their_status_and_text() {
    let world = World::small(51);
    let rest = &world.rest;
    let unknown = sha256::Hash::hash(b"nothing").to_string();
    let (genesis, tip) = (world.live.ledger().chain()[0].hash, world.live.ledger().chain().last().unwrap().hash);
    let table: &[(&str, u16, &str)] = &[
        ("/block/xyz", 400, "Invalid hex string"),
        ("/block/00", 400, "Invalid hex string"),
        (&format!("/block/{unknown}"), 404, "Block not found"),
        (&format!("/block/{unknown}/raw"), 404, "Block not found"),
        (&format!("/block/{unknown}/txs"), 404, "Block not found"),
        (&format!("/block/{tip}/txs/1"), 400, "start index must be a multiple of 25"),
        (&format!("/block/{genesis}/txs/1"), 400, "start index out of range"),
        (&format!("/block/{tip}/txs/4294967275"), 400, "start index out of range"),
        (&format!("/block/{tip}/txid/x"), 400, "Invalid number"),
        ("/block-height/x", 400, "Invalid number"),
        ("/block-height/-1", 400, "Invalid number"),
        ("/block-height/4294967296", 400, "Invalid number"),
        ("/block-height/4294967295", 404, "Block not found"),
        ("/tx/zz", 400, "Invalid hex string"),
        (&format!("/tx/{unknown}"), 404, "Transaction not found"),
        (&format!("/tx/{unknown}/hex"), 404, "Transaction not found"),
        (&format!("/tx/{unknown}/outspends"), 404, "Transaction not found"),
        (&format!("/tx/{unknown}/merkle-proof"), 404, "Transaction not found or is unconfirmed"),
        (&format!("/tx/{unknown}/outspend/x"), 400, "Invalid number"),
        ("/txs/outspends", 400, "No txids specified"),
        (&format!("/txs/outspends?txids={}", vec!["00"; 51].join(",")), 400, "Too many txids requested"),
        ("/address/nonsense", 400, "Invalid Bitcoin address"),
        ("/address/1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", 400, "Address on invalid network"),
        ("/address/bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4/txs", 400, "Address on invalid network"),
        ("/scripthash/00", 400, "Invalid scripthash"),
        ("/scripthash/xx/utxo", 400, "Invalid hex string"),
        (&format!("/scripthash/{unknown}/txs?after_txid={unknown}"), 422, "after_txid not found"),
        (&format!("/scripthash/{unknown}/txs/summary/{unknown}"), 422, "after_txid not found"),
        ("/address-prefix/bcrt1", 400, "address search disabled"),
        ("/nothing/at/all", 404, "endpoint does not exist \"/nothing/at/all\""),
        ("/api/nothing", 404, "endpoint does not exist \"/api/nothing\""),
    ];
    for (path, status, text) in table {
        assert_eq!(rest.refusal(path), (*status, (*text).to_owned()), "{path}");
    }
    // What is unknown and no error.
    let json = |path: &str| rest.json(path).to_string();
    assert_eq!(json(&format!("/tx/{unknown}/status")), r#"{"confirmed":false}"#);
    assert_eq!(json(&format!("/tx/{unknown}/outspend/0")), r#"{"spent":false}"#);
    assert_eq!(json(&format!("/scripthash/{unknown}/txs")), "[]");
    assert_eq!(json(&format!("/scripthash/{unknown}/txs/chain/{unknown}")), "[]");
    assert_eq!(rest.json("/blocks/x"), rest.json("/blocks"));
    let spent = rest.json(&format!("/block/{tip}/txs"))[0]["vout"][0]["scriptpubkey"].as_str().unwrap().to_owned();
    let hash = sha256::Hash::hash(&Vec::<u8>::from_hex(&spent).unwrap());
    for pages in ["txs/chain", "txs/summary"] {
        let first = rest.json(&format!("/scripthash/{hash}/{pages}"));
        assert_ne!(first.as_array().unwrap().len(), 0);
        assert_eq!(rest.json(&format!("/scripthash/{hash}/{pages}/x")), first);
    }
    assert_eq!(rest.json("/mempool/txids/page/x"), rest.json("/mempool/txids/page"));
    let status = rest.json(&format!("/block/{genesis}/status"));
    assert_eq!((&status["height"], &status["in_best_chain"]), (&0.into(), &true.into()));
    let deleted = ureq::delete(format!("{}/tx", rest.url())).config().http_status_as_error(false).build().call();
    assert_eq!(deleted.unwrap().status().as_u16(), 404);
}

#[test]
fn too_many_unspent_outputs_are_refused_and_not_cut() {
    let limits = birdhouse_esplora::Limits { unspent: 3, ..birdhouse_esplora::Limits::default() };
    let world = World::of(52, SMALL, limits);
    let many = world.live.ledger().scripts().into_iter().find(|(_, facts)| {
        facts.outputs.iter().filter(|output| output.spent == birdhouse_testkit::ledger::SpentState::No).count() > 3
    });
    let (script, _) = many.unwrap();
    let hash =
        bitcoin::hex::DisplayHex::to_lower_hex_string(&sha256::Hash::hash(script.as_bytes()).to_byte_array()[..]);
    let refusal = world.rest.refusal(&format!("/scripthash/{hash}/utxo"));
    assert_eq!(refusal, (400, "Too many unspent outputs".into()));
}

/// A part of a path: a word of the API, a number, a hash, or anything.
fn part() -> impl Strategy<Value = String> {
    const WORDS: [&str; 31] = [
        "block",
        "blocks",
        "tip",
        "height",
        "hash",
        "tx",
        "txs",
        "txid",
        "txids",
        "raw",
        "hex",
        "status",
        "outspend",
        "outspends",
        "address",
        "addresses",
        "scripthash",
        "chain",
        "mempool",
        "utxo",
        "summary",
        "recent",
        "page",
        "api",
        "block-height",
        "merkle-proof",
        "merkleblock-proof",
        "header",
        "address-prefix",
        "broadcast",
        "v1",
    ];
    prop_oneof![
        6 => proptest::sample::select(&WORDS[..]).prop_map(str::to_owned),
        2 => any::<u64>().prop_map(|number| number.to_string()),
        2 => (0_u32..200).prop_map(|number| number.to_string()),
        2 => any::<[u8; 32]>().prop_map(|bytes| bitcoin::hex::DisplayHex::to_lower_hex_string(&bytes[..])),
        1 => Just("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080".to_owned()),
        2 => "[a-zA-Z0-9%+.~_-]{0,40}",
    ]
}

#[test]
fn any_path_gets_an_answer_or_a_refusal_with_a_reason() {
    let world = World::small(53);
    let query = prop_oneof![2 => Just(String::new()), 1 => "\\?(max_txs|after_txid|txids|tx)=[a-z0-9%,+&=-]{0,20}"];
    let paths = (proptest::collection::vec(part(), 1..6), query);
    let config = Config { cases: 1000, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&paths, |(parts, query)| {
            let path = format!("/{}{query}", parts.join("/"));
            let got = world.rest.get(&path);
            prop_assert!(matches!(got.status, 200 | 400 | 404 | 422), "{} {}: {}", path, got.status, got.text());
            prop_assert!(got.status == 200 || !got.body.is_empty(), "{}", path);
            Ok(())
        })
        .unwrap();
}
