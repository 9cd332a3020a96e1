//! A server beside a pruned node: what real clients ask for comes from the index, or from the node's peers.

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::http_client::rest_path;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use bitcoin::consensus::encode::{serialize, serialize_hex};
use bitcoin::{Amount, Block, OutPoint, Script, Transaction, TxOut, Txid};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::{Birdhouse, PATIENCE};

/// Blocks of the chain. With `-fastprune` a block file has 64 KiB, so they fill several.
const BLOCKS: u32 = 700;
/// Height up to which blocks are removed.
const PRUNED: u32 = 400;

/// An answer by HTTP.
struct Page {
    status: u16,
    head: String,
    body: Vec<u8>,
}

struct World {
    chain: ChainBuilder,
    node: Bitcoind,
    /// Lives as long as the world.
    _peer: Bitcoind,
    peer_port: u16,
    /// The height from which the node has blocks.
    first_kept: u32,
    server: Birdhouse,
}

impl World {
    /// Starts a server beside a synced node, which then removes old blocks.
    fn new(seed: u64) -> Self {
        Self::with(seed, &[])
    }

    fn with(seed: u64, envs: &[(&str, &str)]) -> Self {
        let mut world = Self::whole(seed, envs);
        world.prune();
        world
    }

    /// Starts a server beside a synced node that still has all blocks.
    fn whole(seed: u64, envs: &[(&str, &str)]) -> Self {
        let mut chain = ChainBuilder::new(seed);
        mix::mature(&mut chain);
        while chain.height() < BLOCKS {
            mix::random_traffic(&mut chain, 8, 6);
            chain.mine(1);
        }
        let peer_port = free_port().unwrap();
        let node = Bitcoind::start(Options::default().arg("-prune=1").arg("-fastprune")).unwrap();
        let bind = format!("-bind=127.0.0.1:{peer_port}");
        let peer = Bitcoind::start(Options::default().arg("-listen=1").arg(bind)).unwrap();
        chain.submit_to(&node).unwrap();
        chain.submit_to(&peer).unwrap();
        let server = Birdhouse::start_with(&node, &[&[("BIRDHOUSE_REST_ADDR", "127.0.0.1:0")], envs].concat());
        // It answers before its build has ended, which needs the blocks.
        server.until("is built", || (server.get("/health").status == 200).then_some(()));
        Self { chain, node, _peer: peer, peer_port, first_kept: 0, server }
    }

    /// Lets the node remove old blocks.
    fn prune(&mut self) {
        self.first_kept = self.node.prune(PRUNED).unwrap();
        assert!(self.first_kept > 200);
    }

    fn connect(&self) {
        self.node.meet(self.peer_port).unwrap();
    }

    /// The last transactions of removed blocks, with their blocks.
    fn removed(&self) -> impl Iterator<Item = (&Block, &Transaction)> {
        let removed = &self.chain.blocks()[110..self.first_kept as usize - 1];
        removed.iter().map(|block| (block, block.txdata.last().unwrap()))
    }

    /// Returns status, head and body of REST's answer.
    fn rest(&self, path: &str) -> (u16, String, String) {
        let Page { status, head, body } = self.page("serving the REST API", &format!("GET {path}"), "");
        (status, head, String::from_utf8(body).unwrap())
    }

    /// Asks a listener by HTTP/1.0, which has no chunks.
    fn page(&self, listener: &str, asked: &str, body: &str) -> Page {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port(listener).unwrap())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let form = "Content-Type: application/x-www-form-urlencoded";
        write!(stream, "{asked} HTTP/1.0\r\nHost: localhost\r\n{form}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            .unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        Page { status, head, body: bytes.split_off(end + 4) }
    }

    /// The transactions of the chain that pay a script or spend from it.
    fn history(&self, script: &Script) -> Vec<&Transaction> {
        let mut own = HashSet::new();
        let transactions = self.chain.blocks().iter().flat_map(|block| &block.txdata);
        let in_history = |transaction: &&Transaction| {
            let txid = transaction.compute_txid();
            let paid = (0..).zip(&transaction.output).filter(|(_, output)| *output.script_pubkey == *script);
            let paid: Vec<OutPoint> = paid.map(|(vout, _)| OutPoint { txid, vout }).collect();
            let is_spender = transaction.input.iter().any(|input| own.contains(&input.previous_output));
            let is_payer = !paid.is_empty();
            own.extend(paid);
            is_spender || is_payer
        };
        transactions.filter(in_history).collect()
    }
}

#[test]
fn a_running_server_says_that_the_node_has_deleted_the_next_block_and_goes_on_once_it_is_back() {
    let mut world = World::new(482);
    let indexed = world.chain.height();
    world.server.signal(Signal::SIGSTOP);
    while world.chain.height() < indexed + 500 {
        mix::random_traffic(&mut world.chain, 8, 6);
        world.chain.mine(1);
    }
    world.chain.submit_to(&world.node).unwrap();
    // As an automatic target would have it.
    let first = world.node.prune(indexed + 400).unwrap();
    assert!(first > indexed + 1, "{first}");
    world.server.signal(Signal::SIGCONT);

    let lost = format!("has lost block {} and all others below {first}", indexed + 1);
    let health = |server: &Birdhouse| serde_json::from_str::<Value>(&server.get("/health").body).unwrap();
    let said = world.server.until("says what is lost", || {
        Some(health(&world.server)).filter(|health| health["status"] == "node lacks blocks")
    });
    assert_eq!(said["height"], indexed);
    let reason = said["reason"].as_str().unwrap();
    assert!(reason.contains(&lost) && reason.contains("-reindex"), "{said}");
    let banner = world.server.client().call("server.banner", json!([])).unwrap().to_string();
    assert!(banner.contains(&lost), "{banner}");
    let page = world.server.get("/").body;
    assert!(page.contains(&lost) && page.contains("Do what the message says"), "{page}");
    assert!(!world.server.log().contains("the node cannot answer"), "{}", world.server.log());

    // It is started anew, and downloads the chain again.
    world.node.restart_once_with("-reindex").unwrap();
    world.chain.submit_to(&world.node).unwrap();
    world.server.until("goes on", || (health(&world.server)["height"] == world.chain.height()).then_some(()));
    world.server.until("is well", || (world.server.get("/health").status == 200).then_some(()));
}

#[test]
fn a_derived_index_whose_blocks_are_gone_holds_no_deletion_back() {
    let mut world = World::new(484);
    world.server.ctl_json(&["stop"]);
    assert!(world.server.wait().0.success());
    let settings = [
        ("BIRDHOUSE_BLOCK_FILTERS", "on"),
        ("BIRDHOUSE_REST_ADDR", "127.0.0.1:0"),
        ("BIRDHOUSE_NODE_PRUNE_KEEP", "100KB"),
        ("BIRDHOUSE_NODE_PRUNE_MARGIN", "288"),
        ("BIRDHOUSE_NODE_PRUNE_STEP", "66000"),
    ];
    world.server = Birdhouse::start_in(world.server.dir(), &world.node, &settings);
    while world.chain.height() < BLOCKS + 200 {
        mix::random_traffic(&mut world.chain, 8, 6);
        world.chain.mine(1);
    }
    world.chain.submit_to(&world.node).unwrap();
    world.server.until("deletes blocks", || (world.node.first_kept().unwrap() > world.first_kept).then_some(()));
    let derived = &world.server.ctl_json(&["status"])["derived"][0];
    assert!(derived["blocks"] == 0 && derived["failure"].is_string(), "{derived}");
}

#[test]
fn a_derived_index_is_not_removed_where_the_node_has_no_blocks_to_make_it_again() {
    let mut world = World::with(485, &[("BIRDHOUSE_SILENT_PAYMENTS", "full")]);
    world.server.until("has all tweaks", || {
        (world.server.ctl_json(&["status"])["derived"][0]["blocks"] == BLOCKS + 1).then_some(())
    });
    world.server.ctl_json(&["stop"]);
    assert!(world.server.wait().0.success());
    let (done, said) = world.server.run("index", &["--silent-payments=scan"]);
    assert!(!done && said.contains(&format!("lost those below {}", world.first_kept)), "{said}");
    assert!(world.server.dir().join("regtest/silent-payments/arrays/silent-output").exists());
    assert!(world.server.run("index", &["--silent-payments=full"]).0);
}

#[test]
fn a_history_has_its_removed_blocks_fetched_before_the_client_asks_if_the_setting_is_on() {
    let world = World::with(483, &[("BIRDHOUSE_PREFETCH_REMOVED_BLOCKS", "on")]);
    world.connect();
    let (_, transaction) = world.removed().nth(40).unwrap();
    let script = &transaction.output[0].script_pubkey;
    let history = world.history(script);
    let removed = &world.chain.blocks()[1..world.first_kept as usize - 1];
    let expected =
        removed.iter().filter(|block| block.txdata.iter().any(|transaction| history.contains(&transaction))).count();
    let mut wallet = world.server.client();
    wallet.call("blockchain.scripthash.get_history", json!([scripthash(script.as_bytes())])).unwrap();
    let fetched = || world.server.ctl_json(&["status"])["fetched_blocks"].as_u64().unwrap();
    // A file has some blocks above the first height from which all are there.
    world.server.until("fetches ahead", || (fetched() >= expected as u64).then_some(()));
    world.node.rpc("disconnectnode", json!([format!("127.0.0.1:{}", world.peer_port)])).unwrap();
    let raw = wallet.call("blockchain.transaction.get", json!([transaction.compute_txid().to_string()])).unwrap();
    assert_eq!(raw, serialize_hex(transaction));
}

#[test]
fn wallets_and_explorers_get_old_transactions_from_the_peers_of_a_pruned_node() {
    let world = World::new(481);
    let (_, first) = world.removed().next().unwrap();
    let mut wallet = world.server.client();
    let ask = |wallet: &mut Client, transaction: &Transaction| {
        wallet.call("blockchain.transaction.get", json!([transaction.compute_txid().to_string()]))
    };

    // Without a peer: an error that says why, and REST says when to ask again.
    let refused = ask(&mut wallet, first).unwrap_err().to_string();
    assert!(refused.contains("it is pruned"), "{refused}");
    let (status, head, body) = world.rest(&format!("/tx/{}/hex", first.compute_txid()));
    assert_eq!(status, 503, "{body}");
    assert!(head.contains("retry-after: 10") && body.contains("it is pruned"), "{head}\n{body}");
    assert!(!world.server.log().contains("failed to answer a request"), "{}", world.server.log());

    world.connect();
    let wanted: Vec<&Transaction> = world.removed().map(|(_, transaction)| transaction).take(60).collect();
    for transaction in &wanted {
        assert_eq!(ask(&mut wallet, transaction).unwrap(), serialize_hex(*transaction));
    }
    // A wallet asks for many at once.
    let requests: Vec<Value> = (0..)
        .zip(&wanted)
        .map(|(id, transaction)| {
            let params = [transaction.compute_txid().to_string()];
            json!({ "id": id, "method": "blockchain.transaction.get", "params": params })
        })
        .collect();
    wallet.send_line(Value::from(requests).to_string().as_bytes()).unwrap();
    let mut answers = wallet.answer().unwrap().as_array().unwrap().clone();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let raws: Vec<&str> = answers.iter().map(|answer| answer["result"].as_str().unwrap()).collect();
    assert_eq!(raws, wanted.iter().map(|transaction| serialize_hex(*transaction)).collect::<Vec<_>>());

    // An explorer: the transaction, without what it spends, which other blocks have.
    let (block, transaction) = world.removed().filter(|(_, transaction)| !transaction.is_coinbase()).nth(70).unwrap();
    let (status, _, body) = world.rest(&format!("/tx/{}", transaction.compute_txid()));
    assert_eq!(status, 200, "{body}");
    let shown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(shown["status"]["block_hash"], block.block_hash().to_string());
    assert_eq!(shown["vout"][0]["value"], transaction.output[0].value.to_sat());
    assert_eq!((&shown["fee"], shown["vin"][0]["prevout"].is_null()), (&json!(0), true));
    assert_eq!(shown["unresolved"], true);

    // The operator sees it. One block was fetched for each transaction.
    let status = world.server.ctl_json(&["status"]);
    assert_eq!(status["fetched_blocks"], wanted.len() + 1, "{status}");
    assert!(
        status["failed_fetches"].as_u64().unwrap() > 0 && status["fetched_bytes"].as_u64().unwrap() > 0,
        "{status}"
    );
    let page = world.server.until("shows the blocks", || {
        Some(world.server.get("/").body).filter(|page| page.contains("Old blocks from peers"))
    });
    assert!(page.contains("Both on disk") && page.contains("61 fetched"), "{page}");
    let (done, frame) = world.server.run("top", &["--once"]);
    assert!(done && frame.contains("61 fetched") && frame.contains("both disks"), "{frame}");
    let (_, said) = world.server.run("doctor", &[]);
    assert!(said.contains("old transactions are fetched from 1 of the node's peers"), "{said}");
    assert!(said.contains("together "), "{said}");

    // Once fetched, they need no peer.
    world.node.rpc("disconnectnode", json!([format!("127.0.0.1:{}", world.peer_port)])).unwrap();
    for transaction in &wanted {
        assert_eq!(ask(&mut wallet, transaction).unwrap(), serialize_hex(*transaction));
    }
    assert_eq!(serialize(first), serialize(wanted[0]));
}

/// The listeners of [`streamed_answers_are_whole_where_the_node_has_removed_their_blocks`].
const REST: &str = "serving the REST API";
const PRIVATE_REST: &str = "serving the REST API with /internal";
const EXPLORER: &str = "serving the explorer";

#[test]
fn streamed_answers_are_whole_where_the_node_has_removed_their_blocks() {
    let addrs = [("BIRDHOUSE_HTTP_ADDR", "127.0.0.1:0"), ("BIRDHOUSE_REST_PRIVATE_ADDR", "127.0.0.1:0")];
    let world = World::with(484, &addrs);
    let (block, transaction) = world.removed().filter(|(_, transaction)| !transaction.is_coinbase()).nth(20).unwrap();
    let raw = format!("GET /block/{}/raw", block.block_hash());
    // Before anything of it is sent, as long as nobody has it.
    let refused = world.page(REST, &raw, "");
    assert_eq!(refused.status, 503, "{}", refused.head);
    let script = &transaction.output[0].script_pubkey;
    let shown = |script: &Script| rest_path(&scripthash(script.as_bytes())).replace("/scripthash/", "");
    let (own, other) = (shown(script), shown(&world.removed().nth(90).unwrap().1.output[0].script_pubkey));

    world.connect();
    // The page of a wallet lists its transactions, and does without what they spend.
    let wallet = world.page(EXPLORER, "POST /addresses", &format!("q={own}%0A{other}"));
    let text = String::from_utf8(wallet.body).unwrap();
    assert_eq!(wallet.status, 200, "{text}");
    assert!(text.contains("blocks that the node has deleted"), "{text}");
    let whole = world.page(REST, &raw, "");
    assert!(whole.status == 200 && whole.body == serialize(block), "{}", whole.head);
    let list = world.page(PRIVATE_REST, &format!("GET /internal/block/{}/txs", block.block_hash()), "");
    let list: Value = serde_json::from_slice(&list.body).unwrap();
    let txids: Vec<Value> =
        block.txdata.iter().map(|transaction| json!(transaction.compute_txid().to_string())).collect();
    assert_eq!(list.as_array().unwrap().iter().map(|found| found["txid"].clone()).collect::<Vec<_>>(), txids);
    let file = world.page(EXPLORER, &format!("GET /scripthash/{own}/history.csv"), "");
    let text = String::from_utf8(file.body).unwrap();
    let listed: HashSet<&str> = text.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
    let history = world.history(script);
    let expected: Vec<String> = history.iter().map(|transaction| transaction.compute_txid().to_string()).collect();
    assert_eq!(listed, expected.iter().map(String::as_str).collect(), "{text}");

    // What a transaction spends is not fetched for its page; nobody may keep such an answer for long.
    let mut spending = world.removed().map(|(_, transaction)| transaction).filter(|found| !found.is_coinbase());
    let (unresolved, head) = spending
        .find_map(|found| {
            let (_, head, body) = world.rest(&format!("/tx/{}", found.compute_txid()));
            body.contains("\"unresolved\":true").then_some((found, head))
        })
        .unwrap();
    assert!(head.contains("max-age=10\r\n"), "{head}");
    let page = world.page(EXPLORER, &format!("GET /tx/{}", unresolved.compute_txid()), "");
    let text = String::from_utf8(page.body).unwrap();
    assert!(page.status == 200 && !text.contains("New coins"), "{text}");
}

#[test]
fn the_filter_of_a_removed_block_is_refused_with_the_reason_and_filter_headers_stay() {
    let mut world = World::whole(486, &[("BIRDHOUSE_BLOCK_FILTERS", "on")]);
    world.server.until("has all filter headers", || {
        (world.server.ctl_json(&["status"])["derived"][0]["blocks"] == BLOCKS + 1).then_some(())
    });
    let headers = |world: &World| world.page(REST, "GET /block-dn/filter-headers/0", "").body;
    let before = headers(&world);
    assert_eq!(before.len(), 32 * (BLOCKS as usize + 1));
    world.prune();
    world.connect();
    let reason = "the node has deleted the block of this filter (it is pruned), and no peer sends what it spends";
    // Before and after its block, without its undo data, is fetched.
    for _ in 0..2 {
        for path in ["/block-dn/filters/single/150", "/block-dn/filters/0"] {
            let (status, head, body) = world.rest(path);
            assert_eq!((status, body.as_str()), (404, reason), "{path}: {head}");
        }
        let block = &world.chain.blocks()[150];
        let raw = world.page(REST, &format!("GET /block/{}/raw", block.block_hash()), "");
        assert!(raw.status == 200 && raw.body == serialize(block), "{}", raw.head);
    }
    assert_eq!(world.rest("/block-dn/filters/single/150").0, 404);
    assert_eq!(world.page(REST, &format!("GET /block-dn/filters/single/{BLOCKS}"), "").status, 200);
    assert_eq!(headers(&world), before);
    assert!(!world.server.log().contains("failed to answer a request"), "{}", world.server.log());
}

#[test]
fn the_client_of_rust_reads_transactions_of_which_what_they_spend_is_unknown() {
    let world = World::new(487);
    world.connect();
    let port = world.server.port(REST).unwrap();
    let client = esplora_client::Builder::new(&format!("http://127.0.0.1:{port}")).build_blocking();
    let outputs: HashMap<OutPoint, &TxOut> = world
        .chain
        .blocks()
        .iter()
        .flat_map(|block| &block.txdata)
        .flat_map(|found| {
            let txid = found.compute_txid();
            (0..).zip(&found.output).map(move |(vout, output)| (OutPoint { txid, vout }, output))
        })
        .collect();
    let (mut unknown, mut known) = (0, 0);
    for (block, transaction) in world.removed().filter(|(_, found)| !found.is_coinbase()).take(40) {
        let txid = transaction.compute_txid();
        assert_eq!(client.get_tx(&txid).unwrap().as_ref(), Some(transaction));
        let info = client.get_tx_info(&txid).unwrap().unwrap();
        assert_eq!(info.status.block_hash, Some(block.block_hash()));
        let spent: Vec<_> = info.vin.iter().map(|vin| vin.prevout.as_ref()).collect();
        for (input, prevout) in transaction.input.iter().zip(&spent) {
            let expected = outputs[&input.previous_output];
            let prevout = prevout.map(|prevout| (prevout.value, &prevout.scriptpubkey));
            assert!(prevout.is_none_or(|prevout| prevout == (expected.value, &expected.script_pubkey)), "{txid}");
        }
        let paid: Amount = transaction.output.iter().map(|output| output.value).sum();
        let taken: Amount = transaction.input.iter().map(|input| outputs[&input.previous_output].value).sum();
        let is_known = spent.iter().all(Option::is_some);
        assert_eq!(info.fee, if is_known { taken - paid } else { Amount::ZERO }, "{txid}");
        if is_known {
            known += 1;
        } else {
            unknown += 1;
        }
        let script = &transaction.output[0].script_pubkey;
        let page = client.get_scripthash_txs(script, None).unwrap();
        assert!(page.iter().all(|found| !found.vin.is_empty()));
    }
    assert!(unknown > 0, "{known} of 40 are known");
}

#[test]
fn an_output_of_a_removed_block_is_spent_and_its_subscriber_is_told() {
    let mut world = World::whole(485, &[]);
    let mut wallet = Client::greet_with(world.server.port("serving the Electrum protocol").unwrap(), "1.7").unwrap();
    // Another transaction of the script would tell of the spend, too.
    let made: HashSet<Txid> =
        world.chain.blocks()[110..200].iter().flat_map(|block| &block.txdata).map(Transaction::compute_txid).collect();
    let coin = world.chain.coins().find(|coin| made.contains(&coin.outpoint.txid)).unwrap().clone();
    let OutPoint { txid, vout } = coin.outpoint;
    let unspent = wallet.call("blockchain.outpoint.subscribe", json!([txid.to_string(), vout])).unwrap();
    assert!(unspent["spender_txhash"].is_null(), "{unspent}");
    world.prune();
    world.connect();
    let spender = world.chain.spend(&[coin], &[Payment::to_lock(Lock::new(Form::P2wpkh, 950_000), 1000)]);
    world.chain.mine(1);
    world.chain.submit_to(&world.node).unwrap();
    let notified = wallet.notification(PATIENCE).unwrap().expect("the spend is told");
    assert_eq!(notified.method, "blockchain.outpoint.subscribe");
    assert_eq!(notified.params[2]["spender_txhash"], spender.to_string(), "{:?}", notified.params);
}
