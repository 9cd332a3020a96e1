//! Unconfirmed transactions: answers about them, notifications of them, and requests that go to the node.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Duration;

use birdhouse_electrum::Settings;
use birdhouse_testkit::client::{Client, Notification};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_testkit::{Bitcoind, ChainBuilder, mix};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::{OutPoint, ScriptBuf, Transaction, Txid};
use serde_json::{Value, json};

use crate::model;
use crate::world::{Server, node_with};

const PATIENCE: Duration = Duration::from_secs(30);
const PAID: u64 = 100_000;
const FEE: u64 = 700;

/// A chain whose next block has a payment to our script 1 and its spending to script 2, and a node that has not seen
/// it.
struct World {
    chain: ChainBuilder,
    node: Bitcoind,
    server: Server,
    parent: Transaction,
    child: Transaction,
    /// The output of the parent that the child spends.
    paid: OutPoint,
}

fn lock(number: u32) -> Lock {
    Lock::new(Form::P2wpkh, number)
}

fn world(seed: u64) -> World {
    let mut chain = ChainBuilder::new(seed);
    mix::mature(&mut chain);
    let node = node_with(&chain);
    let server = Server::start(&node, Settings::default());
    let parent = chain.pay(&[Payment::to_lock(lock(1), PAID)]);
    let coin: Coin = chain.coins().find(|coin| coin.lock == lock(1)).unwrap().clone();
    let paid = coin.outpoint;
    let child = chain.spend(&[coin], &[Payment::to_lock(lock(2), PAID - FEE)]);
    let block = chain.mine_block().clone();
    let find = |txid: Txid| block.txdata.iter().find(|tx| tx.compute_txid() == txid).unwrap().clone();
    World { parent: find(parent), child: find(child), paid, chain, node, server }
}

impl World {
    fn script(&self, number: u32) -> ScriptBuf {
        self.chain.wallet().script_pubkey(lock(number))
    }

    fn scripthash(&self, number: u32) -> String {
        model::scripthash(&self.script(number))
    }

    fn broadcast(&self, tx: &Transaction) {
        self.node.rpc("sendrawtransaction", json!([serialize_hex(tx)])).unwrap();
        self.server.sync();
    }

    /// The block with both.
    fn confirm(&self) {
        self.chain.submit_to(&self.node).unwrap();
        self.server.sync();
    }
}

fn expect(client: &mut Client, method: &str, params: Value) {
    let expected = Notification { method: method.into(), params };
    assert_eq!(client.notification(PATIENCE).unwrap(), Some(expected));
}

fn txid(tx: &Transaction) -> String {
    tx.compute_txid().to_string()
}

fn status(text: &str) -> Value {
    json!(sha256::Hash::hash(text.as_bytes()).to_string())
}

#[test]
fn an_unconfirmed_payment_and_its_spending_are_in_every_answer() {
    let world = world(61);
    world.broadcast(&world.parent);
    world.broadcast(&world.child);
    let (parent, child) = (txid(&world.parent), txid(&world.child));
    let (one, two) = (world.scripthash(1), world.scripthash(2));
    let mut client = world.server.newest_client();
    let mut ask = |method: &str, params: Value| client.call(&format!("blockchain.{method}"), params).unwrap();

    let parent_entry = json!({ "tx_hash": parent, "height": 0, "fee": 1000 });
    let child_entry = json!({ "tx_hash": child, "height": -1, "fee": FEE });
    for method in ["get_history", "get_mempool"] {
        let method = format!("scripthash.{method}");
        assert_eq!(ask(&method, json!([one])), json!([parent_entry, child_entry]));
        assert_eq!(ask(&method, json!([two])), json!([child_entry]));
    }
    assert_eq!(ask("scripthash.get_history", json!([two, 5, -1])), json!([child_entry]));
    assert_eq!(ask("scripthash.get_history", json!([two, 0, 1_000_000])), json!([]));
    let script_two = world.script(2).to_hex_string();
    assert_eq!(ask("scriptpubkey.get_history", json!([script_two])), json!({ "history": [child_entry] }));

    let text = format!("{parent}:0:{child}:-1:");
    assert_eq!(ask("scripthash.get_status", json!([one])), status(&text));
    assert_eq!(ask("scripthash.subscribe", json!([one])), status(&text));
    assert_eq!(ask("scripthash.get_balance", json!([one])), json!({ "confirmed": 0, "unconfirmed": 0 }));
    assert_eq!(ask("scripthash.get_balance", json!([two])), json!({ "confirmed": 0, "unconfirmed": PAID - FEE }));
    assert_eq!(ask("scripthash.listunspent", json!([one])), json!([]));
    let unspent = json!([{ "tx_hash": child, "tx_pos": 0, "height": 0, "value": PAID - FEE }]);
    assert_eq!(ask("scripthash.listunspent", json!([two])), unspent);
    assert_eq!(ask("scriptpubkey.listunspent", json!([script_two])), json!({ "utxos": unspent }));
    let first = json!({ "block_hash": "0".repeat(64), "height": 0, "block_height": 0, "tx_hash": child });
    assert_eq!(ask("scripthash.get_first_use", json!([two])), first);

    assert_eq!(ask("transaction.get", json!([child])), json!(serialize_hex(&world.child)));
    let verbose = world.node.rpc("getrawtransaction", json!([child, true])).unwrap();
    assert_eq!(ask("transaction.get", json!([child, true])), verbose);
    assert_eq!(ask("transaction.get_height", json!([child])), json!(0));
    assert_eq!(ask("utxo.get_info", json!([parent, world.paid.vout])), Value::Null);
    assert_eq!(ask("utxo.get_info", json!([child, 0])), json!({ "scripthash": two, "value": PAID - FEE }));
    let spent = json!({ "funder_height": 0, "spender_txhash": child, "spender_height": -1 });
    assert_eq!(ask("outpoint.get_status", json!([parent, world.paid.vout, "00"])), spent);
    assert_eq!(ask("outpoint.get_status", json!([child, 0, "00"])), json!({ "funder_height": -1 }));
}

#[test]
fn the_mempool_is_summed_up_and_its_newest_are_listed() {
    let world = world(62);
    let mut client = world.server.newest_client();
    assert_eq!(client.call("mempool.recent", json!([])).unwrap(), json!([]));
    assert_eq!(client.call("mempool.get_fee_histogram", json!([])).unwrap(), json!([]));
    world.broadcast(&world.parent);
    world.broadcast(&world.child);
    let entry = |tx: &Transaction, fee: u64| {
        let entry = world.node.rpc("getmempoolentry", json!([txid(tx)])).unwrap();
        json!({ "txid": txid(tx), "fee": fee, "vsize": entry["vsize"] })
    };
    let recent = json!([entry(&world.child, FEE), entry(&world.parent, 1000)]);
    assert_eq!(client.call("mempool.recent", json!([])).unwrap(), recent);
    let histogram = client.call("mempool.get_fee_histogram", json!([])).unwrap();
    let bins = histogram.as_array().unwrap();
    let vsize: u64 = bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum();
    assert_eq!(vsize, recent.as_array().unwrap().iter().map(|entry| entry["vsize"].as_u64().unwrap()).sum::<u64>());
    assert!(bins.is_sorted_by(|one, next| one[0].as_f64() > next[0].as_f64()), "{histogram}");
}

#[test]
fn scripts_are_told_of_the_mempool_in_the_form_they_were_asked_for() {
    let world = world(63);
    let mut old = world.server.client();
    let mut new = world.server.newest_client();
    let (parent, child) = (txid(&world.parent), txid(&world.child));
    let (one, script_one) = (world.scripthash(1), world.script(1).to_hex_string());
    assert_eq!(old.call("blockchain.scripthash.subscribe", json!([one])).unwrap(), Value::Null);
    assert_eq!(new.call("blockchain.scriptpubkey.subscribe", json!([script_one])).unwrap(), Value::Null);
    let expect_both = |old: &mut Client, new: &mut Client, status: Value| {
        expect(old, "blockchain.scripthash.subscribe", json!([one, status]));
        expect(new, "blockchain.scriptpubkey.subscribe", json!([one, status]));
    };
    world.broadcast(&world.parent);
    expect_both(&mut old, &mut new, status(&format!("{parent}:0:")));
    world.broadcast(&world.child);
    expect_both(&mut old, &mut new, status(&format!("{parent}:0:{child}:-1:")));
    world.confirm();
    expect_both(&mut old, &mut new, model::scripts(world.chain.blocks())[&one].status());
    assert_eq!(new.call("blockchain.scriptpubkey.unsubscribe", json!([script_one])).unwrap(), json!(true));
    assert_eq!(new.call("blockchain.scriptpubkey.unsubscribe", json!([script_one])).unwrap(), json!(false));
}

#[test]
fn an_outpoint_is_told_from_before_it_is_there_until_its_spending_is_confirmed_and_back() {
    let world = world(64);
    let (parent, child) = (txid(&world.parent), txid(&world.child));
    let script = world.script(1).to_hex_string();
    let mut hinted = world.server.newest_client();
    let mut blind = world.server.newest_client();
    let named = json!([parent, world.paid.vout]);
    let subscribe = "blockchain.outpoint.subscribe";
    assert_eq!(hinted.call(subscribe, json!([parent, world.paid.vout, script])).unwrap(), json!({}));
    assert_eq!(blind.call(subscribe, named.clone()).unwrap(), json!({}));
    let expect_both = |hinted: &mut Client, blind: &mut Client, status: Value| {
        for client in [hinted, blind] {
            expect(client, subscribe, json!([parent, world.paid.vout, status]));
        }
    };
    world.broadcast(&world.parent);
    expect_both(&mut hinted, &mut blind, json!({ "funder_height": 0 }));
    world.broadcast(&world.child);
    let unconfirmed = json!({ "funder_height": 0, "spender_txhash": child, "spender_height": -1 });
    expect_both(&mut hinted, &mut blind, unconfirmed.clone());
    world.confirm();
    let height = world.chain.height();
    let confirmed = json!({ "funder_height": height, "spender_txhash": child, "spender_height": height });
    expect_both(&mut hinted, &mut blind, confirmed.clone());
    assert_eq!(
        hinted.call("blockchain.outpoint.get_status", json!([parent, world.paid.vout, script])).unwrap(),
        confirmed
    );

    world.node.invalidate(world.chain.tip()).unwrap();
    world.server.sync();
    expect_both(&mut hinted, &mut blind, unconfirmed);
    assert_eq!(blind.call("blockchain.outpoint.unsubscribe", named.clone()).unwrap(), json!(true));
    assert_eq!(blind.call("blockchain.outpoint.unsubscribe", named).unwrap(), json!(false));
    world.node.reconsider(world.chain.tip()).unwrap();
    world.server.sync();
    expect(&mut hinted, subscribe, json!([parent, world.paid.vout, confirmed]));
    assert_eq!(blind.notification(Duration::from_millis(50)).unwrap(), None);
}

#[test]
fn an_outpoint_whose_spending_is_buried_is_answered_and_not_followed() {
    let mut world = world(65);
    world.chain.mine(101);
    world.confirm();
    let mut client = world.server.newest_client();
    let params = json!([txid(&world.parent), world.paid.vout, "00"]);
    let height = world.chain.height() - 101;
    let spent = json!({ "funder_height": height, "spender_txhash": txid(&world.child), "spender_height": height });
    assert_eq!(client.call("blockchain.outpoint.subscribe", params.clone()).unwrap(), spent);
    let unsubscribe = "blockchain.outpoint.unsubscribe";
    assert_eq!(client.call(unsubscribe, json!([params[0], params[1]])).unwrap(), json!(false));
}

#[test]
fn a_transaction_is_read_once_for_outputs_that_it_lacks_and_for_those_that_can_never_be_spent() {
    let world = world(68);
    // The last block is the one that the server has not seen.
    let seen = &world.chain.blocks()[..world.chain.blocks().len() - 1];
    let coinbase = &seen.last().unwrap().txdata[0];
    let vout = coinbase.output.iter().position(|output| output.script_pubkey.is_op_return()).unwrap();
    let (txid_of_coinbase, height) = (txid(coinbase), seen.len() - 1);
    let mut client = world.server.newest_client();
    let subscribe = "blockchain.outpoint.subscribe";
    let mut follow = |params: &Value| client.call(subscribe, params.clone()).unwrap();
    let (missing, unspendable) = (json!([txid_of_coinbase, 100_000]), json!([txid_of_coinbase, vout]));
    world.server.files.take();
    assert_eq!(follow(&missing), json!({}));
    assert_eq!(follow(&unspendable), json!({ "funder_height": height }));
    let reads = world.server.files.take();
    assert!(!reads.is_empty());
    // It changes with each update, and is checked together with the others.
    let changing = json!([txid(&world.parent), world.paid.vout]);
    assert_eq!(follow(&changing), json!({}));

    world.broadcast(&world.parent);
    let mut expect_change = |status: Value| expect(&mut client, subscribe, json!([changing[0], changing[1], status]));
    expect_change(json!({ "funder_height": 0 }));
    // One that is not confirmed is in memory.
    world.broadcast(&world.child);
    let child = txid(&world.child);
    expect_change(json!({ "funder_height": 0, "spender_txhash": child, "spender_height": -1 }));
    world.confirm();
    let height = world.chain.height();
    expect_change(json!({ "funder_height": height, "spender_txhash": child, "spender_height": height }));
    let again: Vec<_> = world.server.files.take().into_iter().filter(|read| reads.contains(read)).collect();
    assert_eq!(again, []);

    // What was never there will never be; what is there may be confirmed elsewhere.
    let unsubscribe = "blockchain.outpoint.unsubscribe";
    assert_eq!(client.call(unsubscribe, missing).unwrap(), json!(false));
    assert_eq!(client.call(unsubscribe, unspendable).unwrap(), json!(true));
}

#[test]
fn a_verbose_transaction_is_cores_own_down_to_its_numbers() {
    let world = world(66);
    world.broadcast(&world.parent);
    let block = world.chain.tip();
    let mut client = world.server.client();
    let mut verbose = |tx: &Transaction| client.call("blockchain.transaction.get", json!([txid(tx), true])).unwrap();
    let unconfirmed = verbose(&world.parent);
    assert_eq!(unconfirmed, world.node.rpc("getrawtransaction", json!([txid(&world.parent), true])).unwrap());
    world.confirm();
    let transactions = &world.chain.blocks().last().unwrap().txdata;
    for tx in transactions {
        let mut expected = world.node.rpc("getrawtransaction", json!([txid(tx), true, block.to_string()])).unwrap();
        // Core has this member only where the request names a block.
        expected.as_object_mut().unwrap().remove("in_active_chain");
        assert_eq!(verbose(tx), expected);
    }
    let mut socket = BufReader::new(world.server.socket());
    let request = json!({ "id": 7, "method": "blockchain.transaction.get", "params": [txid(&world.parent), true] });
    writeln!(socket.get_mut(), "{request}").unwrap();
    let mut line = String::new();
    socket.read_line(&mut line).unwrap();
    assert!(line.contains("\"value\":0.00100000,"), "{line}");
    // Sparrow finds ids by this text.
    assert_eq!(line.matches("\"id\":").count(), 1, "{line}");
}

#[test]
fn a_package_and_a_test_of_one_tell_what_the_node_says_of_each() {
    let world = world(67);
    let raws = [serialize_hex(&world.parent), serialize_hex(&world.child)];
    let ids = |tx: &Transaction| (tx.compute_txid().to_string(), tx.compute_wtxid().to_string());
    let mut client = world.server.newest_client();
    let mut ask = |method: &str, params: Value| {
        let request = (method, params);
        client.batch(&[request]).unwrap().remove(0)
    };
    let accept = "blockchain.transaction.testmempoolaccept";
    let ((parent, parent_w), (child, child_w)) = (ids(&world.parent), ids(&world.child));
    let accepted = |txid: &str, wtxid: &str| json!({ "txid": txid, "wtxid": wtxid, "allowed": true });
    assert_eq!(ask(accept, json!([raws])), Ok(json!([accepted(&parent, &parent_w), accepted(&child, &child_w)])));
    let orphan = ask(accept, json!([[raws[1]]])).unwrap();
    assert_eq!(orphan[0]["allowed"], json!(false));
    assert!(orphan[0]["reason"].as_str().unwrap().contains("missing"), "{orphan}");
    assert_eq!(ask(accept, json!([["00"]])).unwrap_err()["code"], json!(2));
    assert_eq!(ask(accept, json!([[]])).unwrap_err()["code"], json!(1));

    let submit = "blockchain.transaction.broadcast_package";
    let failed = ask(submit, json!([[raws[1]]])).unwrap();
    assert_eq!(failed["success"], json!(false));
    assert_eq!(failed["errors"][0]["txid"], json!(child));
    let refused = ask(submit, json!([[raws[1], raws[0]]])).unwrap_err();
    assert_eq!(refused["code"], json!(1));
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("the tx package was rejected by network rules.\n\npackage topology"), "{message}");
    assert_eq!(ask(submit, json!([raws])), Ok(json!({ "success": true })));
    let verbose = ask(submit, json!([raws, true])).unwrap();
    assert_eq!(verbose["package_msg"], json!("success"));
    assert_eq!(verbose["tx-results"][&child_w]["txid"], json!(child));
}

#[test]
fn a_transaction_that_one_method_shows_is_in_every_later_answer() {
    let world = world(67);
    let (one, two) = (world.scripthash(1), world.scripthash(2));
    let mut client = world.server.client();
    let send = |tx: &Transaction| world.node.rpc("sendrawtransaction", json!([serialize_hex(tx)])).unwrap();
    // Nobody has looked at the mempool yet, and nobody follows the node: only the answers themselves bring it up to
    // date. The child comes with its parent.
    send(&world.parent);
    send(&world.child);
    let raw = client.call("blockchain.transaction.get", json!([txid(&world.child)])).unwrap();
    assert_eq!(raw, json!(serialize_hex(&world.child)));
    let history = client.call("blockchain.scripthash.get_history", json!([two])).unwrap();
    assert_eq!(history, json!([{ "tx_hash": txid(&world.child), "height": -1, "fee": FEE }]));
    let history = client.call("blockchain.scripthash.get_history", json!([one])).unwrap();
    assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
}

#[test]
fn a_transaction_that_the_history_cannot_show_yet_is_not_shown() {
    let mut world = world(69);
    // A block that nobody has indexed, and a transaction of the mempool that spends from it.
    world.chain.submit_to(&world.node).unwrap();
    let coin = world.chain.coins().find(|coin| coin.lock == lock(2)).unwrap().clone();
    let grandchild = world.chain.spend(&[coin], &[Payment::to_lock(lock(3), PAID - 2 * FEE)]);
    let block = world.chain.mine_block().clone();
    let grandchild = block.txdata.iter().find(|tx| tx.compute_txid() == grandchild).unwrap();
    world.node.rpc("sendrawtransaction", json!([serialize_hex(grandchild)])).unwrap();
    let mut client = world.server.client();
    let history = json!([world.scripthash(3)]);
    for params in [json!([txid(grandchild)]), json!([txid(grandchild), true])] {
        let refused = client.batch(&[("blockchain.transaction.get", params)]).unwrap().remove(0).unwrap_err();
        assert_eq!(refused["code"], json!(-102), "{refused}");
        assert_eq!(client.call("blockchain.scripthash.get_history", history.clone()).unwrap(), json!([]));
    }
    world.server.index.sync(&*world.server.core).unwrap();
    let raw = client.call("blockchain.transaction.get", json!([txid(grandchild)])).unwrap();
    assert_eq!(raw, json!(serialize_hex(grandchild)));
    let shown = client.call("blockchain.scripthash.get_history", history).unwrap();
    assert_eq!(shown, json!([{ "tx_hash": txid(grandchild), "height": 0, "fee": FEE }]));
}

#[test]
fn a_broadcast_is_in_the_next_answer_and_notified() {
    let world = world(68);
    let one = world.scripthash(1);
    let mut client = world.server.client();
    client.call("blockchain.scripthash.subscribe", json!([one])).unwrap();
    client.call("blockchain.transaction.broadcast", json!([serialize_hex(&world.parent)])).unwrap();
    let parent = txid(&world.parent);
    let history = client.call("blockchain.scripthash.get_history", json!([one])).unwrap();
    assert_eq!(history, json!([{ "tx_hash": parent, "height": 0, "fee": 1000 }]));
    expect(&mut client, "blockchain.scripthash.subscribe", json!([one, status(&format!("{parent}:0:"))]));
    // With a listed mempool it is one request for one transaction.
    client.call("blockchain.transaction.broadcast", json!([serialize_hex(&world.child)])).unwrap();
    let history = client.call("blockchain.scripthash.get_history", json!([one])).unwrap();
    assert_eq!(history.as_array().unwrap().len(), 2, "{history}");
}

#[test]
fn a_burn_is_broadcast() {
    let mut world = world(68);
    world.confirm();
    let burn = world.chain.pay(&[Payment::to_script(ScriptBuf::new_op_return(b"gone"), 5_000)]);
    let block = world.chain.mine_block().clone();
    let raw = serialize_hex(block.txdata.iter().find(|tx| tx.compute_txid() == burn).unwrap());
    let mut client = world.server.client();
    let answer = client.call("blockchain.transaction.broadcast", json!([raw])).unwrap();
    assert_eq!(answer, json!(burn.to_string()));
    assert!(world.node.rpc("getmempoolentry", json!([burn.to_string()])).is_ok());
}
