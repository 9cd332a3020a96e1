//! The follower of a node that downloads the chain, on a virtual clock.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use birdhouse_chain::source::{
    BlockId, ChainView, MempoolSize, MempoolTxids, Node, NodeProgress, NodeUpdate, SourceResult,
};
use birdhouse_chain::{Height, Index, MergeOptions, Profile, Runtime, Secret, Spawned};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::mix::{self, Size};
use bitcoin::constants::genesis_block;
use bitcoin::{Block, BlockHash, Network, Txid};

use crate::common::{MemoryNode, options};

/// A clock that moves only while somebody sleeps or waits, and sets `stop` at its end.
#[derive(Debug, Default)]
struct Clock {
    now: Mutex<Duration>,
    end: Duration,
    stop: AtomicBool,
}

impl Clock {
    fn advance(&self, pause: Duration) {
        let mut now = self.now.lock().unwrap();
        *now += pause;
        if *now >= self.end {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
struct Virtual(Arc<Clock>);

impl Runtime for Virtual {
    fn now(&self) -> Duration {
        *self.0.now.lock().unwrap()
    }

    fn unix_time(&self) -> u64 {
        self.now().as_secs()
    }

    fn sleep(&self, pause: Duration, _: &AtomicBool) {
        self.0.advance(pause);
    }

    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, _: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Spawned>> {
        Ok(Box::new(thread::spawn(work)))
    }
}

/// A node that stays in initial download, and gets one block in the middle of a wait.
struct Downloading {
    node: Arc<MemoryNode>,
    clock: Arc<Clock>,
    looks: AtomicUsize,
    /// The time at which it gets the block, and its chain from then on.
    grows: Duration,
    grown: Vec<Block>,
    /// The time of the first look that finds the block.
    found: Mutex<Option<Duration>>,
}

impl Node for Downloading {
    fn best_block(&self) -> SourceResult<BlockId> {
        self.node.best_block()
    }

    fn progress(&self) -> SourceResult<NodeProgress> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let tip = self.best_block()?;
        if tip.height.0 as usize + 1 == self.grown.len() {
            self.found.lock().unwrap().get_or_insert(*self.clock.now.lock().unwrap());
        }
        Ok(NodeProgress { tip, best_header: Some(Height(tip.height.0 + 1000)) })
    }

    fn chain_view(&self, ours: BlockHash, fork: BlockHash) -> SourceResult<ChainView> {
        self.node.chain_view(ours, fork)
    }

    fn missing_blocks(&self, indexed: Height) -> SourceResult<Option<String>> {
        self.node.missing_blocks(indexed)
    }

    fn block_hashes(&self, heights: Range<Height>) -> SourceResult<Vec<BlockHash>> {
        self.node.block_hashes(heights)
    }

    fn wait_for_update(&self, known: BlockHash, timeout: Duration) -> SourceResult<NodeUpdate> {
        let now = *self.clock.now.lock().unwrap();
        let wait = self.grows.saturating_sub(now);
        if !wait.is_zero() && wait <= timeout {
            self.node.follow(&self.grown);
            self.clock.advance(wait);
        } else if self.best_block()?.hash == known {
            self.clock.advance(timeout);
        }
        Ok(NodeUpdate::Unknown)
    }

    fn mempool_size(&self) -> SourceResult<Option<MempoolSize>> {
        self.node.mempool_size()
    }

    fn mempool_txids(&self) -> SourceResult<MempoolTxids> {
        self.node.mempool_txids()
    }

    fn mempool_transactions(&self, txids: &[Txid]) -> SourceResult<Vec<Option<Vec<u8>>>> {
        self.node.mempool_transactions(txids)
    }
}

#[test]
fn a_node_that_stays_in_download_is_asked_rarely_and_its_next_block_is_found_at_once() {
    const END: Duration = Duration::from_mins(20);
    let mut chain = mix::sample(3, Size::SMALL);
    let node = Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    let clock = Arc::new(Clock { end: END, ..Clock::default() });
    let (store, genesis) = (Arc::new(MemoryStore::new()), genesis_block(Network::Regtest).block_hash());
    let (runtime, source) = (Arc::new(Virtual(Arc::clone(&clock))), Arc::clone(&node) as _);
    let merging = MergeOptions::default();
    let index = Index::open_on(runtime, store, source, genesis, Profile::Full, Secret([7; 16]), merging).unwrap();
    let temp = tempfile::tempdir().unwrap();
    index.build(None, &options(temp.path())).unwrap();
    chain.mine(1);
    let grows = END / 2;
    let (looks, found) = (AtomicUsize::new(0), Mutex::default());
    let node = Downloading { node, clock: Arc::clone(&clock), looks, grows, grown: chain.blocks().to_vec(), found };

    index.follow(&node, &clock.stop).unwrap();

    // Each minute had 60 looks.
    let looks = node.looks.load(Ordering::Relaxed);
    assert!(looks < 6 * 20, "{looks} looks");
    let found = node.found.lock().unwrap().expect("it is found");
    assert!(found < grows + Duration::from_secs(2), "found at {found:?}, after {grows:?}");
    assert_eq!(index.snapshot().unwrap().tip().hash, chain.tip());
}
