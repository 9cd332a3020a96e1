//! An index beside a real node that begins with a UTXO snapshot (assumeutxo): it waits until the node has the blocks
//! below the snapshot, and is that of a node with all blocks then.
//!
//! Core's regtest has the parameters of one snapshot: of block 110 of the chain that its unit tests make
//! (`kernel/chainparams.cpp`, `test/util/setup_common.cpp`).
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::{BuildOptions, Height, Index, Profile, ScriptHash, Secret};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::{Bitcoind, Options};
use bitcoin::consensus::encode::{deserialize_hex, serialize, serialize_hex};
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{Address, Block, Network, ScriptBuf, WPubkeyHash};
use serde_json::{Value, json};

/// Far longer than any step of this test takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Height and hash of the snapshot's block.
const BASE: u32 = 110;
const BASE_HASH: &str = "135eec25a6fb277884e5824e7aa7d052c4868161c99a5122170b5266f86c273d";
/// Time of the first block.
const BEGAN: u32 = 1_598_887_952;
/// The script that every coinbase pays, with the key 1, and that key.
const COINBASE: &str = "raw(210279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798ac)";
const KEY: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
/// Blocks above the snapshot.
const MORE: u32 = 40;

/// Mines the block at a height, with these transactions.
fn mine(node: &Bitcoind, height: u32, transactions: &[Value]) {
    node.rpc("setmocktime", json!([BEGAN + height - 1])).unwrap();
    if transactions.is_empty() {
        node.rpc("generatetodescriptor", json!([1, COINBASE])).unwrap();
    } else {
        node.rpc("generateblock", json!([COINBASE, transactions])).unwrap();
    }
}

/// Spends the coinbase of the block at a height, which lies below the snapshot.
fn spend(node: &Bitcoind, height: u32) -> Value {
    let block = block(node, height);
    let coinbase = &block.txdata[0];
    let pay = |number: u8| {
        let script = ScriptBuf::new_p2wpkh(&WPubkeyHash::from_byte_array([number; 20]));
        Address::from_script(&script, Network::Regtest).unwrap().to_string()
    };
    let txid = coinbase.compute_txid().to_string();
    // Half of the scripts are paid again and again.
    let number = u8::try_from(height).unwrap();
    let outputs = json!([{ pay(number % 5): 20 }, { pay(100 + number): 29.999 }]);
    let raw = node.rpc("createrawtransaction", json!([[{ "txid": txid, "vout": 0 }], outputs])).unwrap();
    let signed = node.rpc("signrawtransactionwithkey", json!([raw, [KEY]])).unwrap();
    assert_eq!(signed["complete"], true, "{signed}");
    signed["hex"].clone()
}

fn block(node: &Bitcoind, height: u32) -> Block {
    let hash = node.block_hash(height).unwrap().to_string();
    deserialize_hex(node.rpc("getblock", json!([hash, 0])).unwrap().as_str().unwrap()).unwrap()
}

fn index_of(node: &Bitcoind) -> Index {
    let source = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
    let genesis = genesis_block(Network::Regtest).block_hash();
    let index = Index::open(Arc::new(MemoryStore::new()), source, genesis, Profile::Full, Secret([7; 16])).unwrap();
    let temp = tempfile::tempdir().unwrap();
    index.build(Some(node.tip().unwrap()), &BuildOptions::modest(temp.path())).unwrap();
    index
}

fn wait_until(what: &str, index: &Index, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never happened: {what}; {:?}", index.waiting());
        thread::sleep(Duration::from_millis(10));
    }
}

fn said(index: &Index) -> String {
    index.waiting().map_or_else(String::new, |waiting| waiting.to_string())
}

/// The states of the node's chain: number of blocks, and true if they are validated.
fn chain_states(node: &Bitcoind) -> Vec<(u64, bool)> {
    let states = node.rpc("getchainstates", json!([])).unwrap();
    let states = states["chainstates"].as_array().unwrap().clone();
    states.iter().map(|state| (state["blocks"].as_u64().unwrap(), state["validated"].as_bool().unwrap())).collect()
}

/// Asserts that both have the same answers about each script and transaction of these blocks.
fn assert_equal(one: &Index, other: &Index, blocks: &[Block]) {
    let (one, other) = (one.snapshot().unwrap(), other.snapshot().unwrap());
    assert_eq!(one.tip(), other.tip());
    let transactions = || blocks.iter().skip(1).flat_map(|block| &block.txdata);
    let outputs = transactions().flat_map(|transaction| &transaction.output);
    let scripts: BTreeSet<ScriptBuf> = outputs.map(|output| output.script_pubkey.clone()).collect();
    for script in &scripts {
        let hash = ScriptHash::of(script.as_bytes());
        assert_eq!(one.history(&hash).unwrap(), other.history(&hash).unwrap(), "{script}");
        assert_eq!(one.unspent(&hash).unwrap(), other.unspent(&hash).unwrap(), "{script}");
        assert_eq!(one.balance(&hash).unwrap(), other.balance(&hash).unwrap(), "{script}");
    }
    for transaction in transactions() {
        let txid = transaction.compute_txid();
        assert_eq!(one.transaction(txid).unwrap().unwrap().raw, serialize(transaction));
        assert_eq!(one.resolved(txid).unwrap(), other.resolved(txid).unwrap());
    }
}

/// Runs `test` while the index follows the node.
fn followed(index: &Index, node: &Bitcoind, test: impl FnOnce()) {
    let core =
        CoreNode::new(Arc::new(Rpc::new(&format!("127.0.0.1:{}", node.rpc_port()), Auth::Cookie(node.cookie()))));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&core, &stop));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn an_index_waits_for_the_blocks_below_a_snapshot_and_is_that_of_a_full_node_then() {
    let full = Bitcoind::start(Options::default()).unwrap();
    (1..=BASE).for_each(|height| mine(&full, height, &[]));
    assert_eq!(full.tip().unwrap().to_string(), BASE_HASH);
    let dump = full.datadir().join("snapshot.dat");
    full.rpc("dumptxoutset", json!([dump, "latest"])).unwrap();
    for number in 1..=MORE {
        let spends: Vec<Value> = if number > 10 { vec![spend(&full, number - 10)] } else { Vec::new() };
        mine(&full, BASE + number, &spends);
    }
    let tip = BASE + MORE;
    let blocks: Vec<Block> = (0..=tip).map(|height| block(&full, height)).collect();

    let mut node = Bitcoind::start(Options::default()).unwrap();
    let index = index_of(&node);
    for block in &blocks[1..] {
        node.rpc("submitheader", json!([serialize_hex(&block.header)])).unwrap();
    }
    node.rpc("loadtxoutset", json!([dump])).unwrap();
    assert_eq!(chain_states(&node), [(0, true), (BASE.into(), false)]);
    assert_eq!(node.height().unwrap(), BASE);
    let submit = |node: &Bitcoind, heights: std::ops::RangeInclusive<u32>| {
        heights.for_each(|height| node.submit(height, &blocks[height as usize]).unwrap());
    };
    let waits = |done: u32| {
        let expected = format!(
            "the node began with a UTXO snapshot (assumeutxo) and still downloads the blocks below it: {done} of {tip} \
             blocks"
        );
        wait_until(&expected, &index, || said(&index).contains(&expected));
        assert_eq!(index.snapshot().unwrap().tip().height, Height(0));
    };
    followed(&index, &node, || {
        waits(0);
        // As the node does, first from the snapshot to the tip, then below it.
        submit(&node, BASE + 1..=tip);
        assert_eq!(chain_states(&node), [(0, true), (tip.into(), false)]);
        submit(&node, 1..=60);
        waits(60);
        submit(&node, 61..=BASE - 1);
        waits(BASE - 1);
        submit(&node, BASE..=BASE);
        wait_until("the node has validated the snapshot", &index, || {
            chain_states(&node).iter().all(|(_, is_validated)| *is_validated)
        });
        let at_tip = || index.snapshot().unwrap().tip().height == Height(tip) && index.waiting().is_none();
        wait_until("the tip", &index, at_tip);
    });
    assert_equal(&index, &index_of(&full), &blocks);
    assert_equal(&index_of(&node), &index_of(&full), &blocks);

    // The node deletes one of its two states of coins, and goes on.
    node.restart().unwrap();
    assert_eq!(chain_states(&node), [(tip.into(), true)]);
    mine(&full, tip + 1, &[spend(&full, MORE - 9)]);
    let blocks = [blocks, vec![block(&full, tip + 1)]].concat();
    node.submit(tip + 1, &blocks[tip as usize + 1]).unwrap();
    followed(&index, &node, || {
        wait_until("the next block", &index, || index.snapshot().unwrap().tip().height == Height(tip + 1));
    });
    assert_equal(&index, &index_of(&full), &blocks);
}
