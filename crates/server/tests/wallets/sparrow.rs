//! What Sparrow sends when it opens a wallet and when it refreshes one, in its order and its form.
//!
//! It finds the ids of an answer by looking for `"id": <digits>` in the text, wants a batch back as one array in one
//! line, and never has two messages in flight. Source: Sparrow's `ElectrumServer.java`, `BatchedElectrumServerRpc.java`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use birdhouse_testkit::client::scripthash;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hex::DisplayHex as _;
use serde_json::{Value, json};

use crate::World;
use crate::facts::{Facts, scripts};

/// Sparrow's first timeout for reading, and what it grants each request of a batch on top.
const READ_TIMEOUT: Duration = Duration::from_secs(8);
/// Sparrow's `DEFAULT_PAGE_SIZE`.
const PAGE: usize = 100;

struct Sparrow {
    stream: BufReader<TcpStream>,
    next_id: u64,
}

impl Sparrow {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        Self { stream: BufReader::new(stream), next_id: 0 }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let (id, request) = self.request(method, params);
        let text = self.exchange(&request);
        assert_eq!(ids(&text), BTreeSet::from([id]));
        result(serde_json::from_str(&text).unwrap())
    }

    /// Answers in the order of the requests, page by page.
    fn batch(&mut self, method: &str, params: &[Value]) -> Vec<Value> {
        params.chunks(PAGE).flat_map(|page| self.page(method, page)).collect()
    }

    fn page(&mut self, method: &str, params: &[Value]) -> Vec<Value> {
        let (sent, requests): (Vec<u64>, Vec<Value>) = params.iter().map(|params| self.request(method, params)).unzip();
        let text = self.exchange(&Value::Array(requests));
        assert_eq!(ids(&text), sent.iter().copied().collect());
        let answers: Vec<Value> = serde_json::from_str(&text).unwrap();
        let mut by_id: BTreeMap<u64, Value> =
            answers.into_iter().map(|answer| (answer["id"].as_u64().unwrap(), result(answer))).collect();
        sent.iter().map(|id| by_id.remove(id).unwrap()).collect()
    }

    fn request(&mut self, method: &str, params: &Value) -> (u64, Value) {
        let id = self.next_id;
        self.next_id += 1;
        (id, json!({ "jsonrpc": "2.0", "method": method, "params": params, "id": id }))
    }

    fn exchange(&mut self, message: &Value) -> String {
        self.stream.get_mut().write_all(format!("{message}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }
}

fn result(mut answer: Value) -> Value {
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].take()
}

/// What Sparrow's `"id"\s*:\s*(\d+)` finds.
fn ids(text: &str) -> BTreeSet<u64> {
    let found = text.split("\"id\"").skip(1).filter_map(|rest| {
        let digits = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    });
    found.collect()
}

#[test]
fn sparrow_opens_and_refreshes_a_wallet() {
    let world = World::sample();
    let mut sparrow = Sparrow::connect(world.server.port());
    greets(&mut sparrow, &world);
    loads_and_refreshes(&mut sparrow, &world);
}

fn greets(sparrow: &mut Sparrow, world: &World) {
    let tip = world.chain.blocks().last().unwrap();
    let version = sparrow.call("server.version", &json!(["Sparrow", ["1.3", "1.4.2"]]));
    let name = version[0].as_str().unwrap().to_lowercase();
    assert!(name.contains("electrumx"), "{name}: Sparrow would send no batches");
    assert!(["1.4", "1.4.1", "1.4.2"].contains(&version[1].as_str().unwrap()), "{version}");
    let features = sparrow.call("server.features", &json!([]));
    assert_eq!(features["genesis_hash"], json!(world.chain.blocks()[0].block_hash()));
    let subscribed = sparrow.call("blockchain.headers.subscribe", &json!([]));
    assert_eq!(subscribed, json!({ "height": world.chain.height(), "hex": serialize_hex(&tip.header) }));
    assert!(sparrow.call("server.banner", &json!([])).is_string());
    let targets = [1, 2, 3, 4, 5, 10, 25, 50].map(|blocks| json!([blocks]));
    let fees = sparrow.batch("blockchain.estimatefee", &targets);
    assert!(fees.len() == targets.len() && fees.iter().all(Value::is_number), "{fees:?}");
    assert!(sparrow.call("mempool.get_fee_histogram", &json!([])).is_array());
    assert!(sparrow.call("blockchain.relayfee", &json!([])).is_number());
    assert!(sparrow.call("server.ping", &json!([])).is_null());
}

fn loads_and_refreshes(sparrow: &mut Sparrow, world: &World) {
    let blocks = world.chain.blocks();
    let scripts = scripts(&world.chain);
    let facts: Vec<Facts> = scripts.iter().map(|script| Facts::of(&world.chain, script)).collect();
    let hashes: Vec<Value> = scripts.iter().map(|script| json!([scripthash(script.as_bytes())])).collect();

    let statuses = sparrow.batch("blockchain.scripthash.subscribe", &hashes);
    let expected: Vec<Value> =
        facts.iter().map(|facts| json!(facts.status().map(|status| status.to_lower_hex_string()))).collect();
    assert_eq!(statuses, expected);

    let histories = sparrow.batch("blockchain.scripthash.get_history", &hashes);
    let mut txs = BTreeMap::new();
    for (history, facts) in histories.iter().zip(&facts) {
        let entry = |(txid, height)| json!({ "tx_hash": txid, "height": height });
        assert_eq!(*history, facts.history.iter().copied().map(entry).collect::<Value>());
        txs.extend(facts.history.iter().copied());
    }
    assert!(txs.len() > PAGE, "more than a page of transactions");

    let heights: BTreeSet<usize> = txs.values().copied().collect();
    let wanted: Vec<Value> = heights.iter().map(|height| json!([height])).collect();
    let headers = sparrow.batch("blockchain.block.header", &wanted);
    assert!(
        headers.iter().eq(heights
            .iter()
            .map(|height| json!(serialize_hex(&blocks[*height].header)))
            .collect::<Vec<_>>()
            .iter())
    );

    let wanted: Vec<Value> = txs.keys().map(|txid| json!([txid])).collect();
    let raw = sparrow.batch("blockchain.transaction.get", &wanted);
    for ((txid, height), raw) in txs.iter().zip(&raw) {
        let tx = blocks[*height].txdata.iter().find(|tx| tx.compute_txid() == *txid).unwrap();
        assert_eq!(*raw, json!(serialize_hex(tx)));
    }
    views_a_transaction(sparrow, world, &txs);
    let unsubscribed = sparrow.batch("blockchain.scripthash.unsubscribe", &hashes);
    assert!(unsubscribed.iter().all(|answer| *answer == json!(true)), "{unsubscribed:?}");
}

/// The fields that Sparrow's transaction view reads.
fn views_a_transaction(sparrow: &mut Sparrow, world: &World, txs: &BTreeMap<bitcoin::Txid, usize>) {
    let (txid, height) = txs.first_key_value().unwrap();
    let block = &world.chain.blocks()[*height];
    let tx = block.txdata.iter().find(|tx| tx.compute_txid() == *txid).unwrap();
    let verbose = sparrow.call("blockchain.transaction.get", &json!([txid, true]));
    let expected = json!({
        "blockhash": block.block_hash(), "blocktime": block.header.time,
        "confirmations": world.chain.blocks().len() - height, "hash": tx.compute_wtxid(), "hex": serialize_hex(tx),
        "locktime": 0, "size": tx.total_size(), "txid": txid, "version": 2,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(verbose[field], *value, "{field}");
    }
}
