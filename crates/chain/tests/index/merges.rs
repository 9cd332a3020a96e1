//! Merges of the rows at the tip: an index that has followed a chain answers as one that was built with it, also while
//! reorgs reach below what is packed.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::{Height, Index, MergeOptions, Profile, Runtime, Secret, Snapshot, Spawned, TABLES};
use birdhouse_store::{Batch, MemoryStore, Store as _, Table};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use bitcoin::Network;
use bitcoin::constants::genesis_block;

use crate::answers::Answers;
use crate::common::{MemoryNode, built, built_merging, open_merging, options};

/// A delta of a few blocks, so that some hundred blocks are merged many times.
const OFTEN: MergeOptions =
    MergeOptions { tip_blocks: 5, delta_txs: 60, bulk_blocks: 100, oldest_multiple: 16, ..MergeOptions::DEFAULT };

fn world(seed: u64) -> (Arc<MemoryNode>, ChainBuilder) {
    let chain = mix::sample(seed, Size::SMALL);
    let node = Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    (node, chain)
}

fn build(store: &MemoryStore, node: &Arc<MemoryNode>, profile: Profile) -> Index {
    built_merging(store, node, profile, OFTEN)
}

pub(crate) fn mine(chain: &mut ChainBuilder, blocks: u32) {
    for _ in 0..blocks {
        mix::random_traffic(chain, 10, 30);
        chain.mine_block();
    }
}

fn answers(snapshot: &Snapshot, node: &MemoryNode) -> Answers {
    Answers::of(snapshot, &node.scripts())
}

pub(crate) fn assert_as_fresh(index: &Index, node: &Arc<MemoryNode>, context: &str) {
    let fresh = built(node, Profile::Full).snapshot().unwrap();
    answers(&index.snapshot().unwrap(), node).assert_equal(&answers(&fresh, node), context);
    let temp = tempfile::tempdir().unwrap();
    let report = index.snapshot().unwrap().verify(Height(0)..Height(u32::MAX), &options(temp.path())).unwrap();
    assert_eq!(report.described, Vec::<String>::new(), "{context}");
}

/// The names of the tables that have rows, without those of blocks.
pub(crate) fn filled_tables(store: &MemoryStore) -> Vec<String> {
    let sizes = store.sizes().unwrap().into_iter();
    sizes.filter(|(name, bytes)| *bytes > 0 && name.contains('.')).map(|(name, _)| name).collect()
}

#[test]
fn an_index_that_followed_a_chain_answers_as_one_that_was_built_with_it() {
    for seed in rounds(2) {
        let (node, mut chain) = world(seed);
        let store = MemoryStore::new();
        let index = build(&store, &node, if seed % 2 == 0 { Profile::Full } else { Profile::Lean });
        let mut rng = Rng::new(seed);
        let mut merges = 0;
        for step in 0..30 {
            let depth = if rng.per_mille(250) { u32::try_from(rng.below(25)).unwrap() } else { 0 };
            chain.rollback_to(chain.height() - depth);
            mine(&mut chain, depth + 1 + u32::try_from(rng.below(6)).unwrap());
            node.follow(chain.blocks());
            index.sync(&*node).unwrap();
            merges += index.merge().unwrap();
            if step % 5 == 4 {
                assert_as_fresh(&index, &node, &format!("seed {seed} step {step} after {merges} merges"));
            }
        }
        assert!(merges >= 10, "{merges} merges");
        assert!(packs(&store) <= 4, "{} packs", packs(&store));
    }
}

#[test]
fn a_snapshot_keeps_its_answers_while_its_packs_and_deltas_are_merged_away() {
    let (node, mut chain) = world(11);
    let index = build(&MemoryStore::new(), &node, Profile::Full);
    let held = index.snapshot().unwrap();
    let before = answers(&held, &node);
    let scripts = before.scripts.keys().cloned().collect();
    let mut merges = 0;
    for _ in 0..20 {
        mine(&mut chain, 8);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        merges += index.merge().unwrap();
        Answers::of(&held, &scripts).assert_equal(&before, &format!("a snapshot from {merges} merges ago"));
    }
    assert!(merges >= 10, "{merges} merges");
    assert_as_fresh(&index, &node, "beside a held snapshot");
}

#[test]
fn what_a_merge_has_taken_is_emptied_once_no_snapshot_reads_it() {
    let (node, mut chain) = world(12);
    let store = MemoryStore::new();
    let index = build(&store, &node, Profile::Full);
    let held = index.snapshot().unwrap();
    for _ in 0..10 {
        mine(&mut chain, 8);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
    }
    assert!(index.merge().unwrap() > 0);
    let beside = filled_tables(&store);
    drop(held);
    index.merge().unwrap();
    let after = filled_tables(&store);
    assert!(after.len() < beside.len(), "{beside:?} became {after:?}");
    drop(index);
    // A process that ended before it emptied them: the next one does.
    assert_eq!(filled_tables(&store), after);
    let reopened = open_merging(&store.reopen(), &node, Profile::Full, OFTEN);
    assert_as_fresh(&reopened, &node, "reopened");
}

/// The number of packs that have scripts.
pub(crate) fn packs(store: &MemoryStore) -> usize {
    filled_tables(store).iter().filter(|name| name.starts_with("script.")).count()
}

#[test]
fn the_oldest_pack_is_merged_only_while_the_disk_has_room_for_another() {
    let (node, mut chain) = world(14);
    let store = MemoryStore::new();
    let index = build(&store, &node, Profile::Full);
    let mut follow = |blocks: u32| {
        mine(&mut chain, blocks);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        index.merge().unwrap()
    };
    store.set_free_bytes(0);
    let merges: u32 = (0..5).map(|_| follow(8)).sum();
    assert!(merges >= 3, "{merges} merges");
    for _ in 0..30 {
        follow(8);
        assert!(packs(&store) > 1, "{} packs", packs(&store));
    }
    assert_as_fresh(&index, &node, "on a full disk");

    store.set_free_bytes(1 << 40);
    assert!((0..30).any(|_| follow(8) > 0 && packs(&store) == 1), "{} packs", packs(&store));
    assert_as_fresh(&index, &node, "after there was room");
}

/// The machine's clock, and merges that begin when the test lets them.
#[derive(Debug, Default)]
struct HeldBack {
    began: AtomicUsize,
    is_free: Arc<AtomicBool>,
}

impl Runtime for HeldBack {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_time(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration, _: &AtomicBool) {
        thread::yield_now();
    }

    fn threads(&self) -> usize {
        1
    }

    fn spawn(&self, _: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Spawned>> {
        self.began.fetch_add(1, Ordering::Relaxed);
        let is_free = Arc::clone(&self.is_free);
        let wait_and_work = move || {
            while !is_free.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            work();
        };
        Ok(Box::new(thread::spawn(wait_and_work)))
    }
}

/// Lets each of some writes of `step` fail once, after `prepare`. Where the rows of a pack were loaded and not
/// published, their slot must be emptied before the next pack: a row beside those that it writes would be a part of it.
fn a_failed_pack_leaves_no_rows(
    merging: MergeOptions,
    failing: Range<u64>,
    prepare: impl Fn(&Index, &MemoryNode),
    step: impl Fn(&Index, &MemoryNode),
) {
    let marker: &[u8] = &[0xff; 6];
    let (node, mut chain) = world(14);
    let store = MemoryStore::new();
    let index = built_merging(&store, &node, Profile::Full, merging);
    let mut marked = 0;
    for writes in failing {
        for _ in 0..5 {
            mine(&mut chain, 8);
            node.follow(chain.blocks());
            prepare(&index, &node);
        }
        let packed = || index.snapshot().unwrap().packed_script_count().unwrap();
        let before = (packed(), filled_tables(&store));
        store.fail_after(writes);
        step(&index, &node);
        store.fail_after(u64::MAX);
        if packed() != before.0 {
            break;
        }
        // The manifest of a failed publish may be the one that a power cut leaves.
        let crashed = open_merging(&store.crash(writes), &node, Profile::Full, merging);
        crashed.sync(&*node).unwrap();
        let mut rows = Batch::new();
        let filled = filled_tables(&store);
        let loaded =
            TABLES.iter().filter(|table| table.name.starts_with("script.") && !before.1.contains(&table.name.into()));
        let loaded: Vec<Table> = loaded.filter(|table| filled.contains(&table.name.into())).copied().collect();
        marked += loaded.len();
        for table in loaded {
            rows.put(table, marker, b"left");
        }
        store.write(rows).unwrap();

        for _ in 0..2 {
            mine(&mut chain, 8);
            node.follow(chain.blocks());
            index.sync(&*node).unwrap();
            index.merge().unwrap();
        }
        for table in TABLES.iter().filter(|table| table.name.starts_with("script.")) {
            assert_eq!(store.get_many(*table, &[marker]).unwrap(), [None], "{} after {writes} writes", table.name);
        }
    }
    assert!(marked > 0, "no publish failed");
    index.sync(&*node).unwrap();
    assert_as_fresh(&index, &node, "after failures");
}

#[test]
fn a_merge_whose_publish_failed_leaves_no_rows_in_its_slot() {
    let follow = |index: &Index, node: &MemoryNode| assert!(index.sync(node).unwrap());
    a_failed_pack_leaves_no_rows(OFTEN, 0..40, follow, |index, _| drop(index.merge()));
}

#[test]
fn catching_up_whose_publish_failed_leaves_no_rows_in_its_slot() {
    let merging = MergeOptions { bulk_blocks: 16, ..OFTEN };
    // The txids of each block are a write of their own.
    a_failed_pack_leaves_no_rows(merging, 30..80, |_, _| (), |index, node| drop(index.sync(node)));
}

#[test]
fn a_merge_of_stale_blocks_alone_is_thrown_away_when_a_reorg_reaches_below_it() {
    let (node, mut chain) = world(13);
    let packed = chain.height();
    mine(&mut chain, 2);
    node.follow(chain.blocks());
    let merging =
        MergeOptions { tip_blocks: 2, delta_txs: 1, bulk_blocks: 100, oldest_multiple: 16, ..MergeOptions::DEFAULT };
    let store = MemoryStore::new();
    drop(built_merging(&store, &node, Profile::Full, merging));
    let runtime = Arc::new(HeldBack::default());
    let genesis = genesis_block(Network::Regtest).block_hash();
    let (store, source) = (Arc::new(store), Arc::clone(&node) as _);
    let on = Arc::clone(&runtime) as _;
    let index = Index::open_on(on, store, source, genesis, Profile::Full, Secret([7; 16]), merging).unwrap();
    let stop = AtomicBool::new(false);
    let follow = |chain: &ChainBuilder| {
        node.follow(chain.blocks());
        until(|| index.snapshot().unwrap().tip().hash == chain.tip());
    };
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        // The two blocks at the tip, all of the first delta, become stale. Then that is buried.
        chain.rollback_to(packed);
        mine(&mut chain, 3);
        follow(&chain);
        until(|| runtime.began.load(Ordering::Relaxed) == 1);
        chain.rollback_to(packed - 10);
        mine(&mut chain, 15);
        follow(&chain);
        runtime.is_free.store(true, Ordering::Relaxed);
        // The next merge begins once the first is published, or thrown away.
        until(|| runtime.began.load(Ordering::Relaxed) > 1);
        mine(&mut chain, 1);
        follow(&chain);
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
    });
    assert_as_fresh(&index, &node, "after a reorg below a merge of stale blocks");
}

fn until(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_mins(1), "the condition does not come true");
        thread::sleep(Duration::from_millis(1));
    }
}
