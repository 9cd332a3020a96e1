//! `/internal`: what mempool's back end asks, on a private listener alone.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn a_private_listener_has_whole_blocks_the_mempool_and_lists() {
    let mut world = World::start(141);
    for number in 0..3 {
        world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 500 + number), 20_000)]).unwrap();
    }
    world.sync();
    let rest = &world.rest;
    let mined = world.live.ledger().chain().iter().max_by_key(|mined| mined.txids.len()).unwrap();
    let (hash, count) = (mined.hash, mined.txids.len());
    let pages = (0..count.div_ceil(25)).map(|page| rest.json(&format!("/block/{hash}/txs/{}", 25 * page)));
    let pages: Vec<Value> = pages.flat_map(|page| page.as_array().unwrap().clone()).collect();
    assert_eq!(rest.private_json(&format!("/internal/block/{hash}/txs")), json!(pages));

    let mut waiting: Vec<_> = world.live.waiting_txids().into_iter().collect();
    waiting.sort_unstable();
    let unconfirmed: Vec<Value> = waiting.iter().map(|txid| rest.json(&format!("/tx/{txid}"))).collect();
    assert!(unconfirmed.len() >= 3);
    assert_eq!(rest.private_json("/internal/mempool/txs/all"), json!(unconfirmed));
    assert_eq!(rest.private_json("/api/internal/mempool/txs"), json!(unconfirmed));
    assert_eq!(rest.private_json("/internal/mempool/txs?max_txs=2"), json!(unconfirmed[..2]));
    let rest_of_them = rest.private_json(&format!("/internal/mempool/txs/{}?max_txs=10000", waiting[0]));
    assert_eq!(rest_of_them, json!(unconfirmed[1..]));
    assert_eq!(rest.private_json(&format!("/internal/mempool/txs/{}", "ff".repeat(32))), json!([]));

    let (confirmed, unknown) = (mined.txids[count - 1], "ab".repeat(32));
    let asked = json!([confirmed, waiting[0], unknown]).to_string();
    let expected = json!([rest.json(&format!("/tx/{confirmed}")), unconfirmed[0]]);
    assert_eq!(rest.private_post("/internal/txs", &asked), expected);
    assert_eq!(rest.private_post("/internal/mempool/txs", &asked), json!([unconfirmed[0]]));
    let outspends = rest.json(&format!("/tx/{confirmed}/outspends"));
    let of_unconfirmed = rest.json(&format!("/tx/{}/outspends", waiting[0]));
    assert_eq!(rest.private_post("/internal/txs/outspends/by-txid", &asked), json!([outspends, of_unconfirmed, []]));
    let parent = unconfirmed[0]["vin"][0].clone();
    let spent = format!("{}:{}", parent["txid"].as_str().unwrap(), parent["vout"]);
    let outpoints = json!([spent, format!("{unknown}:0"), "x"]).to_string();
    let spends = rest.private_post("/internal/txs/outspends/by-outpoint", &outpoints);
    assert_eq!(spends[0]["txid"], json!(waiting[0]));
    assert_eq!((&spends[1], &spends[2]), (&json!({ "spent": false }), &json!({ "spent": false })));
}

#[test]
fn a_public_listener_has_nothing_of_it() {
    let world = World::small(142);
    let hash = world.live.ledger().chain().last().unwrap().hash;
    for path in
        [format!("/internal/block/{hash}/txs"), "/internal/mempool/txs/all".into(), "/internal/mempool/txs".into()]
    {
        for prefix in ["", "/api"] {
            let (status, text) = world.rest.refusal(&format!("{prefix}{path}"));
            assert_eq!((status, text.contains("endpoint does not exist")), (404, true), "{text}");
        }
    }
    for path in [
        "/internal/txs",
        "/internal/mempool/txs",
        "/internal/txs/outspends/by-txid",
        "/internal/txs/outspends/by-outpoint",
    ] {
        assert_eq!(world.rest.post(path, "[]").status, 404, "{path}");
    }
    // The private one answers the rest, too, and malformed questions as the others do.
    assert_eq!(world.rest.private_json("/blocks"), world.rest.json("/blocks"));
    let refused = world.rest.private(&format!("/internal/block/{}/txs", "ab".repeat(32)));
    assert_eq!((refused.status, refused.text()), (404, "Block not found".into()));
}

#[test]
fn pages_of_other_origins_read_nothing_of_a_private_listener() {
    let world = World::small(143);
    let allowed = |port: u16, method: &str| {
        let request = format!(
            "{method} /api/blocks/tip/height HTTP/1.1\r\nHost: x\r\nOrigin: https://example.org\r\n\
             Connection: close\r\n\r\n"
        );
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
        let answer = std::io::read_to_string(socket).unwrap().to_lowercase();
        (answer.split(' ').nth(1).unwrap().to_owned(), answer.contains("access-control-"))
    };
    for (method, status) in [("GET", "200"), ("OPTIONS", "204")] {
        assert_eq!(allowed(world.rest.port, method), (status.to_owned(), true), "{method}");
    }
    for (method, status) in [("GET", "200"), ("OPTIONS", "404")] {
        assert_eq!(allowed(world.rest.private_port, method), (status.to_owned(), false), "{method}");
    }
}
