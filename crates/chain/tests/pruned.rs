//! An index beside a real node that has removed old blocks: they are fetched from a peer, one by one, and what the
//! mempool spends is found without them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::source::{BlockPart, BlockSource as _, SourceErrorKind};
use birdhouse_chain::{BuildOptions, Error, Height, Index, Profile, ScriptHash, Secret, Snapshot, SpentOutput};
use birdhouse_node::{Auth, BlockFiles, CoreNode, FETCH_FLOOR_BYTES, Fetching, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::slow_link::SlowLink;
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use bitcoin::consensus::encode::{serialize, serialize_hex};
use bitcoin::constants::genesis_block;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{Block, BlockHash, Network, Transaction, Txid};
use serde_json::json;

/// Blocks of the chain. With `-fastprune` a block file has 64 KiB, so they fill several.
const BLOCKS: u32 = 700;
/// Height up to which the node is asked to remove blocks.
const PRUNED: u32 = 400;
/// Inputs of one transaction, more than those of a block whose outputs are looked up where there is undo data.
const MANY_INPUTS: u32 = 129;
const PATIENCE: Duration = Duration::from_mins(1);

fn chain() -> ChainBuilder {
    let mut chain = ChainBuilder::new(4802);
    mix::mature(&mut chain);
    // Inputs of taproot show no script.
    let many = |number| Payment::to_lock(Lock::new(Form::P2tr, 7000 + number), 2000);
    let funding = chain.pay(&(0..MANY_INPUTS).map(many).collect::<Vec<_>>());
    chain.mine(2);
    let is_own = |coin: &&Coin| coin.outpoint.txid == funding && coin.lock.form == Form::P2tr;
    let coins: Vec<Coin> = chain.coins().filter(is_own).cloned().collect();
    chain.spend(&coins, &[Payment::to_lock(Lock::new(Form::P2wpkh, 1), 200_000)]);
    chain.mine(1);
    while chain.height() < BLOCKS {
        mix::random_traffic(&mut chain, 8, 6);
        chain.mine(1);
    }
    chain
}

fn rpc(node: &Bitcoind) -> Rpc {
    Rpc::new(&format!("127.0.0.1:{}", node.rpc_port()), Auth::Cookie(node.cookie()))
}

/// Opens an index of the node, which fetches what the node has removed, and keeps that in a folder.
fn index_of(node: &Bitcoind, folder: &Path) -> Index {
    let files = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
    let source = Arc::new(Fetching::new(Box::new(files), rpc(node), folder));
    let genesis = genesis_block(Network::Regtest).block_hash();
    Index::open(Arc::new(MemoryStore::new()), source, genesis, Profile::Full, Secret([7; 16])).unwrap()
}

/// Connects a node to others that listen on ports, and waits until it knows how fast they answer.
fn connect(node: &Bitcoind, ports: &[u16]) {
    for port in ports {
        node.connect(*port).unwrap();
    }
    let began = Instant::now();
    let has_peers = || {
        let peers = node.rpc("getpeerinfo", json!([])).unwrap();
        let is_known = |peer: &&serde_json::Value| {
            peer["servicesnames"].to_string().contains("\"NETWORK\"") && peer["minping"].is_number()
        };
        peers.as_array().unwrap().iter().filter(is_known).count() == ports.len()
    };
    while !has_peers() {
        assert!(began.elapsed() < PATIENCE, "the nodes never met");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The files of the node that this process has open, and that are deleted.
fn open_deleted_files(node: &Bitcoind) -> usize {
    let targets =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let is_deleted = |path: &std::path::PathBuf| {
        path.starts_with(node.blocks_dir()) && path.to_string_lossy().ends_with(" (deleted)")
    };
    targets.filter(is_deleted).count()
}

fn removed<T: std::fmt::Debug>(answer: birdhouse_chain::Result<T>) -> Vec<BlockPart> {
    match answer {
        Err(Error::Removed { parts }) => parts,
        other => panic!("the node has removed nothing: {other:?}"),
    }
}

/// The part that the node has removed of a transaction's block; `None` if it has the transaction.
fn removed_part(at: &Snapshot, transaction: &Transaction) -> Option<BlockPart> {
    match at.transaction(transaction.compute_txid()) {
        Err(Error::Removed { parts }) => parts.first().copied(),
        _ => None,
    }
}

/// Asserts that answers about a transaction are as before, but for what it spends.
fn has(at: &Snapshot, transaction: &Transaction) {
    let found = at.transaction(transaction.compute_txid()).unwrap().unwrap();
    assert_eq!(found.raw, serialize(transaction));
}

#[test]
fn removed_blocks_are_fetched_once_and_the_mempool_does_without() {
    let mut chain = chain();
    let (node, port) =
        (Bitcoind::start(Options::default().arg("-prune=1").arg("-fastprune")).unwrap(), free_port().unwrap());
    let peer = Bitcoind::start(Options::default().arg("-listen=1").arg(format!("-bind=127.0.0.1:{port}"))).unwrap();
    chain.submit_to(&node).unwrap();
    chain.submit_to(&peer).unwrap();
    let (folder, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let index = index_of(&node, folder.path());
    index.build(Some(node.tip().unwrap()), &BuildOptions::modest(temp.path())).unwrap();
    let core = CoreNode::new(Arc::new(rpc(&node)));
    index.sync(&core).unwrap();
    let at = index.snapshot().unwrap();
    // Its block file is opened, and stays open.
    has(&at, &chain.blocks()[150].txdata[0]);
    let first_kept = node.prune(PRUNED).unwrap();
    assert!(first_kept > 200, "too little was removed for this test: {first_kept}");
    assert_ne!(open_deleted_files(&node), 0);
    index.close_deleted_blocks();
    assert_eq!(open_deleted_files(&node), 0, "their space on disk is not free");
    has(&at, &chain.blocks()[BLOCKS as usize].txdata[0]);

    // A transaction of an old block, without and with a peer.
    let old = chain.blocks()[150].clone();
    let transaction = &old.txdata[old.txdata.len() - 1];
    let txid = transaction.compute_txid();
    let [part] = removed(at.transaction(txid))[..] else { panic!("a transaction is one part") };
    assert_eq!((part.block, part.len as usize), (old.block_hash(), transaction.total_size()));
    let Err(Error::Source(error)) = index.fetch_removed(part) else { panic!("nobody has the block") };
    assert_eq!(error.kind, SourceErrorKind::Transient);
    assert!(error.message.contains("none of its 0 peers"), "{error}");
    connect(&node, &[port]);
    index.fetch_removed(part).unwrap();
    has(&at, transaction);
    // Those of the same block as well.
    has(&at, &old.txdata[0]);

    // What the index answers by itself is complete: history, balance, proof.
    let branch = at.merkle(txid, Height(150)).unwrap().unwrap();
    assert_eq!(branch.root, bitcoin::hashes::Hash::to_byte_array(old.header.merkle_root));
    let script = ScriptHash::of(transaction.output[0].script_pubkey.as_bytes());
    let history = at.history(&script).unwrap();
    assert!(history.iter().any(|entry| entry.txid == txid));

    // A page names all removed blocks at once. What the transactions spend is unknown, until that is fetched too.
    let spending = (1..first_kept - 1).flat_map(|height| &chain.blocks()[height as usize].txdata).find(|transaction| {
        !transaction.is_coinbase() && transaction.output.len() > 1 && transaction.compute_txid() != txid
    });
    let spending = spending.unwrap().compute_txid();
    for part in removed(at.resolved(spending)) {
        index.fetch_removed(part).unwrap();
    }
    let found = at.resolved(spending).unwrap().unwrap();
    assert!(found.is_unresolved() && found.fee().is_none());

    // Of one with several inputs, those are known whose block was fetched.
    let by_txid: BTreeMap<Txid, &Transaction> =
        chain.blocks().iter().flat_map(|block| &block.txdata).map(|found| (found.compute_txid(), found)).collect();
    let parts_of = |found: &Transaction| -> BTreeMap<BlockHash, BlockPart> {
        let funding = found.input.iter().filter_map(|input| by_txid.get(&input.previous_output.txid));
        funding.filter_map(|funding| removed_part(&at, funding)).map(|part| (part.block, part)).collect()
    };
    let several =
        by_txid.values().find(|found| removed_part(&at, found).is_some() && parts_of(found).len() > 2).unwrap();
    index.fetch_removed(removed_part(&at, several).unwrap()).unwrap();
    index.fetch_removed(*parts_of(several).first_key_value().unwrap().1).unwrap();
    let found = at.resolved(several.compute_txid()).unwrap().unwrap();
    assert!(found.is_unresolved() && found.fee().is_none());
    let mut known = 0;
    for (vin, input) in several.input.iter().enumerate() {
        let funding = by_txid[&input.previous_output.txid];
        let is_kept = removed_part(&at, funding).is_none();
        let expected = is_kept.then(|| &funding.output[input.previous_output.vout as usize]);
        assert_eq!(found.prevout(vin), expected, "input {vin}");
        known += usize::from(is_kept);
    }
    assert!((1..several.input.len()).contains(&known), "{known} of {}", several.input.len());

    // However many inputs it has.
    let wide = by_txid.values().find(|found| found.input.len() == MANY_INPUTS as usize).unwrap();
    index.fetch_removed(removed_part(&at, wide).unwrap()).unwrap();
    for part in parts_of(wide).into_values() {
        index.fetch_removed(part).unwrap();
    }
    let found = at.resolved(wide.compute_txid()).unwrap().unwrap();
    for (vin, input) in wide.input.iter().enumerate() {
        let funding = by_txid[&input.previous_output.txid];
        assert_eq!(found.prevout(vin), Some(&funding.output[input.previous_output.vout as usize]), "input {vin}");
    }

    // The mempool spends an output of a removed block: its value and script come from the node's own list.
    let is_old = |coin: &&Coin| coin.spendable_from < first_kept && coin.output.script_pubkey.is_p2wpkh();
    let old_coin = chain.coins().find(is_old).unwrap().clone();
    let paid = chain.wallet().foreign_address(3).script_pubkey();
    let spend = chain.spend(std::slice::from_ref(&old_coin), &[Payment::to_script(paid, 1_000)]);
    let block = chain.mine_block().clone();
    let raw = block.txdata.iter().find(|transaction| transaction.compute_txid() == spend).unwrap().clone();
    node.rpc("sendrawtransaction", json!([serialize_hex(&raw), 0, "21000000"])).unwrap();
    index.sync(&core).unwrap();
    let at = index.snapshot().unwrap();
    let entry = node.rpc("getmempoolentry", json!([spend.to_string()])).unwrap();
    let fee = bitcoin::Amount::from_btc(entry["fees"]["base"].as_f64().unwrap()).unwrap().to_sat();
    let waiting = Arc::clone(at.mempool().get(&spend).unwrap());
    assert_eq!(waiting.fee, fee);
    let [spent] = waiting.spent_outputs().collect::<Vec<_>>()[..] else { panic!("it has one input") };
    // The input shows the script of the coin, whose row has the value: nothing is unknown before there is undo data.
    let found = at.resolved(spend).unwrap().unwrap();
    assert_eq!((&found.prevouts, found.fee()), (&vec![old_coin.output.clone()], Some(fee)));
    let SpentOutput { outpoint, scripthash, value } = spent;
    let expected = (ScriptHash::of(old_coin.output.script_pubkey.as_bytes()), old_coin.output.value.to_sat());
    assert_eq!((outpoint, (scripthash, value)), (raw.input[0].previous_output, expected));

    // Once it is in a block that the node has, what it spends is in the undo data of that block.
    node.rpc("submitblock", json!([serialize_hex(&block)])).unwrap();
    index.sync(&core).unwrap();
    let at = index.snapshot().unwrap();
    let found = at.resolved(spend).unwrap().unwrap();
    assert_eq!(
        (found.prevouts.as_slice(), found.block.map(|block| block.hash)),
        (&[old_coin.output][..], Some(block.block_hash()))
    );

    // Another process has what this one fetched, without a peer.
    drop((index, at, peer));
    let files = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
    let again = Fetching::new(Box::new(files), rpc(&node), folder.path());
    // The coinbase follows the header and the number of transactions.
    let (offset, coinbase) = (80 + 1, serialize(&old.txdata[0]));
    let len = u32::try_from(coinbase.len()).unwrap();
    assert_eq!(again.read_part(old.block_hash(), None, offset, len).unwrap(), coinbase);

    // What is fetched lands on the node's disk, which others need.
    let files = BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap();
    let full = Fetching::new(Box::new(files), rpc(&node), tempfile::tempdir().unwrap().path());
    let full = full.with_free_bytes(|| Some(FETCH_FLOOR_BYTES - 1));
    let error = full.fetch_removed(BlockPart { block: old.block_hash(), offset, len }).unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Transient);
    assert!(error.message.contains("has 1999 MB"), "{error}");
}

/// Block -> the peers of which the node has asked for it, in this order, by its log.
fn asked(node: &Bitcoind, blocks: &[Block]) -> BTreeMap<usize, Vec<String>> {
    let log = std::fs::read_to_string(node.log()).unwrap();
    let peers_of = |block: &Block| {
        let line = format!("Requesting block {} from peer=", block.block_hash());
        log.lines().filter_map(|found| Some(found.split_once(&line)?.1.to_owned())).collect()
    };
    blocks.iter().map(peers_of).enumerate().collect()
}

#[test]
fn blocks_that_are_wanted_together_are_asked_of_several_peers_and_a_silent_one_delays_only_its_share() {
    const WANTED: usize = 16;
    let chain = chain();
    let node = Bitcoind::start(Options::default().arg("-prune=1").arg("-fastprune").arg("-debug=net")).unwrap();
    let port = free_port().unwrap();
    let twin = Bitcoind::start(Options::default().arg("-listen=1").arg(format!("-bind=127.0.0.1:{port}"))).unwrap();
    chain.submit_to(&node).unwrap();
    chain.submit_to(&twin).unwrap();
    let (folder, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let index = index_of(&node, folder.path());
    index.build(Some(node.tip().unwrap()), &BuildOptions::modest(temp.path())).unwrap();
    assert!(node.prune(PRUNED).unwrap() > 200);
    index.close_deleted_blocks();
    let at = index.snapshot().unwrap();

    // The twin twice: as a peer that is distant, and as one that is near and hangs once the nodes have met.
    let (distant, near) = (SlowLink::open(port, Duration::from_millis(40)), SlowLink::open(port, Duration::ZERO));
    let (distant, near) = (distant.unwrap(), near.unwrap());
    connect(&node, &[near.port(), distant.port()]);
    near.swallow();
    let wanted = &chain.blocks()[120..120 + WANTED];
    thread::scope(|scope| {
        for block in wanted {
            scope.spawn(|| {
                let txid = block.txdata[0].compute_txid();
                let parts = removed(at.transaction(txid));
                for part in parts {
                    index.fetch_removed(part).unwrap();
                }
                let hash = block.block_hash().to_string();
                let by_twin = twin.rpc("getrawtransaction", json!([txid.to_string(), 0, hash])).unwrap();
                assert_eq!(at.transaction(txid).unwrap().unwrap().raw.to_lower_hex_string(), by_twin);
            });
        }
    });

    let asked = asked(&node, wanted);
    let firsts: BTreeSet<&str> = asked.values().map(|peers| peers[0].as_str()).collect();
    assert_eq!(firsts.len(), 2, "all begin with the same peer: {asked:?}");
    let requests: usize = asked.values().map(Vec::len).sum();
    assert!(requests < 2 * WANTED, "each is asked of both: {asked:?}");
}
