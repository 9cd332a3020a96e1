//! Headers, the search, bad input, and an index that is being built.

use std::sync::Arc;

use birdhouse_esplora::Limits;
use birdhouse_node::{Auth, CoreNode, Rpc};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, Options};
use bitcoin::Address;
use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::hex::DisplayHex as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::pages::{Places, places};
use crate::world::{Rest, World};

#[test]
fn every_page_has_strict_headers_and_no_address_of_another_host() {
    let mut world = World::small(111);
    let places = places(&mut world);
    let gets = places.all().into_iter().map(|(_, path)| path.split('\n').next().unwrap().to_owned());
    for path in gets.chain(["/style.css".into(), "/nothing".into()]) {
        let got = world.rest.get(&path);
        let policy = got.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(got.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(got.header("access-control-allow-origin"), "", "{path}");
        assert!(!got.header("cache-control").contains("public") || path == "/style.css", "{path}");
        let text = got.text().replace("http://www.w3.org/2000/svg", "");
        for other in ["http:", "https:", "src=\"//", "href=\"//", " style=\"", " onclick"] {
            assert!(!text.contains(other), "{path} has {other}");
        }
        assert_eq!(got.header("set-cookie"), "", "{path}");
    }
    // A page that has not changed is not sent again.
    let path = format!("/tx/{}", places.txid);
    let etag = world.rest.get(&path).header("etag").to_owned();
    assert_eq!(world.rest.get_with(&path, &[("if-none-match", &etag)]).status, 304);
    // The API is beside the pages, under its own rules.
    let tip = world.rest.get("/api/blocks/tip/height");
    assert_eq!((tip.status, tip.header("access-control-allow-origin")), (200, "*"));
    assert_eq!(world.rest.get("/api/nothing").header("content-type"), "text/plain");
    assert_eq!(world.rest.get("/blocks/tip/height").status, 404);
}

#[test]
fn the_search_leads_to_whatever_a_text_names() {
    let mut world = World::small(112);
    let Places { txid, busy, address, .. } = places(&mut world);
    let hash = world.live.ledger().chain()[2].hash;
    let script = sha256::Hash::hash(busy.as_bytes()).to_byte_array();
    let (digits, mut backwards) = (script.to_lower_hex_string(), script);
    backwards.reverse();
    for (text, path) in [
        ("2".to_owned(), format!("/block/{hash}")),
        (hash.to_string(), format!("/block/{hash}")),
        (txid.to_string().to_uppercase(), format!("/tx/{txid}")),
        (format!("  {address} "), format!("/address/{address}")),
        (format!("bitcoin:{address}?amount=1"), format!("/address/{address}")),
        (digits.clone(), format!("/scripthash/{digits}")),
        (backwards.to_lower_hex_string(), format!("/scripthash/{digits}")),
        (String::new(), "/".to_owned()),
    ] {
        let got = world.rest.post("/search", &format!("q={}", text.replace(' ', "+")));
        assert_eq!((got.status, got.header("location")), (303, path.as_str()), "{text}: {}", got.text());
        assert_eq!(world.rest.get(&path).status, 200, "{path}");
    }
    for (text, status) in [
        ("4000000000".to_owned(), 404),
        ("00".repeat(32), 404),
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4".to_owned(), 400),
        ("what is this".to_owned(), 400),
    ] {
        let got = world.rest.post("/search", &format!("q={text}"));
        assert_eq!((got.status, got.header("content-type")), (status, "text/html; charset=utf-8"), "{text}");
    }
}

/// The point of BIP 340's first test vector: x-only, compressed and uncompressed.
const KEY: &str = "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9";
const KEY_Y: &str = "388f7b0f632de8140fe337e62a37f3566500a99934c2231b6cb9fd7584b8e672";

#[test]
fn the_search_knows_outpoints_scripts_and_public_keys() {
    let mut world = World::small(114);
    let places = places(&mut world);
    let [replaced, _] = places.versions;
    let mined = world.live.ledger().chain().last().unwrap().hash;
    let decoded = world.live.node().rpc("getrawtransaction", json!([places.txid, 1, mined])).unwrap();
    let outputs = decoded["vout"].as_array().unwrap().len();
    let address = places.address.parse::<Address<_>>().unwrap().assume_checked();
    for (text, path) in [
        (format!("{}:1", places.txid), format!("/tx/{}#output-1", places.txid)),
        (replaced.to_string(), format!("/tx/{replaced}")),
        (format!("{replaced}:0"), format!("/tx/{replaced}#output-0")),
        (address.script_pubkey().to_hex_string(), format!("/address/{address}")),
    ] {
        let got = world.rest.post("/search", &format!("q={text}"));
        assert_eq!((got.status, got.header("location")), (303, path.as_str()), "{text}: {}", got.text());
    }
    for text in [format!("{}:{outputs}", places.txid), format!("{}:0", "ab".repeat(32))] {
        assert_eq!(world.rest.post("/search", &format!("q={text}")).status, 404, "{text}");
    }
    // A script without an address leads to its hash.
    let got = world.rest.post("/search", "q=6a0568656c6c6f");
    let hash = sha256::Hash::hash(&[0x6a, 5, b'h', b'e', b'l', b'l', b'o']).to_byte_array().to_lower_hex_string();
    assert_eq!(got.header("location"), format!("/scripthash/{hash}"));
    // Nobody has paid the key. An x-only one may be any hash, so it is named only once it is used.
    assert_eq!(world.rest.post("/search", &format!("q={KEY}")).status, 404);
    let core = |line: String| -> Vec<String> {
        let info = world.live.node().rpc("getdescriptorinfo", json!([line])).unwrap();
        let derived = world.live.node().rpc("deriveaddresses", json!([info["descriptor"]])).unwrap();
        serde_json::from_value(derived).unwrap()
    };
    let (compressed, uncompressed) = (format!("02{KEY}"), format!("04{KEY}{KEY_Y}"));
    let of_compressed =
        [core(format!("combo({compressed})")), core(format!("tr({KEY})")), core(format!("rawtr({KEY})"))].concat();
    for (key, addresses) in
        [(compressed, of_compressed.clone()), (uncompressed.clone(), core(format!("combo({uncompressed})")))]
    {
        let got = world.rest.post("/search", &format!("q={key}"));
        assert_eq!(got.status, 200, "{key}: {}", got.text());
        for address in addresses {
            assert!(got.text().contains(&address), "{key}: {address}");
        }
    }
    let script = of_compressed[0].parse::<Address<_>>().unwrap().assume_checked().script_pubkey();
    world.live.pay(&[Payment::to_script(script, 30_000)]).unwrap();
    world.sync();
    let got = world.rest.post("/search", &format!("q={KEY}"));
    assert!(got.status == 200 && got.text().contains(&of_compressed[0]), "{}", got.text());
}

#[test]
fn an_index_that_is_being_built_says_how_far_it_is() {
    let node = Bitcoind::start(Options::default()).unwrap();
    let rest = Rest::start(&node, Limits::default());
    for path in ["/", "/status", "/block/0"] {
        let got = rest.get(path);
        assert_eq!((got.status, got.header("retry-after")), (503, "10"), "{path}");
        assert!(got.text().contains("<progress") && got.text().contains("indexing, 0 %."), "{}", got.text());
    }
    rest.build();
    assert_eq!(rest.get("/").status, 200);
}

/// The path to which a link of a page leads ([RFC 3986](https://www.rfc-editor.org/rfc/rfc3986#section-5.2.4)).
fn resolved(page: &str, link: &str) -> String {
    assert!(!link.starts_with('/'), "{page}: {link}");
    let mut parts: Vec<&str> = page.split(['?', '#']).next().unwrap().split('/').collect();
    parts.pop();
    for part in link.split(['?', '#']).next().unwrap().split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn behind_a_prefix_all_links_stay_below_it() {
    let mut world = World::small(115);
    let places = places(&mut world);
    let agent = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build().new_agent();
    let mut links = std::collections::BTreeSet::new();
    for (_, path) in places.all() {
        let path = path.split('\n').next().unwrap().to_owned();
        let mut response = agent.get(format!("{}{path}", world.rest.url())).call().unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        // A proxy that serves the explorer below this path takes it off.
        let outside = format!("/some/birdhouse{path}");
        for name in [" href=\"", " action=\"", " formaction=\"", " src=\"", " data-live=\""] {
            for link in text.split(name).skip(1).filter_map(|part| part.split('"').next()) {
                if !link.starts_with('#') {
                    links.insert(resolved(&outside, link));
                }
            }
        }
    }
    assert!(links.len() > 50, "{links:?}");
    for link in links {
        let path = link.strip_prefix("/some/birdhouse/").unwrap_or_else(|| panic!("{link}"));
        if path.starts_with("api/events") || path == "search" {
            continue;
        }
        assert_ne!(world.rest.get(&format!("/{path}")).status, 404, "{link}");
    }
    // The REST API is described on a page, and to programs by a document that names the way to itself.
    assert!(world.rest.get("/").text().contains("<a href=\"/rest\">"));
    let described = world.rest.get("/rest").text();
    assert!(described.contains("/api/tx/{txid}") && described.contains("href=\"/api/openapi.json\""), "{described}");
    let document: Value = serde_json::from_str(&world.rest.get("/api/openapi.json").text()).unwrap();
    let server = resolved("/some/birdhouse/api/openapi.json", document["servers"][0]["url"].as_str().unwrap());
    let api = server.strip_prefix("/some/birdhouse").unwrap_or_else(|| panic!("{server}"));
    assert_eq!(world.rest.get(&format!("{api}/blocks/tip/height")).status, 200);
    let sent = agent.post(format!("{}/search", world.rest.url())).send("q=2").unwrap();
    let hash = world.live.ledger().chain()[2].hash;
    assert_eq!(sent.headers()["location"].to_str().unwrap(), format!("./block/{hash}"));
}

#[test]
fn pages_say_that_the_index_does_not_follow_its_node() {
    let world = World::small(116);
    assert!(!world.rest.get("/blocks").text().contains("may be out of date"));
    // A node with another, shorter chain, as after its data were removed.
    let other = Bitcoind::start(Options::default()).unwrap();
    let info = other.rpc("getblockchaininfo", json!([])).unwrap();
    assert_eq!(info["blocks"], json!(0));
    let rpc = Rpc::new(&format!("127.0.0.1:{}", other.rpc_port()), Auth::Cookie(other.cookie()));
    drop(world.rest.index.sync(&CoreNode::new(Arc::new(rpc))));
    let height = world.live.ledger().height();
    for path in ["/", "/blocks", "/status", "/tx/00"] {
        let page = world.rest.get(path).text();
        assert!(page.contains("These pages may be out of date"), "{path}: {page}");
    }
    assert!(world.rest.get("/").text().contains(&format!(">{height}<")));
}

/// First parts of paths, and names in queries.
const NAMES: [&str; 10] =
    ["block", "blocks", "tx", "address", "scripthash", "status", "addresses", "push", "search", "style.css"];
const QUERIES: [&str; 7] = ["start", "inputs", "outputs", "before", "after", "balance", "oldest"];

#[test]
fn any_parameter_gets_a_page_with_the_right_status() {
    let world = World::small(113);
    let part = || {
        prop_oneof![
            3 => Just(String::new()),
            2 => any::<u64>().prop_map(|number| number.to_string()),
            2 => (0_u32..200).prop_map(|number| number.to_string()),
            2 => any::<[u8; 32]>().prop_map(|bytes| bytes.to_lower_hex_string()),
            1 => Just("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080".to_owned()),
            3 => "[a-zA-Z0-9%+.<>\"'&~_-]{0,40}".prop_map(|text| text.replace(['<', '>', '"'], "%3C")),
        ]
    };
    let request = (
        proptest::sample::select(&NAMES[..]),
        part(),
        proptest::sample::select(&["", "/unspent", "/history.csv", "/spender/0"][..]),
        proptest::sample::select(&QUERIES[..]),
        part(),
    );
    let config = Config { cases: 600, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&request, |(name, part, sub, query, value)| {
            let path = format!("/{name}/{part}{sub}?{query}={value}");
            let got = world.rest.get(&path);
            prop_assert!(matches!(got.status, 200 | 303 | 400 | 404), "{}: {} {}", path, got.status, got.text());
            prop_assert!(got.status == 200 || got.status == 303 || got.text().contains("<h1>"), "{}", path);
            let body = format!("q={value}{part}&after={part}&tx={value}");
            for path in ["/search", "/addresses", "/push"] {
                let got = world.rest.post(path, &body);
                prop_assert!(
                    matches!(got.status, 200 | 303 | 400 | 404),
                    "{} {}: {} {}",
                    path,
                    body,
                    got.status,
                    got.text()
                );
            }
            Ok(())
        })
        .unwrap();
}
