//! The first 14 132 blocks of mainnet, loaded into a real node, with and without pruning by hand, while the index grows
//! beside it. Answers are those of a naive scan of the same blocks, at every height that is seen on the way.
//!
//! The blocks are the test data of btcd, a module of Go.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::{BuildOptions, Index, Profile, ScriptHash, Secret, Snapshot};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::child_guard::{ChildGuard, Launch};
use birdhouse_testkit::program::{find_bitcoind, find_program};
use bitcoin::constants::genesis_block;
use bitcoin::{Block, Network, OutPoint, Txid, consensus};
use serde_json::{Value, json};

/// Height of the last block.
const TIP: u32 = 14_131;
/// Scripts that a look at a growing index asks for.
const SCRIPTS_A_LOOK: usize = 200;
const PATIENCE: Duration = Duration::from_mins(5);
/// Where `scripts/peers mainnet-blocks` puts the file.
const CACHED: &str = "birdhouse/mainnet-blocks-0.24.2/blk_0_to_14131.dat";

/// The file, if it was downloaded.
fn file() -> Option<PathBuf> {
    let found = find_program("blocks of mainnet", "MAINNET_BLOCKS", None, CACHED, "scripts/peers mainnet-blocks");
    if found.is_err() {
        eprintln!("LEFT OUT: the blocks of mainnet are not there; run `scripts/peers mainnet-blocks`");
    }
    found.ok()
}

/// An output, and where it was funded and spent.
struct Coin {
    outpoint: OutPoint,
    value: u64,
    funded: u32,
    spent: Option<u32>,
}

/// Everything about one script.
#[derive(Default)]
struct Script {
    history: Vec<(u32, Txid)>,
    coins: Vec<Coin>,
}

/// The naive model: a scan of all blocks.
struct Model(HashMap<ScriptHash, Script>);

impl Model {
    /// Scans a file of blocks in the order of their heights: `magic | length | block`, then zeros.
    fn scan(bytes: &[u8]) -> Self {
        let (mut scripts, mut owners): (HashMap<ScriptHash, Script>, HashMap<OutPoint, (ScriptHash, usize)>) =
            Default::default();
        let (mut rest, mut height) = (bytes, 0);
        while let Some((head, body)) = rest.split_first_chunk::<8>()
            && head[..4] == Network::Bitcoin.magic().to_bytes()
        {
            let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let block: Block = consensus::deserialize(&body[..len]).unwrap();
            // No index has the coinbase of the genesis block.
            if height > 0 {
                add(&block, height, &mut scripts, &mut owners);
            }
            (rest, height) = (&body[len..], height + 1);
        }
        assert_eq!(height, TIP + 1);
        Self(scripts)
    }

    /// Compares the answers about a script at the tip of a snapshot; returns their number.
    fn compare(&self, at: &Snapshot, scripthash: &ScriptHash) -> usize {
        let (script, tip) = (&self.0[scripthash], at.tip().height.0);
        let history: Vec<_> =
            at.history(scripthash).unwrap().iter().map(|entry| (entry.height.0, entry.txid)).collect();
        let expected: Vec<_> = script.history.iter().copied().filter(|(height, _)| *height <= tip).collect();
        assert_eq!(history, expected, "history at {tip}");
        let is_unspent = |coin: &&Coin| coin.funded <= tip && coin.spent.is_none_or(|spent| spent > tip);
        let mut expected: Vec<(OutPoint, u64)> =
            script.coins.iter().filter(is_unspent).map(|coin| (coin.outpoint, coin.value)).collect();
        let unspent = at.unspent(scripthash).unwrap();
        let mut unspent: Vec<(OutPoint, u64)> =
            unspent.iter().map(|coin| (OutPoint { txid: coin.txid, vout: coin.vout }, coin.value)).collect();
        expected.sort_unstable();
        unspent.sort_unstable();
        assert_eq!(unspent, expected, "unspent outputs at {tip}");
        let balance = at.balance(scripthash).unwrap().confirmed;
        assert_eq!(balance, expected.iter().map(|(_, value)| value).sum::<u64>(), "balance at {tip}");
        3
    }
}

fn add(
    block: &Block,
    height: u32,
    scripts: &mut HashMap<ScriptHash, Script>,
    owners: &mut HashMap<OutPoint, (ScriptHash, usize)>,
) {
    for transaction in &block.txdata {
        let txid = transaction.compute_txid();
        let mut touched = Vec::new();
        for input in transaction.input.iter().filter(|_| !transaction.is_coinbase()) {
            let (owner, at) = owners.remove(&input.previous_output).unwrap();
            scripts.get_mut(&owner).unwrap().coins[at].spent = Some(height);
            touched.push(owner);
        }
        for (vout, output) in (0..).zip(&transaction.output) {
            let scripthash = ScriptHash::of(output.script_pubkey.as_bytes());
            let (script, outpoint) = (scripts.entry(scripthash).or_default(), OutPoint { txid, vout });
            owners.insert(outpoint, (scripthash, script.coins.len()));
            script.coins.push(Coin { outpoint, value: output.value.to_sat(), funded: height, spent: None });
            touched.push(scripthash);
        }
        touched.sort_unstable();
        touched.dedup();
        for scripthash in touched {
            scripts.get_mut(&scripthash).unwrap().history.push((height, txid));
        }
    }
}

/// A node of mainnet without a network.
struct Node {
    _child: ChildGuard,
    rpc: Arc<Rpc>,
}

impl Node {
    fn start(datadir: &Path, blocks: &Path, more: &str) -> Self {
        let port = free_port().unwrap();
        let fixed = ["-listen=0", "-connect=0", "-dnsseed=0", "-fixedseeds=0", "-server=1", "-printtoconsole=1", more];
        let mut args: Vec<_> = fixed.iter().map(std::ffi::OsString::from).collect();
        args.push(format!("-datadir={}", datadir.display()).into());
        args.push(format!("-loadblock={}", blocks.display()).into());
        args.push(format!("-rpcport={port}").into());
        let log = datadir.join("log");
        let mut child =
            ChildGuard::spawn(Launch { program: find_bitcoind().unwrap(), args, envs: Vec::new(), log }).unwrap();
        let rpc = Arc::new(Rpc::new(&format!("127.0.0.1:{port}"), Auth::Cookie(datadir.join(".cookie"))));
        let answers = || Ok::<_, birdhouse_testkit::Error>(rpc.call::<Value>("getblockcount", &json!([])).ok());
        child.until(PATIENCE, answers).unwrap();
        Self { _child: child, rpc }
    }
}

fn grows_beside(more: &str) {
    let Some(file) = file() else { return };
    let model = Model::scan(&std::fs::read(&file).unwrap());
    let scripts: Vec<&ScriptHash> = model.0.keys().collect();
    let (datadir, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let node = Node::start(datadir.path(), &file, more);
    let source = Arc::new(BlockFiles::open(&datadir.path().join("blocks"), Network::Bitcoin).unwrap());
    let genesis = genesis_block(Network::Bitcoin).block_hash();
    let index = Index::open(Arc::new(MemoryStore::new()), source, genesis, Profile::Full, Secret([7; 16])).unwrap();
    index.build(Some(genesis), &BuildOptions::modest(temp.path())).unwrap();
    let (core, stop) = (CoreNode::new(Arc::clone(&node.rpc)), AtomicBool::new(false));
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&core, &stop));
        let looks = || {
            let (began, mut answers, mut looks, mut seen) = (Instant::now(), 0, 0, 0);
            while seen < TIP {
                assert!(began.elapsed() < PATIENCE, "the index stays at {seen}: {:?}", index.waiting());
                let at = index.snapshot().unwrap();
                if at.tip().height.0 > seen {
                    seen = at.tip().height.0;
                    let from = seen as usize * 7919 % scripts.len();
                    for scripthash in scripts.iter().cycle().skip(from).take(SCRIPTS_A_LOOK) {
                        answers += model.compare(&at, scripthash);
                    }
                    looks += 1;
                }
                thread::sleep(Duration::from_millis(5));
            }
            let at = index.snapshot().unwrap();
            answers += scripts.iter().map(|scripthash| model.compare(&at, scripthash)).sum::<usize>();
            eprintln!("{answers} answers, {looks} heights on the way, {:?}", began.elapsed());
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(looks));
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn the_first_blocks_of_mainnet_are_indexed_while_a_node_loads_them() {
    grows_beside("-prune=0");
}

#[test]
fn the_first_blocks_of_mainnet_are_indexed_while_a_node_that_prunes_by_hand_loads_them() {
    grows_beside("-prune=1");
}
