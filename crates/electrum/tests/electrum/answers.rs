//! Every answer about a chain, over a socket, against a scan of every transaction and against Core.

use birdhouse_electrum::Settings;
use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::{Bitcoind, ChainBuilder, mix};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::constants::genesis_block;
use bitcoin::{Network, TxMerkleNode};
use serde_json::{Value, json};

use crate::model;
use crate::world::{Server, node_with};

const BATCH: usize = 50;

struct World {
    chain: ChainBuilder,
    node: Bitcoind,
    server: Server,
}

fn world(seed: u64) -> World {
    let chain = mix::sample(seed, mix::Size::SMALL);
    let node = node_with(&chain);
    let server = Server::start(&node, Settings::default());
    World { chain, node, server }
}

/// Calls one method with every argument, in batches.
fn ask_all(client: &mut Client, method: &str, params: &[Value]) -> Vec<Value> {
    let mut answers = Vec::new();
    for chunk in params.chunks(BATCH) {
        let requests: Vec<_> = chunk.iter().map(|params| (method, params.clone())).collect();
        answers.extend(client.batch(&requests).unwrap().into_iter().map(Result::unwrap));
    }
    answers
}

#[test]
fn history_balance_unspent_and_status_are_those_of_a_scan() {
    let World { chain, server, node: _node } = world(1);
    let scripts = model::scripts(chain.blocks());
    let params: Vec<Value> = scripts.keys().map(|scripthash| json!([scripthash])).collect();
    let mut client = server.client();
    let mut all = |method: &str| ask_all(&mut client, &format!("blockchain.scripthash.{method}"), &params);
    let (histories, balances) = (all("get_history"), all("get_balance"));
    let (unspents, statuses, mempools) = (all("listunspent"), all("subscribe"), all("get_mempool"));
    for (index, (scripthash, script)) in scripts.iter().enumerate() {
        assert_eq!(histories[index], script.history(), "{scripthash}");
        assert_eq!(balances[index], script.balance(), "{scripthash}");
        assert_eq!(unspents[index], script.unspent(), "{scripthash}");
        assert_eq!(statuses[index], script.status(), "{scripthash}");
        assert_eq!(mempools[index], json!([]), "{scripthash}");
    }
    assert!(scripts.len() > 100, "the chain has scripts");
}

#[test]
fn a_script_without_history_is_empty_and_has_no_status() {
    let World { server, node: _node, .. } = world(2);
    let mut client = server.client();
    let mut ask = |method: &str| client.call(&format!("blockchain.scripthash.{method}"), json!(["ab".repeat(32)]));
    assert_eq!(ask("get_history").unwrap(), json!([]));
    assert_eq!(ask("listunspent").unwrap(), json!([]));
    assert_eq!(ask("get_balance").unwrap(), json!({ "confirmed": 0, "unconfirmed": 0 }));
    assert_eq!(ask("subscribe").unwrap(), Value::Null);
    assert_eq!(ask("unsubscribe").unwrap(), json!(true));
    assert_eq!(ask("unsubscribe").unwrap(), json!(false));
}

#[test]
fn transactions_and_their_proofs_are_those_of_the_blocks() {
    let World { chain, server, node } = world(3);
    let mut client = server.client();
    let mut positions = Vec::new();
    for (height, block) in (1u32..).zip(&chain.blocks()[1..]) {
        positions.extend(block.txdata.iter().enumerate().map(|(position, tx)| (height, position, tx.clone())));
    }
    let txids: Vec<_> = positions.iter().map(|(_, _, tx)| tx.compute_txid().to_string()).collect();
    let params = |of: &dyn Fn(usize) -> Value| (0..positions.len()).map(of).collect::<Vec<_>>();
    let raws = ask_all(&mut client, "blockchain.transaction.get", &params(&|at| json!([txids[at]])));
    let merkles =
        ask_all(&mut client, "blockchain.transaction.get_merkle", &params(&|at| json!([txids[at], positions[at].0])));
    let ids = ask_all(
        &mut client,
        "blockchain.transaction.id_from_pos",
        &params(&|at| json!([positions[at].0, positions[at].1])),
    );
    let proven = ask_all(
        &mut client,
        "blockchain.transaction.id_from_pos",
        &params(&|at| json!([positions[at].0, positions[at].1, true])),
    );
    for (at, (height, position, tx)) in positions.iter().enumerate() {
        let root = chain.blocks()[*height as usize].header.merkle_root.to_string();
        let txid = &txids[at];
        assert_eq!(raws[at], json!(serialize_hex(tx)), "{txid}");
        assert_eq!(ids[at], json!(txid));
        assert_eq!(merkles[at]["block_height"], json!(height));
        assert_eq!(merkles[at]["pos"], json!(position));
        assert_eq!(model::merkle_root(txid, &merkles[at]["merkle"], *position as u64), root);
        assert_eq!(proven[at], json!({ "tx_hash": txid, "merkle": merkles[at]["merkle"] }));
    }
    // Verbose is Core's own answer, with the block.
    for (height, position, tx) in positions.iter().step_by(50) {
        let txid = tx.compute_txid().to_string();
        let block = chain.blocks()[*height as usize].block_hash().to_string();
        let mut verbose = client.call("blockchain.transaction.get", json!([txid, true])).unwrap();
        // Core has this member only where the request names a block.
        verbose["in_active_chain"] = json!(true);
        assert_eq!(verbose, node.rpc("getrawtransaction", json!([txid, true, block])).unwrap(), "{position}");
    }
}

#[test]
fn headers_and_their_proofs_are_those_of_the_chain() {
    let World { chain, server, node: _node } = world(4);
    let mut client = server.client();
    let tip = chain.height();
    let headers: Vec<String> = chain.blocks().iter().map(|block| serialize_hex(&block.header)).collect();
    let hashes: Vec<String> = chain.blocks().iter().map(|block| block.block_hash().to_string()).collect();
    let heights: Vec<Value> = (0..=tip).map(|height| json!([height])).collect();
    assert_eq!(json!(ask_all(&mut client, "blockchain.block.header", &heights)), json!(headers));

    let mut call = |method: &str, params: Value| client.call(method, params).unwrap();
    let root = |cp_height: usize| {
        let leaves = chain.blocks()[..=cp_height]
            .iter()
            .map(|block| block.block_hash().to_string().parse::<TxMerkleNode>().unwrap());
        bitcoin::merkle_tree::calculate_root(leaves).unwrap().to_string()
    };
    for (height, cp_height) in [(0, 1), (5, 8), (8, 8), (1, tip), (tip, tip)] {
        let proven = call("blockchain.block.header", json!([height, cp_height]));
        assert_eq!(proven["header"], json!(headers[height as usize]));
        assert_eq!(proven["root"], json!(root(cp_height as usize)));
        let hash = &hashes[height as usize];
        assert_eq!(json!(model::merkle_root(hash, &proven["branch"], height.into())), proven["root"]);
    }

    let run = call("blockchain.block.headers", json!([3, 4]));
    assert_eq!(run, json!({ "count": 4, "headers": headers[3..7], "max": 2016 }));
    let run = call("blockchain.block.headers", json!([tip - 1, 10]));
    assert_eq!(run, json!({ "count": 2, "headers": headers[headers.len() - 2..], "max": 2016 }));
    let run = call("blockchain.block.headers", json!([tip + 1, 10]));
    assert_eq!(run, json!({ "count": 0, "headers": [], "max": 2016 }));
    let run = call("blockchain.block.headers", json!([3, 4, 20]));
    assert_eq!(run["root"], json!(root(20)));
    assert_eq!(json!(model::merkle_root(&hashes[6], &run["branch"], 6)), run["root"]);

    let mut old = server.stranger();
    let run = old.call("blockchain.block.headers", json!([3, 2])).unwrap();
    assert_eq!(run, json!({ "count": 2, "hex": headers[3..5].concat(), "max": 2016 }));
}

#[test]
fn what_the_chain_does_not_have_is_an_error_of_the_client() {
    let World { chain, server, node: _node } = world(5);
    let mut client = server.client();
    let tip = chain.height();
    let txid = chain.blocks()[1].txdata[0].compute_txid().to_string();
    let mut error = |method: &str, params: Value| client.batch(&[(method, params)]).unwrap().remove(0).unwrap_err();
    for (method, params) in [
        ("blockchain.block.header", json!([tip + 1])),
        ("blockchain.block.header", json!([u64::MAX])),
        ("blockchain.block.header", json!([9, 8])),
        ("blockchain.block.header", json!([8, tip + 1])),
        ("blockchain.block.headers", json!([3, 5, 6])),
        ("blockchain.block.headers", json!([3, 5, tip + 1])),
        ("blockchain.transaction.get_merkle", json!([txid, 2])),
        ("blockchain.transaction.get_merkle", json!([txid, tip + 1])),
        ("blockchain.transaction.get_merkle", json!(["ab".repeat(32), 1])),
        ("blockchain.transaction.id_from_pos", json!([1, 1])),
        ("blockchain.transaction.id_from_pos", json!([tip + 1, 0])),
    ] {
        assert_eq!(error(method, params.clone())["code"], json!(1), "{method} {params}");
    }
    let unknown = "daemon error: DaemonError({'code': -5, 'message': 'No such mempool or blockchain transaction. \
                   Use gettransaction for wallet transactions.'})";
    for verbose in [false, true] {
        let error = error("blockchain.transaction.get", json!(["ab".repeat(32), verbose]));
        assert_eq!(error, json!({ "code": 2, "message": unknown }));
    }
}

/// As ElectrumX answers, beside which `compare` of the server asks the same, and as the protocol's basics say. REST
/// counts the output: its peer does.
#[test]
fn the_script_of_the_genesis_block_has_no_history_of_its_output() {
    let World { server, .. } = world(8);
    let mut client = server.client();
    let genesis = genesis_block(Network::Regtest);
    let hash = scripthash(genesis.txdata[0].output[0].script_pubkey.as_bytes());
    let mut call = |method: &str| client.call(&format!("blockchain.scripthash.{method}"), json!([hash])).unwrap();
    assert_eq!(call("get_history"), json!([]));
    assert_eq!(call("get_balance"), json!({ "confirmed": 0, "unconfirmed": 0 }));
    assert_eq!(call("listunspent"), json!([]));
    assert_eq!(call("subscribe"), json!(null));
}

#[test]
fn the_server_says_what_it_is_and_what_the_node_wants() {
    let World { server, node, .. } = world(6);
    let mut client = server.client();
    let mut call = |method: &str| client.call(method, json!([])).unwrap();
    let features = call("server.features");
    assert_eq!(features["genesis_hash"], json!(genesis_block(Network::Regtest).block_hash().to_string()));
    let info = call("mempool.get_info");
    let expected = node.rpc("getmempoolinfo", json!([])).unwrap();
    for member in ["mempoolminfee", "minrelaytxfee", "incrementalrelayfee"] {
        assert_eq!(info[member], expected[member]);
    }
    assert_eq!(call("mempool.get_fee_histogram"), json!([]));
    assert_eq!(client.call("blockchain.estimatefee", json!([2])).unwrap(), json!(-1));
    assert_eq!(client.call("blockchain.estimatefee", json!([2, "CONSERVATIVE"])).unwrap(), json!(-1));
    let relay_fee = server.stranger().call("blockchain.relayfee", json!([])).unwrap();
    assert_eq!(relay_fee, node.rpc("getnetworkinfo", json!([])).unwrap()["relayfee"]);
}
