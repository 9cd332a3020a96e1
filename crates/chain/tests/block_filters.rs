//! Compact block filters of a real node's chain, against Core's own index of filters, over reorgs.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::{BuildOptions, DerivedIndex, FilterHeaders, Height, Index, Profile, Secret, Snapshot};
use birdhouse_node::{Auth, BlockFiles, CoreNode, Rpc};
use birdhouse_store::{MemoryStore, SegmentOptions, SegmentStore, Store};
use birdhouse_testkit::live::{LiveNode, Move};
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::{Bitcoind, Options};
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use bitcoin::hex::FromHex as _;
use serde_json::{Value, json};

/// Time for Core's index to reach its tip.
const PATIENCE: Duration = Duration::from_mins(1);

struct World {
    live: LiveNode,
    core: CoreNode,
    index: Index,
}

impl World {
    fn start(seed: u64) -> Self {
        let live = LiveNode::start(seed, Size::SMALL, Options::default().arg("-blockfilterindex=1")).unwrap();
        let node = live.node();
        let source = Arc::new(BlockFiles::open(&node.blocks_dir(), Network::Regtest).unwrap());
        let (store, genesis) = (Arc::new(MemoryStore::new()), genesis_block(Network::Regtest).block_hash());
        let index = Index::open(store, source, genesis, Profile::Full, Secret([7; 16])).unwrap();
        let temp = tempfile::tempdir().unwrap();
        index.build(None, &BuildOptions::modest(temp.path())).unwrap();
        let rpc = Rpc::new(&format!("127.0.0.1:{}", node.rpc_port()), Auth::Cookie(node.cookie()));
        Self { core: CoreNode::new(Arc::new(rpc)), live, index }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.index.sync(&self.core).unwrap();
        self.index.snapshot().unwrap()
    }
}

/// Returns Core's filter and filter header of a block, when its index has them.
fn of_core(node: &Bitcoind, hash: &str) -> (Vec<u8>, Vec<u8>) {
    let start = Instant::now();
    let answer: Value = loop {
        match node.rpc("getblockfilter", json!([hash])) {
            Ok(answer) => break answer,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let bytes = |field: &str| Vec::from_hex(answer[field].as_str().unwrap()).unwrap();
    let mut header = bytes("header");
    header.reverse();
    (bytes("filter"), header)
}

/// Computes the headers of a snapshot's chain, and compares all filters and headers with Core's.
fn compare(world: &World, derived: &Arc<DerivedIndex>) {
    let (at, filters) = (world.snapshot(), FilterHeaders::among(&[Arc::clone(derived)]).unwrap());
    while derived.advance(&at).unwrap() {}
    let blocks = at.tip().height.0 + 1;
    assert_eq!(filters.len(&at), blocks);
    for height in (0..blocks).map(Height) {
        let hash = at.block_hash(height).unwrap().to_string();
        let (filter, header) = of_core(world.live.node(), &hash);
        assert_eq!(at.basic_filter(height).unwrap(), Some(filter), "{height}");
        assert_eq!(filters.read(&at, height..Height(height.0 + 1)).unwrap(), Some(header), "{height}");
    }
    assert_eq!(at.basic_filter(Height(blocks)).unwrap(), None);
    assert_eq!(filters.read(&at, Height(0)..Height(blocks + 1)).unwrap(), None);
}

#[test]
fn filters_and_headers_are_those_of_core_over_blocks_and_reorgs() {
    let mut world = World::start(158);
    let folder = tempfile::tempdir().unwrap();
    let open =
        || -> Arc<dyn Store> { Arc::new(SegmentStore::open(folder.path(), &[], SegmentOptions::default()).unwrap()) };
    let open = || Arc::new(DerivedIndex::open(open(), FilterHeaders::derived(), 2).unwrap());
    let mut filters = open();
    compare(&world, &filters);
    for depth in [1, 3, 12] {
        let stale = world.snapshot();
        let fork = stale.tip().height.0 - depth;
        world.live.make(Move::Chain).unwrap();
        let waiting = world.live.waiting();
        let blocks = (0..=depth).map(|at| if at == 0 { waiting.clone() } else { Vec::new() });
        world.live.branch(fork, blocks.collect()).unwrap();
        let at = world.snapshot();
        assert!(filters.len(&at) < at.tip().height.0 + 1, "the headers of stale blocks do not belong to it");
        compare(&world, &filters);
        assert!(filters.len(&stale) < stale.tip().height.0 + 1, "nor do the new ones to the stale chain");
        drop(filters);
        filters = open();
        assert_eq!(filters.len(&at), at.tip().height.0 + 1, "they are durable");
    }
}
