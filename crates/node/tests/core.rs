//! A real node behind `Node`: tip, waiting, broadcast, restarts and messages.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::Height;
use birdhouse_chain::source::{Node, NodeError, SourceErrorKind};
use birdhouse_node::{Auth, CoreNode, KeptBlocks, NodeConf, NodeOptions, PruneMode, Rpc, check_node};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use bitcoin::consensus::encode::{serialize, serialize_hex};
use bitcoin::hashes::Hash as _;
use bitcoin::{Network, OutPoint, ScriptBuf, Txid};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use common::{address, rpc, start};

fn mined(node: &Bitcoind, seed: u64, blocks: u32) -> ChainBuilder {
    let mut chain = ChainBuilder::new(seed);
    chain.mine(blocks);
    chain.submit_to(node).unwrap();
    chain
}

#[test]
fn tip_and_hashes_are_those_of_the_active_chain() {
    let node = start();
    let chain = mined(&node, 31, 20);
    let core = CoreNode::new(rpc(&node));
    let tip = core.best_block().unwrap();
    assert_eq!((tip.height, tip.hash), (Height(20), chain.tip()));
    let hashes = core.block_hashes(Height(15)..Height(5000)).unwrap();
    let expected: Vec<_> = chain.blocks()[15..].iter().map(bitcoin::Block::block_hash).collect();
    assert_eq!(hashes, expected);
    assert_eq!(core.block_hashes(Height(0)..Height(2)).unwrap().len(), 2);
    assert!(core.block_hashes(Height(21)..Height(22)).unwrap().is_empty());
    assert!(core.block_hashes(Height(7)..Height(7)).unwrap().is_empty());
}

#[test]
fn waiting_ends_with_a_new_tip_a_reorg_or_the_time() {
    let node = start();
    let mut chain = mined(&node, 32, 5);
    let core = CoreNode::new(rpc(&node));
    let long = Duration::from_mins(2);
    core.wait_for_update(chain.blocks()[3].block_hash(), long).unwrap();
    core.wait_for_update(chain.tip(), Duration::from_millis(200)).unwrap();
    assert_eq!(core.best_block().unwrap().hash, chain.tip());
    let old = chain.tip();
    chain.mine(1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| core.wait_for_update(old, long));
        chain.submit_to(&node).unwrap();
        waiting.join().unwrap().unwrap();
    });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| core.wait_for_update(chain.tip(), long));
        node.invalidate(chain.tip()).unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(core.best_block().unwrap().hash, old);
}

#[test]
fn transaction_is_broadcast_looked_up_and_refused_with_cores_code() {
    let node = start();
    let mut chain = ChainBuilder::new(33);
    mix::mature(&mut chain);
    chain.submit_to(&node).unwrap();
    let core = CoreNode::new(rpc(&node));
    let script = chain.wallet().foreign_address(1).script_pubkey();
    let txid = chain.pay(&[Payment::to_script(script, 50_000)]);
    let block = chain.mine_block().clone();
    let raw = serialize_hex(block.txdata.iter().find(|tx| tx.compute_txid() == txid).unwrap());
    let code = |error: NodeError| match error {
        NodeError::Rejected { code, .. } => code,
        NodeError::Unavailable(e) => panic!("{e}"),
    };
    assert_eq!(core.broadcast(&raw).unwrap(), txid);
    assert_eq!(core.mempool_transaction(txid).unwrap(), raw);
    let value = |json: Box<RawValue>| serde_json::from_str::<Value>(json.get()).unwrap();
    assert_eq!(value(core.mempool_info().unwrap())["size"], json!(1));
    assert_eq!(value(core.transaction_verbose(txid).unwrap())["txid"], json!(txid.to_string()));
    let accepted = value(core.test_mempool_accept(std::slice::from_ref(&raw)).unwrap());
    assert_eq!(accepted[0]["reject-reason"], json!("txn-already-in-mempool"));
    node.submit(chain.height(), &block).unwrap();
    assert_eq!(code(core.transaction_verbose(txid).unwrap_err()), -5, "the node has no index of transactions");
    assert_eq!(code(core.broadcast("00").unwrap_err()), -22);
    assert_eq!(code(core.mempool_transaction(txid).unwrap_err()), -5);
    assert_eq!(code(core.decode_transaction(&[0, 1, 2]).unwrap_err()), -22);
    assert_eq!(code(core.estimate_fee(0, None).unwrap_err()), -8);
    assert_eq!(code(core.submit_package(&["00".to_owned()]).unwrap_err()), -22);
    assert_eq!(core.estimate_fee(2, Some("ECONOMICAL")).unwrap(), None);
    assert!(core.relay_fee().unwrap() > 0.0);
}

#[test]
fn a_burn_is_broadcast_alone_and_as_a_package() {
    let node = start();
    let mut chain = ChainBuilder::new(34);
    mix::mature(&mut chain);
    chain.submit_to(&node).unwrap();
    let core = CoreNode::new(rpc(&node));
    let txid = chain.pay(&[Payment::to_script(ScriptBuf::new_op_return(b"gone"), 5_000)]);
    let block = chain.mine_block().clone();
    let raw = serialize_hex(block.txdata.iter().find(|tx| tx.compute_txid() == txid).unwrap());
    assert_eq!(core.broadcast(&raw).unwrap(), txid);
    let package: Value = serde_json::from_str(core.submit_package(&[raw]).unwrap().get()).unwrap();
    assert_eq!(package["package_msg"], json!("success"));
}

#[test]
fn a_transaction_is_decoded_as_core_shows_it_in_its_block() {
    let node = start();
    let mut chain = ChainBuilder::new(35);
    mix::mature(&mut chain);
    mix::every_form(&mut chain);
    chain.submit_to(&node).unwrap();
    let core = CoreNode::new(rpc(&node));
    for block in &chain.blocks()[1..] {
        for tx in block.txdata.iter().take(20) {
            let decoded: Value = serde_json::from_str(core.decode_transaction(&serialize(tx)).unwrap().get()).unwrap();
            let params = json!([tx.compute_txid().to_string(), true, block.block_hash().to_string()]);
            let mut shown = node.rpc("getrawtransaction", params).unwrap();
            for of_the_block in ["hex", "in_active_chain", "blockhash", "confirmations", "time", "blocktime"] {
                assert!(shown.as_object_mut().unwrap().remove(of_the_block).is_some(), "{of_the_block}");
            }
            assert_eq!(decoded, shown);
        }
    }
}

#[test]
fn spenders_come_from_the_index_of_a_node_that_keeps_one() {
    let mut chain = ChainBuilder::new(45);
    mix::mature(&mut chain);
    chain.pay(&[Payment::to_script(chain.wallet().foreign_address(1).script_pubkey(), 50_000)]);
    let block = chain.mine_block().clone();
    let spender = block.txdata.last().unwrap();
    let spent: Vec<OutPoint> = spender.input.iter().map(|input| input.previous_output).collect();
    let unspent = OutPoint { txid: spender.compute_txid(), vout: 0 };
    let asked = [&spent[..], &[unspent, OutPoint { txid: Txid::all_zeros(), vout: 7 }]].concat();
    for (options, has_index) in [(Options::default(), false), (Options::default().with_indexes(), true)] {
        let node = Bitcoind::start(options).unwrap();
        chain.submit_to(&node).unwrap();
        let core = CoreNode::new(rpc(&node));
        let find = || core.spending_txids(&asked);
        if has_index {
            // The node fills its index beside its other work.
            let patience = Instant::now() + Duration::from_mins(1);
            while !find().is_ok_and(|found| !found.is_empty()) && Instant::now() < patience {
                thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(find().unwrap(), vec![spender.compute_txid(); spent.len()]);
        } else {
            assert_eq!(find().unwrap(), []);
        }
    }
}

#[test]
fn unspent_outputs_are_those_of_blocks_with_their_exact_amounts() {
    let node = start();
    let mut chain = ChainBuilder::new(36);
    mix::mature(&mut chain);
    chain.submit_to(&node).unwrap();
    let core = CoreNode::new(rpc(&node));
    let coins: Vec<_> = chain.coins().take(40).cloned().collect();
    let spent = chain.pay(&[Payment::to_script(chain.wallet().foreign_address(1).script_pubkey(), 12_345_678)]);
    let block = chain.mine_block().clone();
    let by = block.txdata.iter().find(|tx| tx.compute_txid() == spent).unwrap().input[0].previous_output;
    node.submit(chain.height(), &block).unwrap();
    let unknown = OutPoint { txid: Txid::all_zeros(), vout: 7 };
    assert_eq!(core.unspent_outputs(&[by, unknown]).unwrap(), [None, None]);
    let left: Vec<_> = coins.into_iter().filter(|coin| coin.outpoint != by).collect();
    let outpoints: Vec<OutPoint> = left.iter().map(|coin| coin.outpoint).collect();
    let expected: Vec<_> = left.into_iter().map(|coin| Some(coin.output)).collect();
    assert!(!expected.is_empty());
    assert_eq!(core.unspent_outputs(&outpoints).unwrap(), expected);
}

#[test]
fn restarted_node_is_asked_with_its_new_cookie() {
    let mut node = start();
    let client = rpc(&node);
    let core = CoreNode::new(Arc::clone(&client));
    let before = std::fs::read_to_string(node.cookie()).unwrap();
    core.best_block().unwrap();
    node.restart().unwrap();
    assert_ne!(before, std::fs::read_to_string(node.cookie()).unwrap());
    core.best_block().unwrap();
    node.kill9();
    let gone = core.best_block().unwrap_err();
    assert_eq!(gone.kind, SourceErrorKind::Transient);
    assert!(gone.message.contains("is bitcoind running"), "{gone}");
}

#[test]
fn wrong_password_says_what_to_check() {
    let node = start();
    let auth = Auth::UserPassword { user: "nobody".into(), password: "hidden".into() };
    let error = Rpc::new(&address(&node), auth).call::<Value>("uptime", &json!([])).unwrap_err().to_string();
    assert!(error.contains("check rpcuser") && !error.contains("hidden"), "{error}");
}

#[test]
fn password_opens_the_node_as_the_cookie_does() {
    let node = start();
    let cookie = std::fs::read_to_string(node.cookie()).unwrap();
    let (user, password) = cookie.trim().split_once(':').unwrap();
    let options = NodeOptions {
        node_dir: Some(node.datadir().into()),
        rpc_user: Some((user.into(), password.into())),
        ..NodeOptions::default()
    };
    let found = NodeConf::find(&options, None).unwrap();
    let client = Rpc::new(&address(&node), found.auth);
    assert!(client.call::<u64>("uptime", &json!([])).is_ok());
}

#[test]
fn unknown_method_and_batches_keep_their_order() {
    let node = start();
    let client = rpc(&node);
    let unknown = client.call::<Value>("nosuchmethod", &json!([])).unwrap_err();
    assert!(matches!(unknown, NodeError::Rejected { code: -32601, .. }), "{unknown}");
    mined(&node, 34, 30);
    let params: Vec<Value> = (0..35).map(|height| json!([height])).collect();
    let answers = client.batch::<String>("getblockhash", &params).unwrap();
    for (height, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(hash) => assert_eq!(hash, node.block_hash(u32::try_from(height).unwrap()).unwrap().to_string()),
            Err(error) => assert!(height > 30 && matches!(error, NodeError::Rejected { code: -8, .. }), "{error}"),
        }
    }
}

#[test]
fn many_threads_share_the_bounded_connections() {
    let node = start();
    mined(&node, 35, 3);
    let core = CoreNode::new(rpc(&node));
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(core.best_block().unwrap().height, Height(3));
                }
            });
        }
    });
}

#[test]
fn node_is_checked_for_network_and_pruning() {
    let node = start();
    let client = rpc(&node);
    let facts = check_node(&client, Network::Regtest).unwrap();
    assert!(facts.version >= 310_000 && facts.user_agent.contains("Satoshi"), "{facts:?}");
    let error = check_node(&client, Network::Bitcoin).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Permanent);
    for (flag, mode) in [("-prune=1", PruneMode::Manual), ("-prune=550", PruneMode::Automatic)] {
        let pruned = Bitcoind::start(Options::default().arg(flag)).unwrap();
        let kept = check_node(&rpc(&pruned), Network::Regtest).unwrap().kept;
        assert_eq!(kept, KeptBlocks { mode, first: Height(0), headers: Height(0) });
        assert_eq!(kept, KeptBlocks::of(&rpc(&pruned)).unwrap());
    }
    assert_eq!(facts.kept.mode, PruneMode::Off);
}

#[test]
fn node_is_found_by_its_folder() {
    let node = start();
    let options = NodeOptions { node_dir: Some(node.datadir().into()), ..NodeOptions::default() };
    let found = NodeConf::find(&options, None).unwrap();
    assert_eq!(found.network, Network::Regtest);
    assert_eq!(found.blocks_dir, node.blocks_dir());
    assert_eq!(found.auth, Auth::Cookie(node.cookie()));
}
