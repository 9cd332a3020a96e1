//! Front ends: indexes that follow the published states of another one.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use birdhouse_chain::{
    DerivedIndex, Error, Index, MergeOptions, Profile, ScriptHash, Secret, TABLES, Touched, TweakDetail, Tweaks, Update,
};
use birdhouse_silentpayments::Engine;
use birdhouse_store::{
    Change, FeedBounds, FeedStore, Fetched, FileReplica, MemoryReplica, MemoryStore, Replica, SegmentOptions,
    SegmentStore, Store as _,
};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix;
use bitcoin::Network;
use bitcoin::constants::genesis_block;
use tokio::sync::broadcast::Receiver;

use crate::answers::Answers;
use crate::common::{MemoryNode, built_merging, options};
use crate::mempool::{Model, World};
use crate::tweaks;

/// A delta of a few blocks, so that packs are replaced often.
const OFTEN: MergeOptions =
    MergeOptions { tip_blocks: 3, delta_txs: 30, bulk_blocks: 8, oldest_multiple: 16, ..MergeOptions::DEFAULT };

fn open_front(replica: &dyn Replica, node: &Arc<MemoryNode>) -> Result<Index, Error> {
    Index::open_front(replica, Arc::clone(node) as _, genesis_block(Network::Regtest).block_hash())
}

fn build(store: &MemoryStore, node: &Arc<MemoryNode>, profile: Profile) -> Index {
    built_merging(store, node, profile, OFTEN)
}

/// The scripts of all updates so far; `None` if any of them means every script.
fn touched(updates: &mut Receiver<Arc<Update>>) -> Option<BTreeSet<ScriptHash>> {
    let mut all = Some(BTreeSet::new());
    while let Ok(update) = updates.try_recv() {
        match (&update.touched, &mut all) {
            (Touched::Scripts(scripts), Some(all)) => all.extend(scripts.iter().copied()),
            _ => all = None,
        }
    }
    all
}

#[test]
fn front_ends_answer_as_a_search_through_all_transactions_and_tell_what_changed() {
    for (seed, profile) in [(1, Profile::Full), (2, Profile::Lean), (3, Profile::Full)] {
        let mut world = World::new(seed);
        let store = MemoryStore::new();
        let index = build(&store, &world.node, profile);
        let replica = MemoryReplica::new(&store);
        let [always, seldom] = [(), ()].map(|()| open_front(&replica, &world.node).unwrap());
        let (mut of_index, mut of_front) = (index.updates(), always.updates());
        let (mut checks, mut filtered) = (0, 0);
        for step in 0..40 {
            let held = world.node.held();
            index.sync(&*world.node).unwrap();
            index.merge().unwrap();
            let model = Model::of(world.blocks(), &held);
            for (front, is_asked) in [(&always, true), (&seldom, step % 7 == 6)] {
                if !is_asked {
                    continue;
                }
                front.sync_published(&replica, &*world.node).unwrap();
                let context = format!("seed {seed}, step {step}, {} unconfirmed", held.len());
                let snapshot = front.snapshot().unwrap();
                assert_eq!(snapshot.mempool().len(), held.len(), "{context}");
                wait_for_filters(front);
                (checks, filtered) = (checks + 1, filtered + usize::from(front.filter_count() > 0));
                model.check(&snapshot, &context);
            }
            let (index, front) = (touched(&mut of_index).unwrap(), touched(&mut of_front).unwrap());
            assert!(front.is_superset(&index), "seed {seed}, step {step}: a subscription would miss a change");
            world.step();
        }
        assert!(2 * filtered > checks, "seed {seed}: {filtered} of {checks} checks had filters");
    }
}

/// Waits a moment until a front end has read the keys of something; the delta that grows has filters then.
fn wait_for_filters(front: &Index) {
    let began = Instant::now();
    while front.filter_count() == 0 && began.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
}

#[test]
fn front_end_computes_the_tweaks_of_its_chain_from_the_blocks_of_its_own_node() {
    let mut world = World::new(8);
    let store = MemoryStore::new();
    let index = build(&store, &world.node, Profile::Full);
    let replica = MemoryReplica::new(&store);
    let front = open_front(&replica, &world.node).unwrap();
    let derived = Tweaks::derived(Network::Regtest, TweakDetail::Full);
    let derived = Arc::new(DerivedIndex::open(Arc::new(MemoryStore::new()), derived, 2).unwrap());
    front.set_derived(vec![derived]);
    let tweaks = Tweaks::among(front.derived()).unwrap();
    let (engine, mut model) = (Engine::new(), tweaks::Model::default());
    for step in 0..30 {
        index.sync(&*world.node).unwrap();
        index.merge().unwrap();
        front.sync_published(&replica, &*world.node).unwrap();
        front.catch_up_derived(&AtomicBool::new(false)).unwrap();
        let at = front.snapshot().unwrap();
        tweaks::compare(&tweaks, &at, world.blocks(), &engine, &mut model, &format!("step {step}"));
        world.step();
    }
}

#[test]
fn snapshot_of_a_front_end_keeps_its_answers_while_its_packs_are_merged_away() {
    let mut world = World::new(7);
    let store = MemoryStore::new();
    let index = build(&store, &world.node, Profile::Full);
    let replica = MemoryReplica::new(&store);
    let front = open_front(&replica, &world.node).unwrap();
    let scripts = world.node.scripts();
    let old = front.snapshot().unwrap();
    let before = Answers::of(&old, &scripts);
    let mut merges = 0;
    for _ in 0..40 {
        world.step();
        index.sync(&*world.node).unwrap();
        merges += index.merge().unwrap();
    }
    front.sync_published(&replica, &*world.node).unwrap();
    assert!(merges > 8, "every slot was used again: {merges} merges");
    assert_ne!(front.snapshot().unwrap().tip(), old.tip());
    Answers::of(&old, &scripts).assert_equal(&before, "after the merges");
}

#[test]
fn front_end_opens_once_the_index_is_built_and_ends_when_another_takes_its_place() {
    let (mut chain, node) = (ChainBuilder::new(5), Arc::<MemoryNode>::default());
    mix::mature(&mut chain);
    node.follow(chain.blocks());
    let store = MemoryStore::new();
    let replica = MemoryReplica::new(&store);
    assert!(matches!(open_front(&replica, &node), Err(Error::NotReady)));
    let _index = build(&store, &node, Profile::Full);
    let front = open_front(&replica, &node).unwrap();
    let other = MemoryStore::new();
    let genesis = genesis_block(Network::Regtest).block_hash();
    let secret = Secret([9; 16]);
    let temp = tempfile::tempdir().unwrap();
    let other_index =
        Index::open(Arc::new(other.clone()), Arc::clone(&node) as _, genesis, Profile::Full, secret).unwrap();
    other_index.build(None, &options(temp.path())).unwrap();
    store.publish(&other.manifest().unwrap().unwrap()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    assert!(matches!(front.follow_published(&replica, &*node, &stop), Err(Error::Replaced)));
}

fn open_files(folder: &Path) -> Arc<SegmentStore> {
    Arc::new(SegmentStore::open(folder, &TABLES, SegmentOptions::default()).unwrap())
}

/// Sets a flag at the end of a scope, a panic's too.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Applies every change of `feed` until `stop` is set.
fn keep_applying(feed: &FeedStore, replica: &FileReplica, stop: &AtomicBool) {
    let manifest = replica.newest().unwrap().unwrap().manifest().unwrap().unwrap();
    let mut number = feed.after(&manifest).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let Fetched::Change(bytes) = feed.change(number) else {
            std::thread::yield_now();
            continue;
        };
        let change = Change::decode(&bytes).unwrap();
        for file in change.files() {
            fs::copy(feed.file(file.number), replica.path(file)).unwrap();
        }
        replica.apply(&change, stop).unwrap();
        number += 1;
    }
}

#[test]
fn replicas_in_files_answer_as_a_search_through_all_transactions_while_packs_are_merged_away() {
    for (seed, profile) in [(11, Profile::Full), (12, Profile::Lean)] {
        let (mut world, folder) = (World::new(seed), tempfile::tempdir().unwrap());
        let files = open_files(&folder.path().join("primary"));
        let feed = Arc::new(FeedStore::new(Arc::clone(&files), FeedBounds::default()).unwrap());
        let (store, source) = (Arc::clone(&feed) as _, Arc::clone(&world.node) as _);
        let genesis = genesis_block(Network::Regtest).block_hash();
        let index = Index::open_with(store, source, genesis, profile, Secret([7; 16]), OFTEN).unwrap();
        index.build(None, &options(&folder.path().join("temp"))).unwrap();
        let copy = folder.path().join("replica");
        assert!(files.backup(&copy, &mut || ControlFlow::Continue(())).unwrap());
        let replica = FileReplica::new(open_files(&copy)).unwrap();
        let front = open_front(&replica, &world.node).unwrap();
        let (stop, mut merges) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            scope.spawn(|| keep_applying(&feed, &replica, &stop));
            for step in 0..60 {
                let held = world.node.held();
                index.sync(&*world.node).unwrap();
                merges += index.merge().unwrap();
                let wanted = feed.manifest().unwrap();
                // Tables are emptied there once the front end has let go of older states.
                while replica.newest().unwrap().unwrap().manifest().unwrap() != wanted {
                    front.sync_published(&replica, &*world.node).unwrap();
                }
                front.sync_published(&replica, &*world.node).unwrap();
                let context = format!("seed {seed}, step {step}, {} unconfirmed", held.len());
                Model::of(world.blocks(), &held).check(&front.snapshot().unwrap(), &context);
                world.step();
            }
        });
        assert!(merges > 8, "every slot was used again: {merges} merges");
    }
}
