//! Sparrow's requests when it opens, follows and refreshes a wallet, in its order and format.
//!
//! Sparrow finds the ids of an answer by searching for `"id": <digits>` in the text, expects the answer to a batch as
//! one array in one line, and waits for an answer before it sends more. After silence it gives a page up, sends halves
//! of it, and discards the answer to the whole page when it comes. A notification about a script that it does not know
//! is ignored. Source: Sparrow's `ElectrumServer.java`, `BatchedElectrumServerRpc.java`,
//! `PagedBatchRequestBuilder.java`, `TcpTransport.java`, `SubscriptionService.java` (2.5.4).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::ledger::{Ledger, ScriptFacts};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{ScriptBuf, Transaction};
use serde_json::{Value, json};

use crate::LiveWorld;

/// Sparrow's second read timeout. The first is 3 s; after one failure it starts with the second.
const READ_TIMEOUT: Duration = Duration::from_secs(8);
/// Additional time for each request of a batch.
const READ_TIMEOUT_EACH: Duration = Duration::from_millis(50);
/// Sparrow's `DEFAULT_PAGE_SIZE`.
const PAGE: usize = 100;
const GAP_LIMIT: usize = 20;

/// A connection, as Sparrow holds one.
struct Wire {
    stream: BufReader<TcpStream>,
    next_id: u64,
    /// Notifications received between answers.
    notifications: Vec<Value>,
    /// The ids of answers that nobody waited for any more.
    discarded: Vec<BTreeSet<u64>>,
}

impl Wire {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        Self { stream: BufReader::new(stream), next_id: 0, notifications: Vec::new(), discarded: Vec::new() }
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let (id, request) = self.request(method, params);
        self.send(&request);
        let text = self.answer(&BTreeSet::from([id]));
        result(serde_json::from_str(&text).unwrap())
    }

    /// Returns the answers in the order of the requests, sent page by page.
    fn batch(&mut self, method: &str, params: &[Value]) -> Vec<Value> {
        params.chunks(PAGE).flat_map(|page| self.page(method, page)).collect()
    }

    fn page(&mut self, method: &str, params: &[Value]) -> Vec<Value> {
        let sent = self.send_page(method, params);
        let text = self.answer(&sent.iter().copied().collect());
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

    /// Sends a page of requests; returns their ids.
    fn send_page(&mut self, method: &str, params: &[Value]) -> Vec<u64> {
        let (sent, requests): (Vec<u64>, Vec<Value>) = params.iter().map(|params| self.request(method, params)).unzip();
        self.send(&Value::Array(requests));
        sent
    }

    fn send(&mut self, message: &Value) {
        self.stream.get_mut().write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// Reads the answer to these ids. An object with a method is a notification and may arrive at any time.
    fn answer(&mut self, sent: &BTreeSet<u64>) -> String {
        let timeout = READ_TIMEOUT + READ_TIMEOUT_EACH * u32::try_from(sent.len()).unwrap();
        loop {
            let line = self.line(timeout);
            match notification(&line) {
                Some(notification) => self.notifications.push(notification),
                None if ids(&line) == *sent => return line,
                None => self.discarded.push(ids(&line)),
            }
        }
    }

    /// Reads on until an answer has come that nobody waits for.
    fn discards(&mut self) {
        while self.discarded.is_empty() {
            let line = self.line(READ_TIMEOUT);
            match notification(&line) {
                Some(notification) => self.notifications.push(notification),
                None => self.discarded.push(ids(&line)),
            }
        }
    }

    /// Returns the next notification.
    fn notified(&mut self) -> Value {
        if self.notifications.is_empty() {
            let line = self.line(READ_TIMEOUT);
            return notification(&line).unwrap();
        }
        self.notifications.remove(0)
    }

    fn line(&mut self, timeout: Duration) -> String {
        self.stream.get_ref().set_read_timeout(Some(timeout)).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line
    }
}

fn notification(line: &str) -> Option<Value> {
    let message: Value = serde_json::from_str(line).unwrap();
    message["method"].is_string().then_some(message)
}

fn result(mut answer: Value) -> Value {
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].take()
}

/// Returns the matches of Sparrow's pattern `"id"\s*:\s*(\d+)`.
fn ids(text: &str) -> BTreeSet<u64> {
    let found = text.split("\"id\"").skip(1).filter_map(|rest| {
        let digits = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    });
    found.collect()
}

/// Sparrow's state of one wallet.
pub(super) struct Sparrow {
    wire: Wire,
    /// Scripts of one key purpose, in the order of their derivation.
    scripts: Vec<ScriptBuf>,
    /// By script, up to the last subscribed one.
    statuses: Vec<Value>,
    histories: BTreeMap<usize, Value>,
    headers: BTreeMap<u64, Value>,
    txs: BTreeMap<String, Value>,
}

impl Sparrow {
    pub(super) fn open(port: u16, scripts: Vec<ScriptBuf>) -> Self {
        let (statuses, histories) = (Vec::new(), BTreeMap::new());
        Self { wire: Wire::connect(port), scripts, statuses, histories, headers: BTreeMap::new(), txs: BTreeMap::new() }
    }

    /// Greets the server, loads the wallet, and returns the ids of its transactions.
    pub(super) fn load_all(&mut self) -> BTreeSet<String> {
        self.wire.call("server.version", &json!(["Sparrow", ["1.3", "1.4.2"]]));
        self.load();
        self.txs.keys().cloned().collect()
    }

    /// Subscribes one gap limit after the other until the last one is unused, and fetches changed histories.
    fn load(&mut self) {
        while self.statuses.len() < self.gap_end() {
            let fresh = self.statuses.len()..self.gap_end();
            let hashes: Vec<Value> = fresh.clone().map(|index| self.hash(index)).collect();
            let statuses = self.wire.batch("blockchain.scripthash.subscribe", &hashes);
            self.statuses.extend(statuses);
            let used: Vec<usize> = fresh.filter(|index| !self.statuses[*index].is_null()).collect();
            self.fetch(&used);
        }
    }

    /// Fetches the histories of these scripts, and every unknown header and transaction in them.
    fn fetch(&mut self, indexes: &[usize]) {
        let hashes: Vec<Value> = indexes.iter().map(|index| self.hash(*index)).collect();
        let histories = self.wire.batch("blockchain.scripthash.get_history", &hashes);
        self.histories.extend(indexes.iter().copied().zip(histories));
        let entries = self.histories.values().flat_map(|history| history.as_array().unwrap());
        let (mut heights, mut txids) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            txids.insert(entry["tx_hash"].as_str().unwrap().to_owned());
            heights.extend(entry["height"].as_u64().filter(|height| *height > 0));
        }
        heights.retain(|height| !self.headers.contains_key(height));
        txids.retain(|txid| !self.txs.contains_key(txid));
        let wanted: Vec<Value> = heights.iter().map(|height| json!([height])).collect();
        self.headers.extend(heights.into_iter().zip(self.wire.batch("blockchain.block.header", &wanted)));
        let wanted: Vec<Value> = txids.iter().map(|txid| json!([txid])).collect();
        self.txs.extend(txids.into_iter().zip(self.wire.batch("blockchain.transaction.get", &wanted)));
    }

    /// Discards all state and fetches it again, as the published benchmark measures it.
    fn refresh(&mut self) {
        let used: Vec<usize> = self.histories.keys().copied().collect();
        (self.histories, self.headers, self.txs) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        self.fetch(&used);
    }

    /// Waits for notifications about this number of scripts, and fetches their histories.
    fn hears(&mut self, scripts: usize) {
        let mut notified = BTreeMap::new();
        while notified.len() < scripts {
            let notification = self.wire.notified();
            if notification["method"] == "blockchain.scripthash.subscribe" {
                let [hash, status] = [0, 1].map(|index| notification["params"][index].clone());
                let index = (0..self.statuses.len()).find(|index| self.hash(*index)[0] == hash).unwrap();
                notified.insert(index, status);
            }
        }
        let changed: Vec<usize> = notified.keys().copied().collect();
        for (index, status) in notified {
            self.statuses[index] = status;
        }
        self.fetch(&changed);
    }

    fn gap_end(&self) -> usize {
        let used = self.statuses.iter().rposition(|status| !status.is_null()).map_or(0, |last| last + 1);
        (used + GAP_LIMIT).min(self.scripts.len())
    }

    fn hash(&self, index: usize) -> Value {
        json!([scripthash(self.scripts[index].as_bytes())])
    }

    /// Compares the whole state with the chain.
    fn assert_right(&self, ledger: &Ledger) {
        let facts = ledger.scripts();
        let unused = ScriptFacts::default();
        for (index, script) in self.scripts.iter().enumerate() {
            let facts = facts.get(script).unwrap_or(&unused);
            if index < self.statuses.len() {
                assert_eq!(self.statuses[index], facts.status(), "script {index}");
            }
            let known = self.histories.get(&index).cloned().unwrap_or_else(|| json!([]));
            assert_eq!(known, facts.history(), "script {index}");
        }
        let txs = ledger.mempool().values().map(|waiting| &waiting.tx);
        let txs = txs.chain(ledger.chain().iter().flat_map(|mined| &mined.block.txdata));
        let raw: BTreeMap<String, Value> =
            txs.map(|tx: &Transaction| (tx.compute_txid().to_string(), json!(serialize_hex(tx)))).collect();
        let header =
            |height: &u64| json!(serialize_hex(&ledger.chain()[usize::try_from(*height).unwrap()].block.header));
        assert!(self.headers.iter().all(|(height, known)| *known == header(height)));
        assert!(self.txs.iter().all(|(txid, known)| raw.get(txid) == Some(known)));
    }
}

/// The last used script of the wallet.
const LAST: usize = 180;
/// Payments that are not confirmed when the wallet is opened.
const UNCONFIRMED: usize = 5;

#[test]
fn sparrow_opens_a_wallet_watches_it_and_refreshes_it() {
    let mut world = LiveWorld::start(54);
    let scripts: Vec<ScriptBuf> =
        (0..250).map(|number| world.live.wallet().script_pubkey(Lock::new(Form::P2wpkh, 500_000 + number))).collect();
    pays(&mut world, &scripts);
    world.settle();

    let mut sparrow = Sparrow::open(world.server.port(), scripts.clone());
    greets(&mut sparrow.wire, world.live.ledger());
    sparrow.load();
    assert_eq!(sparrow.statuses.len(), LAST + 1 + GAP_LIMIT);
    sparrow.assert_right(world.live.ledger());
    assert!(sparrow.histories.len() > PAGE && sparrow.txs.len() > PAGE, "more than a page of each");

    world.pay(&scripts[LAST + 1], 70_000);
    sparrow.hears(1);
    sparrow.load();
    sparrow.assert_right(world.live.ledger());
    world.live.mine().unwrap();
    sparrow.hears(UNCONFIRMED + 1);
    sparrow.assert_right(world.live.ledger());

    sparrow.refresh();
    sparrow.assert_right(world.live.ledger());
    views_a_transaction(&mut sparrow.wire, world.live.ledger());
    let hashes: Vec<Value> = (0..sparrow.statuses.len()).map(|index| sparrow.hash(index)).collect();
    let unsubscribed = sparrow.wire.batch("blockchain.scripthash.unsubscribe", &hashes);
    assert!(unsubscribed.iter().all(|answer| *answer == json!(true)), "{unsubscribed:?}");
    assert!(sparrow.wire.discarded.is_empty(), "{:?}", sparrow.wire.discarded);

    // Nothing is said of a script without a subscription, though the block, which still has one, tells of its payment.
    sparrow.wire.notifications.clear();
    world.pay(&scripts[0], 30_000);
    world.live.mine().unwrap();
    let height = world.live.ledger().height();
    loop {
        let heard = sparrow.wire.notified();
        assert_eq!(heard["method"], "blockchain.headers.subscribe", "{heard}");
        if heard["params"][0]["height"] == json!(height) {
            break;
        }
    }
    assert!(sparrow.wire.call("server.ping", &json!([])).is_null());
    assert_eq!(sparrow.wire.notifications, Vec::<Value>::new());
}

#[test]
fn halves_of_a_page_that_was_given_up_are_answered_beside_the_whole_page() {
    let mut world = LiveWorld::start(55);
    let scripts: Vec<ScriptBuf> =
        (0..100).map(|number| world.live.wallet().script_pubkey(Lock::new(Form::P2wpkh, 600_000 + number))).collect();
    for script in &scripts[..20] {
        world.pay(script, 40_000);
    }
    world.settle();
    let hashes: Vec<Value> = scripts.iter().map(|script| json!([scripthash(script.as_bytes())])).collect();
    let mut wire = Wire::connect(world.server.port());
    greets(&mut wire, world.live.ledger());
    let method = "blockchain.scripthash.subscribe";
    let given_up: BTreeSet<u64> = wire.send_page(method, &hashes).into_iter().collect();
    let statuses: Vec<Value> = hashes.chunks(PAGE / 2).flat_map(|half| wire.page(method, half)).collect();
    let facts = world.live.ledger().scripts();
    let unused = ScriptFacts::default();
    for (script, status) in scripts.iter().zip(statuses) {
        assert_eq!(status, facts.get(script).unwrap_or(&unused).status());
    }
    // The whole page may be answered behind its halves.
    wire.discards();
    assert_eq!(wire.discarded, [given_up], "the whole page is answered once, in one line");
}

/// Every seventh script stays unused, and some are paid twice in a transaction.
fn pays(world: &mut LiveWorld, scripts: &[ScriptBuf]) {
    let used: Vec<&ScriptBuf> = (0..=LAST).filter(|index| index % 7 != 3).map(|index| &scripts[index]).collect();
    let (confirmed, unconfirmed) = used.split_at(used.len() - UNCONFIRMED);
    for some in confirmed.chunks(30) {
        for script in some {
            let sats: &[u64] = if script.as_bytes()[5].is_multiple_of(4) { &[60_000, 1000] } else { &[50_000] };
            let payments: Vec<Payment> = sats.iter().map(|sat| Payment::to_script((*script).clone(), *sat)).collect();
            world.live.pay(&payments).unwrap();
        }
        world.live.mine().unwrap();
    }
    for script in unconfirmed {
        world.pay(script, 40_000);
    }
}

fn greets(sparrow: &mut Wire, ledger: &Ledger) {
    let tip = ledger.chain().last().unwrap();
    let version = sparrow.call("server.version", &json!(["Sparrow", ["1.3", "1.4.2"]]));
    let name = version[0].as_str().unwrap().to_lowercase();
    assert!(name.contains("electrumx"), "{name}: Sparrow would send no batches");
    assert!(["1.4", "1.4.1", "1.4.2"].contains(&version[1].as_str().unwrap()), "{version}");
    let features = sparrow.call("server.features", &json!([]));
    assert_eq!(features["genesis_hash"], json!(ledger.chain()[0].hash));
    let subscribed = sparrow.call("blockchain.headers.subscribe", &json!([]));
    assert_eq!(subscribed, json!({ "height": ledger.height(), "hex": serialize_hex(&tip.block.header) }));
    assert!(sparrow.call("server.banner", &json!([])).is_string());
    let targets = [1, 2, 3, 4, 5, 10, 25, 50].map(|blocks| json!([blocks]));
    let fees = sparrow.batch("blockchain.estimatefee", &targets);
    assert!(fees.len() == targets.len() && fees.iter().all(Value::is_number), "{fees:?}");
    assert!(sparrow.call("mempool.get_fee_histogram", &json!([])).is_array());
    assert!(sparrow.call("blockchain.relayfee", &json!([])).is_number());
    assert!(sparrow.call("server.ping", &json!([])).is_null());
}

/// The fields that Sparrow's transaction view reads.
fn views_a_transaction(sparrow: &mut Wire, ledger: &Ledger) {
    let height = ledger.chain().iter().rposition(|mined| mined.txids.len() > 1).unwrap();
    let mined = &ledger.chain()[height];
    let (txid, tx) = (mined.txids[1], &mined.block.txdata[1]);
    let verbose = sparrow.call("blockchain.transaction.get", &json!([txid, true]));
    let expected = json!({
        "blockhash": mined.hash, "blocktime": mined.block.header.time,
        "confirmations": ledger.chain().len() - height, "hash": tx.compute_wtxid(), "hex": serialize_hex(tx),
        "locktime": 0, "size": tx.total_size(), "txid": txid, "version": 2,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(verbose[field], *value, "{field}");
    }
}
