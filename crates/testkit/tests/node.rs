//! A real node checks generated chains: it accepts every block, follows reorgs, and imports the files.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use birdhouse_regtest::Error as RegtestError;
use birdhouse_testkit::bench_chain::LoadBlock;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, bench_chain, loadblock};
use serde_json::json;

fn node() -> Bitcoind {
    Bitcoind::start(Options::default()).unwrap()
}

/// Adds blocks with a payment to a different kind of script in each, so that two branches differ.
fn extend(chain: &mut ChainBuilder, blocks: u32) {
    for _ in 0..blocks {
        mix::random_traffic(chain, 5, 20);
        chain.mine_block();
    }
}

#[test]
fn node_accepts_every_shape_of_the_sample_chain() {
    let node = node();
    let chain = mix::sample(11, Size::SMALL);
    chain.submit_to(&node).unwrap();
    assert_eq!(node.tip().unwrap(), chain.tip());
    let coins = node.rpc("gettxoutsetinfo", json!(["none"])).unwrap()["txouts"].as_u64().unwrap();
    let spendable = chain.coins().count() as u64;
    assert!(coins >= spendable, "the node has {coins} coins, we {spendable} of them");
    let spent_forms: std::collections::BTreeSet<Form> = chain
        .blocks()
        .iter()
        .flat_map(|block| &block.txdata)
        .flat_map(|tx| &tx.input)
        .filter_map(|input| {
            Form::SPENDABLE.into_iter().find(|&form| {
                let script = chain.wallet().script_pubkey(Lock::new(form, 700_000));
                chain.blocks().iter().flat_map(|block| &block.txdata).any(|tx| {
                    let vout = input.previous_output.vout as usize;
                    tx.output.get(vout).is_some_and(|output| output.script_pubkey == script)
                        && tx.compute_txid() == input.previous_output.txid
                })
            })
        })
        .collect();
    assert_eq!(spent_forms.len(), Form::SPENDABLE.len(), "spent: {spent_forms:?}");
}

#[test]
fn node_accepts_spends_of_unusual_scripts() {
    let node = node();
    let mut chain = ChainBuilder::new(20);
    mix::mature(&mut chain);
    let payments = Form::UNUSUAL.map(|form| [50_000, 40_000].map(|sat| Payment::to_lock(Lock::new(form, 7), sat)));
    let txid = chain.pay(payments.as_flattened());
    chain.mine_block();
    let coins = chain.coins().filter(|coin| coin.outpoint.txid == txid && coin.lock.number == 7).cloned();
    let (each, all): (Vec<_>, Vec<_>) = coins.partition(|coin| coin.sat() == 50_000);
    assert_eq!((each.len(), all.len()), (Form::UNUSUAL.len(), Form::UNUSUAL.len()));
    for coin in &each {
        chain.spend(std::slice::from_ref(coin), &[Payment::to_lock(Lock::new(Form::P2tr, 1), 49_000)]);
    }
    chain.spend(&all, &[Payment::to_lock(Lock::new(Form::P2tr, 1), 200_000)]);
    chain.mine_block();
    chain.submit_to(&node).unwrap();
    assert_eq!(node.tip().unwrap(), chain.tip());
}

#[test]
fn node_follows_reorgs_of_several_depths() {
    let node = node();
    let mut chain = ChainBuilder::new(12);
    mix::mature(&mut chain);
    extend(&mut chain, 20);
    chain.submit_to(&node).unwrap();
    for depth in [1, 2, 7, 19, 130] {
        let (fork, stale) = (chain.height() - depth, chain.tip());
        chain.rollback_to(fork);
        extend(&mut chain, depth);
        chain.submit_to(&node).unwrap();
        assert_eq!(node.tip().unwrap(), stale, "equal work: the first seen stays");
        extend(&mut chain, 1);
        chain.submit_to(&node).unwrap();
        assert_eq!(node.tip().unwrap(), chain.tip(), "depth {depth}");
    }
}

#[test]
fn invalidated_block_leaves_and_returns() {
    let node = node();
    let mut chain = ChainBuilder::new(13);
    chain.mine(5);
    chain.submit_to(&node).unwrap();
    let third = chain.blocks()[3].block_hash();
    node.invalidate(third).unwrap();
    assert_eq!(node.height().unwrap(), 2);
    node.reconsider(third).unwrap();
    assert_eq!(node.tip().unwrap(), chain.tip());
}

#[test]
fn node_refuses_a_block_that_pays_too_much() {
    let node = node();
    let mut chain = ChainBuilder::new(14);
    chain.mine(1);
    let mut block = chain.blocks()[1].clone();
    block.txdata[0].output[0].value += bitcoin::Amount::from_sat(1);
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    while block.header.validate_pow(block.header.target()).is_err() {
        block.header.nonce += 1;
    }
    let error = node.submit(1, &block).unwrap_err();
    assert!(
        matches!(&error, RegtestError::BlockRefused { height: 1, reason } if reason.contains("bad-cb-amount")),
        "{error}"
    );
}

#[test]
fn killed_node_restarts_where_it_was() {
    let mut node = node();
    let mut chain = ChainBuilder::new(15);
    chain.mine(10);
    chain.submit_to(&node).unwrap();
    let port = node.rpc_port();
    node.stop().unwrap();
    node.restart().unwrap();
    assert_eq!((node.tip().unwrap(), node.rpc_port()), (chain.tip(), port));
    node.kill9();
    assert!(node.rpc("getblockcount", json!([])).is_err());
    node.restart().unwrap();
    chain.submit_to(&node).unwrap();
    assert_eq!(node.tip().unwrap(), chain.tip());
}

#[test]
fn dropped_node_is_gone_with_its_folder() {
    let node = node();
    let (pid, datadir) = (node.pid().unwrap(), node.datadir().to_owned());
    drop(node);
    assert!(!datadir.exists());
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

/// Environment variable with the node's data folder, for the process that is killed.
const DOOMED: &str = "BIRDHOUSE_TEST_DOOMED_DATADIR";

#[test]
fn node_dies_with_a_parent_that_is_killed() {
    if let Some(datadir) = std::env::var_os(DOOMED) {
        let node = Bitcoind::start(Options::default().in_datadir(&datadir)).unwrap();
        fs::write(Path::new(&datadir).join("pid"), node.pid().unwrap().to_string()).unwrap();
        loop {
            thread::park();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut doomed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "node_dies_with_a_parent_that_is_killed"])
        .env(DOOMED, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let running = |pid: u32| {
        // An orphan that is not waited for stays as a zombie, which runs no code.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
    };
    let pid = (0..6000).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        // Between its creation and its writing the file is empty.
        fs::read_to_string(folder.path().join("pid")).ok()?.parse().ok().filter(|pid| running(*pid))
    });
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let pid = pid.expect("the node came up");
    assert!(
        (0..6000).any(|_| {
            thread::sleep(Duration::from_millis(20));
            !running(pid)
        }),
        "the node {pid} outlived its parent"
    );
}

#[test]
#[ignore = "minutes: the larger samples, on demand"]
fn node_accepts_the_larger_samples() {
    for size in [Size::MEDIUM, Size::LARGE] {
        let node = node();
        let chain = mix::sample(19, size);
        chain.submit_to(&node).unwrap();
        assert_eq!(node.tip().unwrap(), chain.tip());
        let txs: usize = chain.blocks().iter().map(|block| block.txdata.len()).sum();
        eprintln!("{} blocks, {txs} transactions", chain.height());
    }
}

#[test]
fn imported_file_gives_the_same_chain() {
    let folder = tempfile::tempdir().unwrap();
    let (file, datadir) = (folder.path().join("chain.dat"), folder.path().join("node"));
    let chain = mix::sample(16, Size::SMALL);
    let mut out = BufWriter::new(File::create(&file).unwrap());
    chain.write_loadblock(&mut out).unwrap();
    out.flush().unwrap();
    loadblock::import(&file, &datadir, chain.tip()).unwrap();
    let node = Bitcoind::start(Options::default().in_datadir(&datadir)).unwrap();
    assert_eq!(node.tip().unwrap(), chain.tip());
}

#[test]
fn node_accepts_the_benchmark_chain_with_all_checks_on() {
    let folder = tempfile::tempdir().unwrap();
    let (file, datadir) = (folder.path().join("chain.dat"), folder.path().join("node"));
    let plan = bench_chain::Plan { seed: 17, blocks: 160, txs: 40_000 };
    let mut out = LoadBlock(BufWriter::new(File::create(&file).unwrap()));
    let stats = bench_chain::generate(plan, &mut out).unwrap();
    out.0.flush().unwrap();
    loadblock::import(&file, &datadir, stats.tip.unwrap()).unwrap();
}

#[test]
fn foreign_script_is_paid() {
    let node = node();
    let mut chain = ChainBuilder::new(18);
    mix::mature(&mut chain);
    let address = chain.wallet().foreign_address(1);
    let txid = chain.pay(&[Payment::to_script(address.script_pubkey(), 123_456)]);
    chain.mine_block();
    chain.submit_to(&node).unwrap();
    let paid = node.rpc("gettxout", json!([txid.to_string(), 0])).unwrap();
    assert_eq!(paid["scriptPubKey"]["address"], json!(address.to_string()));
}
