//! A real node that is wiped, restored, reindexes, or changes its mind, and the index that follows it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::{BuildOptions, Index, Profile, Secret};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use serde_json::json;

/// Far longer than any step of these tests takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time in which a follower that follows would have moved.
const WATCHED: Duration = Duration::from_millis(2500);

struct World {
    node: Bitcoind,
    core: CoreNode,
    chain: ChainBuilder,
    index: Index,
}

impl World {
    fn new(seed: u64) -> Self {
        let node = Bitcoind::start(Options::default()).unwrap();
        let chain = mix::sample(seed, Size::SMALL);
        chain.submit_to(&node).unwrap();
        let index = index_of(&node);
        let rpc = Rpc::new(&format!("127.0.0.1:{}", node.rpc_port()), Auth::Cookie(node.cookie()));
        Self { core: CoreNode::new(Arc::new(rpc)), node, chain, index }
    }

    /// Runs `test` while the index follows the node.
    fn followed(mut self, test: impl FnOnce(&mut Self, &Index)) {
        let stop = AtomicBool::new(false);
        let index = std::mem::replace(&mut self.index, index_of(&self.node));
        let rpc = Rpc::new(&format!("127.0.0.1:{}", self.node.rpc_port()), Auth::Cookie(self.node.cookie()));
        let core = std::mem::replace(&mut self.core, CoreNode::new(Arc::new(rpc)));
        thread::scope(|scope| {
            let follower = scope.spawn(|| index.follow(&core, &stop));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut self, &index)));
            stop.store(true, Ordering::Relaxed);
            follower.join().unwrap().unwrap();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// Removes the node's chain, or replaces it by the one in `copy`.
    fn replace_chain(&mut self, copy: Option<&Path>) {
        self.node.stop().unwrap();
        let chain = self.node.datadir().join("regtest");
        std::fs::remove_dir_all(&chain).unwrap();
        if let Some(copy) = copy {
            copy_dir(copy, &chain);
        }
        self.node.restart().unwrap();
    }
}

fn index_of(node: &Bitcoind) -> Index {
    let source = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
    let genesis = genesis_block(Network::Regtest).block_hash();
    let index = Index::open(Arc::new(MemoryStore::new()), source, genesis, Profile::Full, Secret([7; 16])).unwrap();
    let temp = tempfile::tempdir().unwrap();
    let options = BuildOptions::modest(temp.path());
    index.build(Some(node.tip().unwrap()), &options).unwrap();
    index
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if entry.is_dir() {
            copy_dir(&entry, &target);
        } else {
            std::fs::copy(&entry, &target).unwrap();
        }
    }
}

fn height(index: &Index) -> u32 {
    index.snapshot().unwrap().tip().height.0
}

fn said(index: &Index) -> String {
    index.waiting().map_or_else(String::new, |waiting| waiting.to_string())
}

fn wait_until(what: &str, index: &Index, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "never happened: {what}; at {}, {:?}", height(index), index.waiting());
        thread::sleep(Duration::from_millis(10));
    }
}

fn wait_for_tip(index: &Index, chain: &ChainBuilder) {
    wait_until("the tip", index, || index.snapshot().unwrap().tip().hash == chain.tip() && index.waiting().is_none());
}

/// Asserts that the tip stays for a while.
fn stays(index: &Index, at: u32) {
    let began = Instant::now();
    while began.elapsed() < WATCHED {
        assert_eq!(height(index), at);
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_wiped_node_with_a_shorter_chain_is_waited_for() {
    World::new(51).followed(|world, index| {
        let ours = world.chain.height();
        wait_for_tip(index, &world.chain);
        world.replace_chain(None);
        let mut other = ChainBuilder::new(510);
        other.mine(20);
        other.submit_to(&world.node).unwrap();
        wait_until("it notices", index, || said(index).contains("its tip is at height 20"));
        assert!(said(index).contains(&format!("another, shorter chain (its tip is at height 20); block {ours} of")));
        stays(index, ours);
        // It downloads our chain again.
        world.chain.submit_to(&world.node).unwrap();
        world.chain.mine(1);
        world.chain.submit_to(&world.node).unwrap();
        wait_for_tip(index, &world.chain);
    });
}

#[test]
fn a_wiped_node_that_grows_past_the_index_needs_the_operators_approval() {
    let mut world = World::new(52);
    // Blocks at the tip: the build packed the rest.
    let base = world.chain.clone();
    world.chain.mine(8);
    world.followed(|world, index| {
        world.chain.submit_to(&world.node).unwrap();
        wait_for_tip(index, &world.chain);
        let ours = world.chain.height();
        index.set_reorg_depth_max(7);
        world.replace_chain(None);
        let mut other = base;
        other.rollback_to(ours - 8);
        other.mine(9);
        other.submit_to(&world.node).unwrap();
        wait_until("it notices", index, || said(index).contains("birdhouse ctl accept-reorg"));
        stays(index, ours);
        index.accept_reorg().unwrap();
        wait_for_tip(index, &other);
    });
}

#[test]
fn a_node_that_invalidates_blocks_is_followed_at_once() {
    World::new(53).followed(|world, index| {
        wait_for_tip(index, &world.chain);
        let depth = 12;
        let fork = world.chain.height() - depth;
        let stale = world.chain.blocks()[fork as usize + 1].block_hash();
        let full = world.chain.clone();
        world.node.invalidate(stale).unwrap();
        world.chain.rollback_to(fork);
        wait_for_tip(index, &world.chain);
        world.chain.mine(2);
        world.chain.submit_to(&world.node).unwrap();
        wait_for_tip(index, &world.chain);
        // The longer chain is back.
        world.node.reconsider(stale).unwrap();
        wait_for_tip(index, &full);
        // The index has not seen the last of the blocks that become invalid.
        let mut more = full.clone();
        more.mine(3);
        more.submit_to(&world.node).unwrap();
        world.node.invalidate(stale).unwrap();
        wait_for_tip(index, &world.chain);
    });
}

#[test]
fn a_node_restored_from_an_older_copy_is_waited_for() {
    let mut world = World::new(54);
    world.node.stop().unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_dir(&world.node.datadir().join("regtest"), copy.path());
    world.node.restart().unwrap();
    world.followed(|world, index| {
        let old = world.chain.height();
        world.chain.mine(15);
        world.chain.submit_to(&world.node).unwrap();
        wait_for_tip(index, &world.chain);
        let ours = world.chain.height();
        world.replace_chain(Some(copy.path()));
        wait_until("it notices", index, || said(index).contains(&format!("its tip is at height {old}")));
        stays(index, ours);
        // Headers come first, as from peers.
        for block in &world.chain.blocks()[old as usize + 1..] {
            let header = bitcoin::consensus::encode::serialize_hex(&block.header);
            world.node.rpc("submitheader", json!([header])).unwrap();
        }
        wait_until("it knows our headers", index, || said(index) == "the node is behind (15 blocks, syncing)");
        world.chain.submit_to(&world.node).unwrap();
        wait_for_tip(index, &world.chain);
    });
}

#[test]
fn a_node_that_reindexes_is_waited_for() {
    for how in ["-reindex", "-reindex-chainstate"] {
        let mut world = World::new(55);
        // Many blocks, so that the node answers while it connects them.
        world.chain.mine(3000);
        world.chain.submit_to(&world.node).unwrap();
        world.followed(|world, index| {
            wait_for_tip(index, &world.chain);
            let ours = world.chain.height();
            let stop = AtomicBool::new(false);
            let (lowest, seen) = thread::scope(|scope| {
                let watch = scope.spawn(|| {
                    let (mut lowest, mut seen) = (ours, BTreeSet::new());
                    while !stop.load(Ordering::Relaxed) {
                        lowest = lowest.min(height(index));
                        seen.extend(index.waiting().map(|waiting| waiting.kind()));
                        thread::sleep(Duration::from_millis(1));
                    }
                    (lowest, seen)
                });
                world.node.restart_once_with(how).unwrap();
                wait_until("the node is back", index, || world.node.height().unwrap() == ours);
                wait_for_tip(index, &world.chain);
                stop.store(true, Ordering::Relaxed);
                watch.join().unwrap()
            });
            assert_eq!(lowest, ours, "{how}");
            println!("{how}: {seen:?}");
            world.chain.mine(1);
            world.chain.submit_to(&world.node).unwrap();
            wait_for_tip(index, &world.chain);
        });
    }
}

#[test]
fn a_node_on_another_data_folder_with_its_blocks_elsewhere_is_followed() {
    World::new(56).followed(|world, index| {
        wait_for_tip(index, &world.chain);
        let ours = world.chain.height();
        // The same chain, as another node stores it whose blocks arrive from the highest to the lowest.
        let mut other = Bitcoind::start(Options::default()).unwrap();
        for block in &world.chain.blocks()[1..] {
            let header = bitcoin::consensus::encode::serialize_hex(&block.header);
            other.rpc("submitheader", json!([header])).unwrap();
        }
        for block in world.chain.blocks()[1..].iter().rev() {
            let raw = bitcoin::consensus::encode::serialize_hex(block);
            other.rpc("submitblock", json!([raw])).unwrap();
        }
        assert_eq!(other.height().unwrap(), ours);
        other.stop().unwrap();
        let keys = [&world.node, &other].map(|node| std::fs::read(node.blocks_dir().join("xor.dat")).unwrap());
        assert_ne!(keys[0], keys[1], "the files must differ in their obfuscation, too");
        world.replace_chain(Some(&other.datadir().join("regtest")));
        world.chain.mine(2);
        world.chain.submit_to(&world.node).unwrap();
        wait_for_tip(index, &world.chain);
        let at = index.snapshot().unwrap();
        for transaction in world.chain.blocks().iter().flat_map(|block| &block.txdata).skip(1) {
            let found = at.transaction(transaction.compute_txid()).unwrap().unwrap();
            assert_eq!(found.raw, bitcoin::consensus::encode::serialize(transaction));
        }
    });
}
