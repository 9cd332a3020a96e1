//! A server beside a node that downloads the chain: whom it answers meanwhile, and how it says that its tip is old.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use birdhouse_testkit::client::Client;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::consensus::encode::serialize_hex;
use serde_json::{Value, json};

use crate::process::Birdhouse;

/// Blocks of the chain: more than the 1000 below which the answers are of a recent chain.
const BLOCKS: u32 = 1200;
/// Blocks that the node has when it pauses.
const PAUSED: u32 = 60;

fn tip(client: &mut Client) -> Result<Value, String> {
    client.call("blockchain.headers.subscribe", json!([])).map_err(|error| error.to_string())
}

/// Returns the port of the listener with the name `strangers`.
fn strangers_port(server: &Birdhouse) -> u16 {
    let log = server.log();
    let line = log.lines().find(|line| line.contains("Electrum") && line.contains("strangers")).unwrap();
    let (_, port) = line.split_once("addr=127.0.0.1:").unwrap();
    port.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns an answer to a GET request with its head.
pub(crate) fn whole_answer(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn own_clients_are_served_old_blocks_and_strangers_are_told_to_wait() {
    let mut chain = ChainBuilder::new(48);
    chain.mine(BLOCKS);
    let node = Bitcoind::start(Options::default().arg("-maxtipage=1")).unwrap();
    for block in &chain.blocks()[1..] {
        node.rpc("submitheader", json!([serialize_hex(&block.header)])).unwrap();
    }
    for (height, block) in (1..=PAUSED).zip(&chain.blocks()[1..]) {
        node.submit(height, block).unwrap();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let strangers = "[[listener]]\nname = 'strangers'\nkind = 'tcp'\naddr = '127.0.0.1:0'\nlimits = 'public'\n";
    std::fs::write(file.path(), strangers).unwrap();
    let envs = [
        ("BIRDHOUSE_CONFIG", file.path().to_str().unwrap()),
        ("BIRDHOUSE_REST_ADDR", "127.0.0.1:0"),
        ("BIRDHOUSE_HTTP_ADDR", "127.0.0.1:0"),
    ];
    let server = Birdhouse::start_with(&node, &envs);
    let said = format!("the node is downloading the chain, {PAUSED} of {BLOCKS} blocks: answers are of old blocks");

    server.until("says that the node downloads", || server.get("/health").body.contains(&said).then_some(()));
    let health = server.get("/health");
    assert_eq!(health.status, 503);
    let health: Value = serde_json::from_str(&health.body).unwrap();
    assert_eq!((&health["status"], &health["height"]), (&json!("node downloads"), &json!(PAUSED)));

    let mut own = server.client();
    assert_eq!(tip(&mut own).unwrap()["height"], PAUSED);
    assert!(own.call("server.banner", json!([])).unwrap().as_str().unwrap().ends_with(&format!("Note: {said}.")));
    let rest = server.port("serving the REST API").unwrap();
    let answer = whole_answer(rest, "/blocks/tip/height");
    assert!(answer.contains("\r\nbirdhouse-waiting: node downloads\r\n") && answer.ends_with("\r\n\r\n60"), "{answer}");
    let page = whole_answer(server.port("serving the explorer").unwrap(), "/");
    assert!(page.contains(&format!("Not today's chain: {said}.")), "{page}");

    let mut stranger = Client::greet(strangers_port(&server)).unwrap();
    let refused = tip(&mut stranger).unwrap_err();
    assert!(refused.contains("indexing, 5 %"), "{refused}");

    for (height, block) in (PAUSED + 1..).zip(&chain.blocks()[PAUSED as usize + 1..]) {
        node.submit(height, block).unwrap();
    }
    server.until("serves all", || (server.get("/health").status == 200).then_some(()));
    assert_eq!(tip(&mut stranger).unwrap()["height"], BLOCKS);
    assert_eq!(tip(&mut own).unwrap()["height"], BLOCKS);
    assert_eq!(own.call("server.banner", json!([])).unwrap().as_str().unwrap().find("Note"), None);
}
