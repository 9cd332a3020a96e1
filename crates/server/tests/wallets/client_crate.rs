//! Every call of the crate `electrum-client`, with its answers compared with the blocks and the node.

use std::time::{Duration, Instant};

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Payment, signed};
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::{Script, ScriptBuf, Txid};
use electrum_client::raw_client::{ElectrumPlaintextStream, RawClient};
use electrum_client::{Batch, ElectrumApi, GetHistoryRes, ListUnspentRes, Param};
use serde_json::{Value, json};

use crate::World;
use crate::facts::{Facts, Unspent, scripts};

const PATIENCE: Duration = Duration::from_mins(1);

type Client = RawClient<ElectrumPlaintextStream>;

fn connect(world: &World) -> Client {
    let client = Client::new(("127.0.0.1", world.server.port()), Some(PATIENCE), None).unwrap();
    // It asks for 1.4 to 1.6 as it connects.
    assert_eq!(client.protocol_version().unwrap(), "1.6");
    client
}

#[test]
fn every_call_of_electrum_client_is_answered_as_the_chain_is() {
    let world = World::sample();
    let client = connect(&world);
    server_calls(&client, &world);
    header_calls(&client, &world);
    script_calls(&client, &world);
    transaction_calls(&client, &world);
    a_broadcast_is_mined_and_seen(&client, &world);
}

fn server_calls(client: &Client, world: &World) {
    client.ping().unwrap();
    let features = client.server_features().unwrap();
    let mut genesis = world.chain.blocks()[0].block_hash().to_byte_array();
    genesis.reverse();
    assert_eq!(features.genesis_hash, genesis);
    assert_eq!(features.hash_function.as_deref(), Some("sha256"));
    assert_eq!((features.pruning, features.protocol_min.as_str()), (None, "1.4"));
    assert!(features.server_version.contains("ElectrumX"), "{}", features.server_version);

    let relay = world.node.rpc("getnetworkinfo", json!([])).unwrap()["relayfee"].as_f64().unwrap();
    // 1.6 has it in place of `blockchain.relayfee`.
    assert!((client.mempool_get_info().unwrap().minrelaytxfee - relay).abs() < 1e-12);
    // A new regtest node has no estimate, which is -1 in the protocol.
    let unknown = |fee: &f64| (fee + 1.0).abs() < 1e-12;
    assert!(unknown(&client.estimate_fee(6, None).unwrap()));
    let fees = client.batch_estimate_fee([1_usize, 6, 144]).unwrap();
    assert!(fees.len() == 3 && fees.iter().all(unknown), "{fees:?}");

    let mut batch = Batch::default();
    batch.raw("server.ping".into(), vec![]);
    batch.estimate_fee(2, None);
    batch.block_header(0);
    let genesis_header = hex(&serialize(&world.chain.blocks()[0].header));
    let answers = client.batch_call(&batch).unwrap();
    assert_eq!((&answers[0], &answers[2]), (&Value::Null, &json!(genesis_header)));
    assert!(unknown(&answers[1].as_f64().unwrap()), "{}", answers[1]);
    let raw = client.raw_call("blockchain.block.header", [Param::U32(0)]).unwrap();
    assert_eq!(raw, json!(genesis_header));
    assert!(client.raw_call("blockchain.nonsense", []).is_err());
    client.ping().unwrap();
}

fn header_calls(client: &Client, world: &World) {
    let blocks = world.chain.blocks();
    let tip = client.block_headers_subscribe().unwrap();
    assert_eq!((tip.height, tip.header), (blocks.len() - 1, blocks.last().unwrap().header));
    assert_eq!(client.block_headers_subscribe_raw().unwrap().header, serialize(&tip.header));
    assert!(client.block_headers_pop().unwrap().is_none());

    assert_eq!(client.block_header(17).unwrap(), blocks[17].header);
    assert_eq!(client.block_header_raw(0).unwrap(), serialize(&blocks[0].header));
    assert!(client.block_header(blocks.len()).is_err());
    let some = client.batch_block_header([3_u32, 1, 2]).unwrap();
    assert_eq!(some, [3, 1, 2].map(|height: usize| blocks[height].header));

    let headers = client.block_headers(5, 30).unwrap();
    assert_eq!((headers.count, headers.headers.len()), (30, 30));
    assert!(headers.max >= 2016);
    assert!(headers.headers.iter().eq(blocks[5..35].iter().map(|block| &block.header)));
    let last = client.block_headers(blocks.len() - 2, 100).unwrap();
    assert!(last.headers.iter().eq(blocks[blocks.len() - 2..].iter().map(|block| &block.header)));
}

fn script_calls(client: &Client, world: &World) {
    let scripts = scripts(&world.chain);
    let facts: Vec<Facts> = scripts.iter().map(|script| Facts::of(&world.chain, script)).collect();
    assert!(facts.iter().any(|facts| facts.history.len() >= 100), "a script has a long history");
    assert!(facts.iter().any(|facts| facts.history.is_empty()), "a script has none");
    let all: Vec<&Script> = scripts.iter().map(ScriptBuf::as_script).collect();

    let statuses = client.batch_script_subscribe(&all).unwrap();
    let balances = client.batch_script_get_balance(&all).unwrap();
    let histories = client.batch_script_get_history(&all).unwrap();
    let coins = client.batch_script_list_unspent(&all).unwrap();
    for (index, (script, facts)) in all.iter().zip(&facts).enumerate() {
        for balance in [&balances[index], &client.script_get_balance(script).unwrap()] {
            assert_eq!((balance.confirmed, balance.unconfirmed), (facts.balance_sat(), 0), "{script}");
        }
        for history in [&histories[index], &client.script_get_history(script).unwrap()] {
            assert_eq!(heights(history), facts.history, "{script}");
        }
        for unspent in [&coins[index], &client.script_list_unspent(script).unwrap()] {
            assert_eq!(outputs(unspent), facts.unspent, "{script}");
        }
        assert_eq!(statuses[index].map(|status| *status), facts.status(), "{script}");
        assert!(client.script_pop(script).unwrap().is_none());
        assert!(client.script_unsubscribe(script).unwrap());
        assert_eq!(client.script_subscribe(script).unwrap().map(|status| *status), facts.status(), "{script}");
        assert!(client.script_unsubscribe(script).unwrap());
    }
}

fn heights(history: &[GetHistoryRes]) -> Vec<(Txid, usize)> {
    history.iter().map(|entry| (entry.tx_hash, usize::try_from(entry.height).unwrap())).collect()
}

fn outputs(unspent: &[ListUnspentRes]) -> Vec<Unspent> {
    let output = |coin: &ListUnspentRes| Unspent {
        outpoint: bitcoin::OutPoint { txid: coin.tx_hash, vout: u32::try_from(coin.tx_pos).unwrap() },
        height: coin.height,
        sat: coin.value,
    };
    let mut outputs: Vec<Unspent> = unspent.iter().map(output).collect();
    outputs.sort();
    outputs
}

fn transaction_calls(client: &Client, world: &World) {
    let blocks = world.chain.blocks();
    let (height, block) = blocks.iter().enumerate().max_by_key(|(_, block)| block.txdata.len()).unwrap();
    assert!(block.txdata.len() > 30, "a block has many transactions");
    let txids: Vec<Txid> = block.txdata.iter().map(bitcoin::Transaction::compute_txid).collect();
    let some = &txids[..20];

    assert_eq!(client.batch_transaction_get(some).unwrap(), block.txdata[..20]);
    let raw = client.batch_transaction_get_raw(some).unwrap();
    assert!(raw.iter().eq(block.txdata[..20].iter().map(serialize).collect::<Vec<_>>().iter()));
    assert_eq!(client.transaction_get(&txids[1]).unwrap(), block.txdata[1]);
    assert_eq!(client.transaction_get_raw(&txids[1]).unwrap(), serialize(&block.txdata[1]));
    assert!(client.transaction_get(&Txid::all_zeros()).is_err());

    let wanted: Vec<(Txid, usize)> = some.iter().map(|txid| (*txid, height)).collect();
    let root = block.header.merkle_root.to_byte_array();
    for (pos, proof) in client.batch_transaction_get_merkle(&wanted).unwrap().iter().enumerate() {
        assert_eq!((proof.block_height, proof.pos), (height, pos));
        assert_eq!(merkle_root(txids[pos], pos, &proof.merkle), root);
    }
    let last = txids.len() - 1;
    let proof = client.transaction_get_merkle(&txids[last], height).unwrap();
    assert_eq!((proof.pos, merkle_root(txids[last], last, &proof.merkle)), (last, root));
    assert!(client.transaction_get_merkle(&txids[last], height - 1).is_err());

    assert_eq!(client.txid_from_pos(height, last).unwrap(), txids[last]);
    let proven = client.txid_from_pos_with_merkle(height, last).unwrap();
    assert_eq!((proven.tx_hash, proven.merkle), (txids[last], proof.merkle));
    assert!(client.txid_from_pos(height, txids.len()).is_err());
}

/// Folds a branch; the client returns its hashes in display order, which is reversed.
fn merkle_root(txid: Txid, mut pos: usize, branch: &[[u8; 32]]) -> [u8; 32] {
    let mut hash = txid.to_byte_array();
    for shown in branch {
        let mut other = *shown;
        other.reverse();
        let (left, right) = if pos.is_multiple_of(2) { (hash, other) } else { (other, hash) };
        let mut engine = sha256d::Hash::engine();
        engine.input(&left);
        engine.input(&right);
        hash = sha256d::Hash::from_engine(engine).to_byte_array();
        pos /= 2;
    }
    hash
}

fn a_broadcast_is_mined_and_seen(client: &Client, world: &World) {
    let wallet = world.chain.wallet();
    let coin = world.chain.coins().find(|coin| coin.lock.form == Form::P2wpkh && coin.sat() > 50_000).unwrap();
    let payee = Lock::new(Form::P2wpkh, 424_242);
    let script = wallet.script_pubkey(payee);
    let sat = coin.sat() - 1000;
    let tx = signed(wallet, std::slice::from_ref(coin), &[Payment::to_lock(payee, sat)]);
    let txid = tx.compute_txid();

    client.block_headers_subscribe().unwrap();
    assert!(client.script_subscribe(&script).unwrap().is_none());
    let mut broken = tx.clone();
    broken.output[0].value += bitcoin::Amount::from_sat(1);
    assert!(client.transaction_broadcast(&broken).is_err(), "its signature is wrong");
    assert_eq!(client.transaction_broadcast(&tx).unwrap(), txid);
    assert_eq!(world.node.rpc("getrawmempool", json!([])).unwrap(), json!([txid]));
    assert_eq!(client.transaction_get(&txid).unwrap(), tx, "the node's mempool has it");

    let miner = wallet.address(Lock::new(Form::P2tr, 1)).unwrap().to_string();
    world.node.rpc("generatetoaddress", json!([1, miner])).unwrap();
    let height = world.chain.blocks().len();
    let tip = until(client, || client.block_headers_pop().unwrap());
    assert_eq!((tip.height, tip.header.block_hash()), (height, world.node.tip().unwrap()));
    let expected = Facts { history: vec![(txid, height)], unspent: vec![] }.status();
    // The broadcast may have been notified first.
    until(client, || client.script_pop(&script).unwrap().filter(|status| Some(**status) == expected));
    assert_eq!(heights(&client.script_get_history(&script).unwrap()), [(txid, height)]);
    assert_eq!(client.script_get_balance(&script).unwrap().confirmed, sat);
    assert_eq!(client.transaction_get_merkle(&txid, height).unwrap().pos, 1);
}

/// The client reads notifications only while it waits for an answer.
fn until<T>(client: &Client, mut popped: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        client.ping().unwrap();
        if let Some(notification) = popped() {
            return notification;
        }
        assert!(start.elapsed() < PATIENCE, "no notification came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hex(bytes: &[u8]) -> String {
    bitcoin::hex::DisplayHex::to_lower_hex_string(bytes)
}
