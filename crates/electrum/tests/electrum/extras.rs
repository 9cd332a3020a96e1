//! Methods of protocol 1.7 and of Fulcrum, over a socket, against a scan of every transaction.

use birdhouse_electrum::Settings;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::{Bitcoind, ChainBuilder, mix};
use bitcoin::OutPoint;
use bitcoin::consensus::encode::serialize_hex;
use serde_json::{Value, json};

use crate::model;
use crate::world::{Server, node_with};

struct World {
    chain: ChainBuilder,
    server: Server,
    _node: Bitcoind,
}

fn world(seed: u64) -> World {
    let chain = mix::sample(seed, mix::Size::SMALL);
    let node = node_with(&chain);
    let server = Server::start(&node, Settings::default());
    World { chain, server, _node: node }
}

/// Calls one method with every argument, in batches; errors as their codes.
fn ask_all(client: &mut Client, method: &str, params: &[Value]) -> Vec<Value> {
    let mut answers = Vec::new();
    for chunk in params.chunks(100) {
        let requests: Vec<_> = chunk.iter().map(|params| (method, params.clone())).collect();
        let results = client.batch(&requests).unwrap().into_iter();
        answers.extend(results.map(|result| result.unwrap_or_else(|error| json!({ "error": error["code"] }))));
    }
    answers
}

#[test]
fn scripts_named_by_their_bytes_have_the_answers_of_their_hashes() {
    let World { chain, server, .. } = world(41);
    let outputs = chain.blocks()[1..].iter().flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
    let mut scripts: Vec<_> = outputs.map(|output| &output.script_pubkey).filter(|s| !s.is_op_return()).collect();
    scripts.sort();
    scripts.dedup();
    let by_bytes: Vec<Value> = scripts.iter().map(|script| json!([script.to_hex_string()])).collect();
    let by_hash: Vec<Value> = scripts.iter().map(|script| json!([model::scripthash(script)])).collect();
    let mut client = server.newest_client();
    let mut both = |verb: &str| {
        let of_hash = ask_all(&mut client, &format!("blockchain.scripthash.{verb}"), &by_hash);
        let of_bytes = ask_all(&mut client, &format!("blockchain.scriptpubkey.{verb}"), &by_bytes);
        of_hash.into_iter().zip(of_bytes).collect::<Vec<_>>()
    };
    for verb in ["get_balance", "subscribe", "unsubscribe"] {
        assert!(both(verb).iter().all(|(of_hash, of_bytes)| of_hash == of_bytes), "{verb}");
    }
    for (verb, member) in [("get_history", "history"), ("get_mempool", "history"), ("listunspent", "utxos")] {
        for (of_hash, of_bytes) in both(verb) {
            assert_eq!(of_bytes, json!({ member: of_hash }), "{verb}");
        }
    }
    assert!(scripts.len() > 100, "the chain has scripts");
}

#[test]
fn histories_in_part_first_uses_and_statuses_are_those_of_a_scan() {
    let World { chain, server, .. } = world(42);
    let scripts = model::scripts(chain.blocks());
    let mut client = server.client();
    let tip = chain.height();
    let mut ask = |method: &str, rest: &[Value]| {
        let params = |scripthash: &String| Value::from([&[json!(scripthash)], rest].concat());
        let params: Vec<Value> = scripts.keys().map(params).collect();
        ask_all(&mut client, &format!("blockchain.scripthash.{method}"), &params)
    };
    for (from, to) in
        [(0, -1), (tip / 2, -1), (0, i64::from(tip)), (tip / 3, i64::from(tip / 2)), (5, 5), (tip + 1, -1)]
    {
        let answers = ask("get_history", &[json!(from), json!(to)]);
        for (answer, script) in answers.iter().zip(scripts.values()) {
            assert_eq!(*answer, script.history_between(from, u32::try_from(to).unwrap_or(u32::MAX)), "{from} to {to}");
        }
    }
    for (answer, script) in ask("get_status", &[]).iter().zip(scripts.values()) {
        assert_eq!(*answer, script.status());
    }
    for (answer, script) in ask("get_first_use", &[]).iter().zip(scripts.values()) {
        let (height, txid) = script.first_use();
        let hash = chain.blocks()[height as usize].block_hash().to_string();
        let expected = json!({
            "block_hash": hash, "height": height, "block_height": height, "tx_hash": txid.to_string(),
        });
        assert_eq!(*answer, expected);
    }
    let unused = client.call("blockchain.scripthash.get_first_use", json!(["ab".repeat(32)])).unwrap();
    assert_eq!(unused, Value::Null);
}

#[test]
fn outpoints_and_unspent_outputs_are_those_of_a_scan() {
    let World { chain, server, .. } = world(43);
    let outputs = model::outputs(chain.blocks());
    let mut client = server.newest_client();
    let params: Vec<Value> = outputs.keys().map(|outpoint| json!([outpoint.txid.to_string(), outpoint.vout])).collect();
    let statuses = ask_all(&mut client, "blockchain.outpoint.get_status", &params);
    let infos = ask_all(&mut client, "blockchain.utxo.get_info", &params);
    for (index, (outpoint, output)) in outputs.iter().enumerate() {
        assert_eq!(statuses[index], output.status(), "{outpoint}");
        assert_eq!(infos[index], output.info(), "{outpoint}");
    }
    assert!(outputs.values().any(|output| output.spender.is_some()));
    // An output that can never be spent has a funding transaction alone; one that does not exist has nothing.
    let (height, tx) = (1u32..)
        .zip(&chain.blocks()[1..])
        .flat_map(|(height, block)| block.txdata.iter().map(move |tx| (height, tx)))
        .find(|(_, tx)| tx.output.iter().any(|output| output.script_pubkey.is_op_return()))
        .unwrap();
    let vout = tx.output.iter().position(|output| output.script_pubkey.is_op_return()).unwrap();
    let mut status = |OutPoint { txid, vout }| {
        client.call("blockchain.outpoint.get_status", json!([txid.to_string(), vout, "6a"])).unwrap()
    };
    let unspendable = OutPoint { txid: tx.compute_txid(), vout: u32::try_from(vout).unwrap() };
    assert_eq!(status(unspendable), json!({ "funder_height": height }));
    assert_eq!(status(OutPoint { vout: 100_000, ..unspendable }), json!({}));
    assert_eq!(status(OutPoint { txid: "ab".repeat(32).parse().unwrap(), vout: 0 }), json!({}));
}

#[test]
fn transactions_are_found_without_a_height() {
    let World { chain, server, .. } = world(44);
    let mut positions = Vec::new();
    for (height, block) in (0u32..).zip(chain.blocks()).skip(1) {
        positions.extend(block.txdata.iter().map(|tx| (height, tx.compute_txid().to_string())));
    }
    let mut client = server.client();
    let params: Vec<Value> = positions.iter().map(|(_, txid)| json!([txid])).collect();
    let with_height: Vec<Value> = positions.iter().map(|(height, txid)| json!([txid, height])).collect();
    let with_header: Vec<Value> = positions.iter().map(|(_, txid)| json!([txid, true])).collect();
    let heights = ask_all(&mut client, "blockchain.transaction.get_height", &params);
    let blocks = ask_all(&mut client, "blockchain.transaction.get_confirmed_blockhash", &params);
    let headers = ask_all(&mut client, "blockchain.transaction.get_confirmed_blockhash", &with_header);
    for (index, (height, txid)) in positions.iter().enumerate() {
        let block = &chain.blocks()[*height as usize];
        let hash = block.block_hash().to_string();
        assert_eq!(heights[index], json!(height), "{txid}");
        assert_eq!(blocks[index], json!({ "block_hash": hash, "block_height": height }), "{txid}");
        let header = serialize_hex(&block.header);
        assert_eq!(headers[index], json!({ "block_hash": hash, "block_height": height, "block_header": header }));
    }
    let merkle = "blockchain.transaction.get_merkle";
    assert_eq!(ask_all(&mut client, merkle, &params), ask_all(&mut client, merkle, &with_height));
    for method in ["get_height", "get_confirmed_blockhash", "get_merkle"] {
        let unknown = ask_all(&mut client, &format!("blockchain.transaction.{method}"), &[json!(["ab".repeat(32)])]);
        assert_eq!(unknown, [json!({ "error": 1 })], "{method}");
    }
}

#[test]
fn headers_are_found_by_height_and_by_hash() {
    let World { chain, server, .. } = world(45);
    let mut client = server.client();
    let heights: Vec<Value> = (0..=chain.height()).map(|height| json!([height])).collect();
    let hashes: Vec<Value> = chain.blocks().iter().map(|block| json!([block.block_hash().to_string()])).collect();
    let headers = (0u32..).zip(chain.blocks());
    let headers = headers.map(|(height, block)| json!({ "hex": serialize_hex(&block.header), "height": height }));
    let headers: Vec<Value> = headers.collect();
    assert_eq!(ask_all(&mut client, "blockchain.header.get", &heights), headers);
    assert_eq!(ask_all(&mut client, "blockchain.header.get", &hashes), headers);
    assert_eq!(client.call("blockchain.headers.get_tip", json!([])).unwrap(), *headers.last().unwrap());
    let unknown = [json!([chain.height() + 1]), json!(["ab".repeat(32)])];
    assert_eq!(ask_all(&mut client, "blockchain.header.get", &unknown), [json!({ "error": 1 }), json!({ "error": 1 })]);
}
