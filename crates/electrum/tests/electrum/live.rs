//! Changes while a client is connected: tips, statuses, broadcasts, and an index that is not ready yet.

use std::time::Duration;

use birdhouse_electrum::Settings;
use birdhouse_testkit::client::{Client, Notification};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, mix};
use bitcoin::ScriptBuf;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::{Hash as _, sha256};
use serde_json::{Value, json};

use crate::model;
use crate::world::{Server, With, node_with};

const PATIENCE: Duration = Duration::from_secs(30);

struct World {
    chain: ChainBuilder,
    node: Bitcoind,
    server: Server,
}

fn world(seed: u64) -> World {
    let mut chain = ChainBuilder::new(seed);
    mix::mature(&mut chain);
    let node = node_with(&chain);
    let server = Server::start(&node, Settings::default());
    World { chain, node, server }
}

impl World {
    fn script(&self, number: u32) -> ScriptBuf {
        self.chain.wallet().script_pubkey(Lock::new(Form::P2wpkh, number))
    }

    /// Mines and indexes a block that pays to this script.
    fn pay(&mut self, number: u32) {
        self.chain.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, number), 100_000)]);
        self.mine();
    }

    fn mine(&mut self) {
        self.chain.mine_block();
        self.follow();
    }

    fn follow(&self) {
        self.chain.submit_to(&self.node).unwrap();
        self.server.sync();
    }

    fn tip(&self) -> Value {
        let header = &self.chain.blocks().last().unwrap().header;
        json!({ "hex": serialize_hex(header), "height": self.chain.height() })
    }

    fn status(&self, number: u32) -> Value {
        let scripts = model::scripts(self.chain.blocks());
        scripts.get(&model::scripthash(&self.script(number))).map_or(Value::Null, model::Script::status)
    }

    fn expect_tip(&self, client: &mut Client) {
        let expected = Notification { method: "blockchain.headers.subscribe".into(), params: json!([self.tip()]) };
        assert_eq!(client.notification(PATIENCE).unwrap(), Some(expected));
    }

    fn expect_status(&self, client: &mut Client, number: u32) {
        let params = json!([model::scripthash(&self.script(number)), self.status(number)]);
        let expected = Notification { method: "blockchain.scripthash.subscribe".into(), params };
        assert_eq!(client.notification(PATIENCE).unwrap(), Some(expected));
    }

    fn subscribe(&self, client: &mut Client, number: u32) -> Value {
        let scripthash = model::scripthash(&self.script(number));
        client.call("blockchain.scripthash.subscribe", json!([scripthash])).unwrap()
    }
}

#[test]
fn a_new_block_tells_first_the_tip_and_then_the_touched_scripts() {
    let mut world = world(11);
    let mut client = world.server.client();
    assert_eq!(client.call("blockchain.headers.subscribe", json!([])).unwrap(), world.tip());
    assert_eq!(world.subscribe(&mut client, 1), Value::Null);
    assert_eq!(world.subscribe(&mut client, 2), Value::Null);
    world.pay(1);
    world.expect_tip(&mut client);
    world.expect_status(&mut client, 1);
    // A notification of the second script would come before the next tip.
    world.pay(2);
    world.expect_tip(&mut client);
    world.expect_status(&mut client, 2);
    assert_eq!(world.subscribe(&mut client, 1), world.status(1));
}

#[test]
fn a_status_told_is_that_of_the_history_that_can_be_fetched() {
    let mut world = world(12);
    let mut client = world.server.client();
    world.subscribe(&mut client, 1);
    for _ in 0..3 {
        world.pay(1);
        world.expect_status(&mut client, 1);
        let scripthash = model::scripthash(&world.script(1));
        let history = client.call("blockchain.scripthash.get_history", json!([scripthash])).unwrap();
        let scripts = model::scripts(world.chain.blocks());
        assert_eq!(history, scripts[&scripthash].history());
    }
}

#[test]
fn a_reorg_to_the_same_height_tells_the_new_tip_and_the_payment_back_in_the_mempool() {
    let mut world = world(13);
    world.pay(1);
    let mut client = world.server.client();
    client.call("blockchain.headers.subscribe", json!([])).unwrap();
    assert_eq!(world.subscribe(&mut client, 1), world.status(1));
    let stale = world.chain.tip();
    let height = world.chain.height();
    let paid = world.chain.blocks().last().unwrap().txdata[1].compute_txid();
    world.chain.rollback_to(height - 1);
    world.chain.mine_block();
    world.node.invalidate(stale).unwrap();
    world.follow();
    assert_eq!(world.chain.height(), height);
    world.expect_tip(&mut client);
    assert_eq!(world.status(1), Value::Null, "no block has it");
    let status = sha256::Hash::hash(format!("{paid}:0:").as_bytes()).to_string();
    let params = json!([model::scripthash(&world.script(1)), status]);
    let expected = Notification { method: "blockchain.scripthash.subscribe".into(), params };
    assert_eq!(client.notification(PATIENCE).unwrap(), Some(expected));
}

#[test]
fn an_unsubscribed_script_is_not_told() {
    let mut world = world(14);
    let mut client = world.server.client();
    client.call("blockchain.headers.subscribe", json!([])).unwrap();
    world.subscribe(&mut client, 1);
    world.subscribe(&mut client, 2);
    let scripthash = model::scripthash(&world.script(1));
    client.call("blockchain.scripthash.unsubscribe", json!([scripthash])).unwrap();
    world.chain.pay(&[1, 2].map(|number| Payment::to_lock(Lock::new(Form::P2wpkh, number), 50_000)));
    world.mine();
    world.expect_tip(&mut client);
    world.expect_status(&mut client, 2);
    world.mine();
    world.expect_tip(&mut client);
}

#[test]
fn many_blocks_at_once_tell_the_last_tip_to_every_client() {
    let mut world = world(15);
    let mut clients: Vec<Client> = (0..20).map(|_| world.server.client()).collect();
    for client in &mut clients {
        client.call("blockchain.headers.subscribe", json!([])).unwrap();
    }
    world.chain.mine(30);
    world.follow();
    for client in &mut clients {
        world.expect_tip(client);
    }
}

#[test]
fn a_broadcast_reaches_the_mempool_and_a_bad_one_is_refused_with_cores_reason() {
    let mut world = world(16);
    let script = world.chain.wallet().foreign_address(1).script_pubkey();
    let txid = world.chain.pay(&[Payment::to_script(script, 50_000)]);
    let block = world.chain.mine_block().clone();
    let raw = serialize_hex(block.txdata.iter().find(|tx| tx.compute_txid() == txid).unwrap());
    let txid = txid.to_string();
    let mut client = world.server.client();
    let mut broadcast = |raw: &str| {
        let request = ("blockchain.transaction.broadcast", json!([raw]));
        client.batch(&[request]).unwrap().remove(0)
    };
    assert_eq!(broadcast(&raw), Ok(json!(txid)));
    let refused = broadcast("00").unwrap_err();
    assert_eq!(refused["code"], json!(1));
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("the transaction was rejected by network rules.\n\nTX decode failed"), "{message}");
    assert!(message.ends_with("\n[00]"), "{message}");
    // An unconfirmed transaction comes from the node, a confirmed one from the index.
    for _ in 0..2 {
        assert_eq!(client.call("blockchain.transaction.get", json!([txid])).unwrap(), json!(raw));
        let verbose = client.call("blockchain.transaction.get", json!([txid, true])).unwrap();
        assert_eq!(verbose["hex"], json!(raw));
        world.follow();
    }
    let package = client.call("blockchain.transaction.broadcast_package", json!([[raw]])).unwrap();
    assert_eq!(package["success"], json!(false));
}

#[test]
fn while_the_index_is_built_nothing_partial_is_told() {
    let mut chain = ChainBuilder::new(17);
    mix::mature(&mut chain);
    let node = node_with(&chain);
    let server = Server::syncing(&node, With::Node, Settings::default());
    let mut client = server.client();
    let scripthash = "ab".repeat(32);
    client.call("server.ping", json!([])).unwrap();
    client.call("server.features", json!([])).unwrap();
    assert_eq!(client.call("blockchain.estimatefee", json!([2])).unwrap(), json!(-1));
    for (method, params) in [
        ("blockchain.scripthash.get_history", json!([scripthash])),
        ("blockchain.scripthash.get_mempool", json!([scripthash])),
        ("blockchain.scripthash.subscribe", json!([scripthash])),
        ("blockchain.headers.subscribe", json!([])),
        ("blockchain.block.header", json!([0])),
        ("blockchain.transaction.get", json!([scripthash])),
    ] {
        let error = client.batch(&[(method, params)]).unwrap().remove(0).unwrap_err();
        assert_eq!(error, json!({ "code": -102, "message": "indexing, 0 %" }), "{method}");
    }
    server.build();
    let tip = client.call("blockchain.headers.subscribe", json!([])).unwrap();
    assert_eq!(tip["height"], json!(chain.height()));
}

#[test]
fn while_the_index_is_built_the_headers_of_its_chain_are_served() {
    let mut chain = ChainBuilder::new(19);
    mix::mature(&mut chain);
    let node = node_with(&chain);
    let server = Server::syncing(&node, With::Node, Settings::default());
    // The build has its chain, and stops.
    server.index.progress().cancel();
    server.try_build().unwrap_err();
    let mut client = server.client();
    let header = |height: u32| json!(serialize_hex(&chain.blocks()[height as usize].header));
    let tip = client.call("blockchain.headers.subscribe", json!([])).unwrap();
    assert_eq!(tip, json!({ "hex": header(chain.height()), "height": chain.height() }));
    assert_eq!(client.call("blockchain.block.header", json!([5])).unwrap(), header(5));
    let some = client.call("blockchain.block.headers", json!([chain.height() - 1, 10])).unwrap();
    assert_eq!(some["count"], json!(2));
    let scripthash = "ab".repeat(32);
    for (method, params) in [
        ("blockchain.scripthash.subscribe", json!([scripthash])),
        ("blockchain.block.header", json!([5, chain.height()])),
    ] {
        let error = client.batch(&[(method, params)]).unwrap().remove(0).unwrap_err();
        assert_eq!(error["code"], json!(-102), "{method}: {error}");
        assert!(error["message"].as_str().unwrap().starts_with("indexing, "), "{method}: {error}");
    }
}

#[test]
fn without_a_node_blocks_are_served_and_the_rest_is_a_clear_error() {
    let mut chain = ChainBuilder::new(18);
    mix::mature(&mut chain);
    let node = node_with(&chain);
    let server = Server::syncing(&node, With::FilesAlone, Settings::default());
    server.build();
    let mut client = server.client();
    let coinbase = &chain.blocks()[1].txdata[0];
    let txid = coinbase.compute_txid().to_string();
    let raw = client.call("blockchain.transaction.get", json!([txid])).unwrap();
    assert_eq!(raw, json!(serialize_hex(coinbase)));
    for (method, params) in [
        ("blockchain.estimatefee", json!([2])),
        ("mempool.get_info", json!([])),
        ("blockchain.transaction.broadcast", json!(["00"])),
        ("blockchain.transaction.broadcast_package", json!([["00"]])),
        ("blockchain.transaction.get", json!([txid, true])),
    ] {
        let error = client.batch(&[(method, params)]).unwrap().remove(0).unwrap_err();
        let message = "daemon error: this server reads block files and has no node to ask";
        assert_eq!(error, json!({ "code": 2, "message": message }), "{method}");
    }
}
