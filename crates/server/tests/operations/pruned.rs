//! A server beside a pruned node: what real clients ask for comes from the index, or from the node's peers.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::client::scripthash;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use bitcoin::consensus::encode::{serialize, serialize_hex};
use bitcoin::{Block, OutPoint, Transaction};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::{Birdhouse, PATIENCE};

/// Blocks of the chain. With `-fastprune` a block file has 64 KiB, so they fill several.
const BLOCKS: u32 = 700;
/// Height up to which blocks are removed.
const PRUNED: u32 = 400;

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
        node.rpc("pruneblockchain", json!([PRUNED])).unwrap();
        let info = node.rpc("getblockchaininfo", json!([])).unwrap();
        let first_kept = u32::try_from(info["pruneheight"].as_u64().unwrap()).unwrap();
        assert!(first_kept > 200);
        Self { chain, node, _peer: peer, peer_port, first_kept, server }
    }

    fn connect(&self) {
        self.node.rpc("addnode", json!([format!("127.0.0.1:{}", self.peer_port), "onetry"])).unwrap();
        self.server.until("sees the node meet its peer", || {
            let peers = self.node.rpc("getpeerinfo", json!([])).unwrap();
            peers.to_string().contains("\"NETWORK\"").then_some(())
        });
    }

    /// The last transactions of removed blocks, with their blocks.
    fn removed(&self) -> impl Iterator<Item = (&Block, &Transaction)> {
        let removed = &self.chain.blocks()[110..self.first_kept as usize - 1];
        removed.iter().map(|block| (block, block.txdata.last().unwrap()))
    }

    /// Returns status, head and body of REST's answer.
    fn rest(&self, path: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port("serving the REST API").unwrap())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split_whitespace().nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
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
    world.node.rpc("pruneblockchain", json!([indexed + 400])).unwrap();
    let first = world.node.rpc("getblockchaininfo", json!([])).unwrap()["pruneheight"].as_u64().unwrap();
    assert!(first > u64::from(indexed) + 1, "{first}");
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
fn a_history_has_its_removed_blocks_fetched_before_the_client_asks_if_the_setting_is_on() {
    let world = World::with(483, &[("BIRDHOUSE_PREFETCH_REMOVED_BLOCKS", "on")]);
    world.connect();
    let (_, transaction) = world.removed().nth(40).unwrap();
    let script = &transaction.output[0].script_pubkey;
    let transactions = world.chain.blocks().iter().flat_map(|block| &block.txdata);
    let outputs: HashSet<OutPoint> = transactions
        .flat_map(|funding| (0..).zip(&funding.output).map(move |(vout, output)| (funding, vout, output)))
        .filter(|(.., output)| output.script_pubkey == *script)
        .map(|(funding, vout, _)| OutPoint { txid: funding.compute_txid(), vout })
        .collect();
    let in_history = |transaction: &Transaction| {
        transaction.output.iter().any(|output| output.script_pubkey == *script)
            || transaction.input.iter().any(|input| outputs.contains(&input.previous_output))
    };
    let removed = &world.chain.blocks()[1..world.first_kept as usize - 1];
    let expected = removed.iter().filter(|block| block.txdata.iter().any(in_history)).count();
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
    let ask = |wallet: &mut birdhouse_testkit::client::Client, transaction: &Transaction| {
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
