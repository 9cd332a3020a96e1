//! An index beside a real node that downloads the chain: it follows from the first block, outlives a crash of the node
//! that forgets its chain and writes other blocks into the same files, and finds every transaction afterwards.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::{BuildOptions, Height, Index, Profile, Secret};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::mix;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::consensus::encode::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{Block, Network};
use serde_json::json;

/// Far longer than any step of these tests takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Blocks of the chain. With `-fastprune` a block file has 64 KiB, so they fill several.
const BLOCKS: u32 = 600;
/// Distance within which blocks arrive out of order.
const WINDOW: usize = 16;

fn chain() -> ChainBuilder {
    let mut chain = ChainBuilder::new(4801);
    mix::mature(&mut chain);
    while chain.height() < BLOCKS {
        mix::random_traffic(&mut chain, 6, 4);
        chain.mine(1);
    }
    chain
}

/// Returns a node that stays in initial download: its tip is always older than a second.
fn node() -> Bitcoind {
    Bitcoind::start(Options::default().arg("-maxtipage=1").arg("-fastprune")).unwrap()
}

/// Gives the node all headers, as its peers do before the blocks.
fn announce(node: &Bitcoind, chain: &ChainBuilder) {
    for block in &chain.blocks()[1..] {
        node.rpc("submitheader", json!([serialize(&block.header).to_lower_hex_string()])).unwrap();
    }
}

/// Gives the node these blocks in windows, each in an order that depends on `salt`.
fn download(node: &Bitcoind, blocks: &[Block], first: u32, salt: u32) {
    let mut numbered: Vec<(u32, &Block)> = (first..).zip(blocks).collect();
    for window in numbered.chunks_mut(WINDOW) {
        window.sort_by_key(|(height, _)| (height.wrapping_mul(2_654_435_761) ^ salt).rotate_left(7));
        for (height, block) in window {
            node.submit(*height, block).unwrap();
        }
    }
}

struct World {
    index: Index,
    core: CoreNode,
}

impl World {
    /// Opens an index of a node that has the genesis block alone, and builds it.
    fn beside(node: &Bitcoind) -> Self {
        let source = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
        let genesis = genesis_block(Network::Regtest).block_hash();
        let store = Arc::new(MemoryStore::new());
        let index = Index::open(store, source, genesis, Profile::Full, Secret([7; 16])).unwrap();
        let temp = tempfile::tempdir().unwrap();
        index.build(Some(node.tip().unwrap()), &BuildOptions::modest(temp.path())).unwrap();
        let rpc = Rpc::new(&format!("127.0.0.1:{}", node.rpc_port()), Auth::Cookie(node.cookie()));
        Self { index, core: CoreNode::new(Arc::new(rpc)) }
    }

    fn followed(&self, test: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let follower = scope.spawn(|| self.index.follow(&self.core, &stop));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
            stop.store(true, Ordering::Relaxed);
            follower.join().unwrap().unwrap();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    fn height(&self) -> u32 {
        self.index.snapshot().unwrap().tip().height.0
    }

    fn said(&self) -> String {
        self.index.waiting().map_or_else(String::new, |waiting| waiting.to_string())
    }

    fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < PATIENCE, "never happened: {what}; at {}, {}", self.height(), self.said());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asserts that the index has the blocks of this chain up to its tip, and finds each transaction in the files.
    fn has_all(&self, chain: &ChainBuilder) {
        let at = self.index.snapshot().unwrap();
        for (height, block) in (0..=at.tip().height.0).zip(chain.blocks()) {
            assert_eq!(at.block_hash(Height(height)), Some(block.block_hash()));
            // The coinbase of the genesis block is in no index of a node.
            for transaction in block.txdata.iter().skip(usize::from(height == 0)) {
                let found = at.transaction(transaction.compute_txid()).unwrap().unwrap();
                assert_eq!(found.raw, serialize(transaction), "height {height}");
            }
        }
    }
}

#[test]
fn an_index_follows_a_node_from_its_first_block_and_through_a_crash_that_forgets_all() {
    let (mut node, mut chain) = (node(), chain());
    let half = BLOCKS / 2;
    let world = World::beside(&node);
    assert_eq!(world.height(), 0);
    world.followed(|| {
        announce(&node, &chain);
        download(&node, &chain.blocks()[1..half as usize], 1, 1);
        let old = half - 1;
        world.wait_until("it follows", || world.height() == old);
        let said = format!("the node is downloading the chain, {old} of {} blocks", chain.height());
        world.wait_until("it says so", || world.said().starts_with(&said));
        world.has_all(&chain);

        // What the node has not flushed is forgotten: in initial download that is nearly always everything.
        node.kill9();
        node.restart().unwrap();
        assert_eq!(node.height().unwrap(), 0, "this node flushes more often than Core does");
        world.wait_until("it notices", || world.said().contains("behind") || world.said().contains("shorter"));
        assert_eq!(world.height(), old);
        announce(&node, &chain);
        download(&node, &chain.blocks()[1..], 1, 2);
        world.wait_until("it passes", || world.height() == chain.height());
        world.has_all(&chain);

        world.wait_until("the download ends", || world.index.waiting().is_none());
        chain.mine(1);
        chain.submit_to(&node).unwrap();
        world.wait_until("the next block", || world.height() == chain.height());
        world.has_all(&chain);
    });
}
