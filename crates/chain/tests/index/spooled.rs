//! An index that lacks many blocks appends them by way of records on disk, and answers as one that was built with them,
//! whatever goes wrong meanwhile.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use birdhouse_chain::{BuildOptions, Error, Height, Index, MergeOptions, Profile, SpoolBounds, SpoolCounts, Touched};
use birdhouse_store::{MemoryStore, Store as _};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::BlockHash;
use tempfile::TempDir;

use crate::common::{MemoryNode, open_merging, options};
use crate::merges::{assert_as_fresh, filled_tables, mine, packs};

const TIP_BLOCKS: u32 = 5;
/// Blocks of a pack, at least.
const BULK_BLOCKS: u32 = 20;
/// A reading in memory ends after 32 blocks, one by way of the disk at its bounds alone.
const SPOOLING: MergeOptions = MergeOptions {
    tip_blocks: TIP_BLOCKS,
    delta_txs: 60,
    bulk_blocks: BULK_BLOCKS,
    bulk_records: 1,
    spooled_blocks: 40,
    oldest_multiple: 16,
    ..MergeOptions::DEFAULT
};

/// An index that was built with the first blocks of a chain, and the node that has the others.
struct World {
    chain: ChainBuilder,
    node: Arc<MemoryNode>,
    store: MemoryStore,
    index: Index,
    profile: Profile,
    merging: MergeOptions,
    temp: TempDir,
}

impl World {
    fn built(built: usize, profile: Profile, merging: MergeOptions) -> Self {
        let (node, store, temp) = (Arc::<MemoryNode>::default(), MemoryStore::new(), tempfile::tempdir().unwrap());
        let chain = mix::sample(24, Size::SMALL);
        node.give_undo_data();
        node.follow(&chain.blocks()[..built]);
        let index = ready(&store, &node, profile, merging, &options(temp.path()));
        Self { chain, node, store, index, profile, merging, temp }
    }

    /// Mines blocks, which the node has from now on.
    fn announce(&mut self, blocks: u32) {
        mine(&mut self.chain, blocks);
        self.node.follow(self.chain.blocks());
    }

    /// Mines blocks, and lets the index follow.
    fn mine(&mut self, blocks: u32) {
        self.announce(blocks);
        self.index.sync(&*self.node).unwrap();
    }

    /// The first block from this height on that spends outputs.
    fn spending_block(&self, height: u32) -> BlockHash {
        let blocks = &self.chain.blocks()[height as usize..];
        blocks.iter().find(|block| block.txdata.len() > 1).unwrap().block_hash()
    }

    /// Opens the index again, in the store as a close leaves it.
    fn reopen(&mut self) {
        self.store = self.store.reopen();
        self.index = ready(&self.store, &self.node, self.profile, self.merging, &options(self.temp.path()));
    }

    fn assert_as_fresh(&self, context: &str) {
        assert_as_fresh(&self.index, &self.node, context);
    }
}

/// An index that is built, if it is not yet.
fn ready(
    store: &MemoryStore,
    node: &Arc<MemoryNode>,
    profile: Profile,
    merging: MergeOptions,
    build: &BuildOptions,
) -> Index {
    let index = open_merging(store, node, profile, merging);
    index.build(None, build).unwrap();
    index
}

#[test]
fn many_blocks_become_one_pack_by_way_of_records_on_disk() {
    for (profile, built) in [(Profile::Full, 1), (Profile::Lean, 30)] {
        let mut world = World::built(built, profile, SPOOLING);
        let mut updates = world.index.updates();
        world.mine(70);
        assert_eq!(updates.try_recv().unwrap().touched, Touched::Any);
        drop(updates);
        assert_eq!(packs(&world.store), if built == 1 { 1 } else { 2 }, "{:?}", filled_tables(&world.store));
        world.assert_as_fresh("spooled");

        // Again: outputs of earlier packs are spent, deltas and packs are merged.
        for blocks in [60, 7, 50, 46] {
            let before = packs(&world.store);
            world.mine(blocks);
            assert!(packs(&world.store) <= before + 1, "{:?}", filled_tables(&world.store));
            if profile == Profile::Full {
                world.assert_as_fresh("spooled again");
            }
        }
        assert_eq!(world.index.spool_counts(), SpoolCounts { begun: 4, published: 4 });
        world.chain.rollback_to(world.chain.height() - 40);
        world.mine(90);
        world.assert_as_fresh("after a reorg into a pack");
        world.reopen();
        world.assert_as_fresh("opened again");
        assert_eq!(fs::read_dir(world.temp.path()).unwrap().count(), 0, "files were left");
    }
}

#[test]
fn tiny_bounds_make_several_packs_lookups_and_requests() {
    let spooling = SpoolBounds { bytes_max: 1 << 14, bytes_min: 0, asked_blocks: 33, spends_held: 3, looked_up: 2 };
    for (profile, built) in [(Profile::Full, 30), (Profile::Lean, 1)] {
        let mut world = World::built(built, profile, MergeOptions { spooling, ..SPOOLING });
        for blocks in [120, 90] {
            let before = world.index.spool_counts().published;
            world.mine(blocks);
            assert!(world.index.spool_counts().published > before + 1, "{:?}", world.index.spool_counts());
        }
        world.reopen();
        world.assert_as_fresh("within tiny bounds");
    }
}

#[test]
fn a_bound_that_is_too_low_for_a_pack_ends_one_reading_and_not_each() {
    let spooling = SpoolBounds { bytes_max: 1, bytes_min: 0, ..SPOOLING.spooling };
    let mut world = World::built(30, Profile::Full, MergeOptions { spooling, bulk_blocks: 40, ..SPOOLING });
    world.mine(200);
    assert_eq!(world.index.spool_counts(), SpoolCounts { begun: 1, published: 0 });
    world.assert_as_fresh("within memory");
}

#[test]
fn a_partition_that_becomes_long_ends_the_pack() {
    let mut world = World::built(30, Profile::Full, SPOOLING);
    // Payments to one script fill the buffer of its partition within some blocks.
    let payments = vec![Payment::to_lock(Lock::new(Form::P2wpkh, 7), 700); 60];
    for _ in 0..100 {
        world.chain.pay(&payments);
        world.chain.mine_block();
    }
    world.node.follow(world.chain.blocks());
    let memory_bytes = 256 << 10;
    world.index.build(None, &BuildOptions { memory_bytes, ..options(world.temp.path()) }).unwrap();
    world.index.sync(&*world.node).unwrap();
    assert!(world.index.spool_counts().published > 1, "{:?}", world.index.spool_counts());
    world.assert_as_fresh("many payments to one script");
}

#[test]
fn a_block_without_heights_or_with_a_sibling_is_appended_in_another_way_and_the_others_go_on() {
    for (is_doubted, offset) in [(false, 6), (true, 6), (false, 50), (true, 50)] {
        let mut world = World::built(30, Profile::Full, SPOOLING);
        let from = world.index.snapshot().unwrap().tip().height.0;
        world.announce(160);
        let block = world.spending_block(from + offset);
        if is_doubted {
            world.node.doubt(block);
        } else {
            world.node.withhold_heights(block);
        }
        world.index.sync(&*world.node).unwrap();
        let counts = world.index.spool_counts();
        assert!(counts.published >= 1, "{counts:?}");
        // Nothing begins again and again at the block.
        assert!(counts.begun <= counts.published + 1, "{counts:?}");
        world.assert_as_fresh("one block stands out");
    }
}

#[test]
fn a_request_that_fails_ends_the_reading_and_what_was_read_becomes_a_pack() {
    let spooling = SpoolBounds { asked_blocks: 32, ..SPOOLING.spooling };
    let mut world = World::built(1, Profile::Full, MergeOptions { spooling, ..SPOOLING });
    world.announce(100);
    world.node.fail_hashes_from(32);
    world.index.sync(&*world.node).unwrap();
    world.assert_as_fresh("a request failed");
    assert!(world.index.spool_counts().published >= 1);
}

#[test]
fn a_reorg_while_blocks_are_read_leads_to_the_new_chain() {
    let spooling = SpoolBounds { asked_blocks: 32, ..SPOOLING.spooling };
    for reads in [1, 40, 70] {
        let mut world = World::built(30, Profile::Full, MergeOptions { spooling, ..SPOOLING });
        world.announce(90);
        let mut other = world.chain.clone();
        other.rollback_to(other.height() - 60);
        mine(&mut other, 120);
        let (node, blocks, left) = (Arc::downgrade(&world.node), other.blocks().to_vec(), AtomicUsize::new(reads));
        world.node.at_every_block(move || {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                node.upgrade().unwrap().follow(&blocks);
            }
        });
        while world.index.sync(&*world.node).is_err() {}
        assert!(world.index.spool_counts().begun > 0);
        world.assert_as_fresh("after a reorg while blocks were read");
    }
}

#[test]
fn a_reading_that_is_stopped_takes_no_numbers() {
    for reads in [1, 50, 90] {
        let mut world = World::built(30, Profile::Full, SPOOLING);
        world.announce(100);
        let (stop, left) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(reads));
        let stops = Arc::clone(&stop);
        world.node.at_every_block(move || {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stops.store(true, Ordering::Relaxed);
            }
        });
        let before = world.store.manifest().unwrap();
        world.index.catch_up(&*world.node, &stop).unwrap();
        assert!(world.index.spool_counts().begun == 1 && world.index.spool_counts().published == 0);
        assert_eq!(world.store.manifest().unwrap(), before);
        world.node.at_every_block(|| {});
        world.index.sync(&*world.node).unwrap();
        world.assert_as_fresh("stopped while blocks were read");
    }
}

#[test]
fn an_attempt_that_fails_before_its_rows_are_loaded_takes_no_numbers() {
    let mut world = World::built(30, Profile::Full, SPOOLING);
    world.announce(60);
    let mut taking = 0;
    for writes in 0.. {
        let before = world.store.manifest().unwrap();
        world.store.fail_after(writes);
        let followed = world.index.sync(&*world.node);
        let after = world.store.manifest().unwrap();
        if world.index.spool_counts().published > 0 {
            break;
        }
        assert!(matches!(followed, Err(Error::Store(_))));
        taking += usize::from(after != before);
        world.reopen();
        // Those who lack rows of a build would build.
        assert!(writes < 1000, "it never succeeds");
    }
    // The txids, the load and the publish come after the reservation.
    assert!(taking <= 3, "{taking} attempts took numbers");
    world.reopen();
    world.index.sync(&*world.node).unwrap();
    world.assert_as_fresh("after many failures");
}

#[test]
fn without_temporary_files_blocks_are_appended_within_memory() {
    let mut world = World::built(30, Profile::Full, SPOOLING);
    let gone = world.temp.path().join("build");
    world.index.build(None, &options(&gone)).unwrap();
    // A file in place of the folder.
    fs::write(&gone, b"").unwrap();
    world.mine(100);
    assert_eq!(world.index.spool_counts().published, 0);
    world.assert_as_fresh("without temporary files");
}

#[test]
fn a_block_that_contradicts_the_chain_is_found_where_it_lies() {
    // It is found once all was read, or while blocks are read.
    for spends_held in [SPOOLING.spooling.spends_held, 3] {
        let spooling = SpoolBounds { spends_held, ..SPOOLING.spooling };
        let mut world = World::built(30, Profile::Full, MergeOptions { spooling, ..SPOOLING });
        let from = world.index.snapshot().unwrap().tip().height.0;
        world.announce(200);
        let block = world.spending_block(from + 120);
        world.node.contradict(block);
        for _ in 0..3 {
            world.index.sync(&*world.node).unwrap_err();
        }
        let Height(tip) = world.index.snapshot().unwrap().tip().height;
        assert!(tip > from + 60, "the tip stays at {tip}, {} blocks were read", world.node.reads());
        assert_eq!(world.index.spool_counts().begun, 1, "later attempts are made within memory");
    }
}
