//! An index that is far behind appends buried blocks as packs, and answers as one that was built with them.

use std::sync::Arc;

use birdhouse_chain::{Index, MergeOptions, Profile, ScriptHash, Touched};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};

use crate::common::{MemoryNode, built_merging, open_merging};
use crate::merges::{assert_as_fresh, filled_tables, mine, packs};

const TIP_BLOCKS: u32 = 5;
/// Deltas and merges of some blocks, and packs of 20 blocks or more.
const BEHIND: MergeOptions = MergeOptions {
    tip_blocks: TIP_BLOCKS,
    delta_txs: 60,
    bulk_blocks: 20,
    oldest_multiple: 16,
    ..MergeOptions::DEFAULT
};

fn deltas(store: &MemoryStore) -> usize {
    filled_tables(store).iter().filter(|name| name.starts_with("recent.")).count()
}

/// An index that was built with a small chain, and the node that has more of it.
struct World {
    chain: ChainBuilder,
    node: Arc<MemoryNode>,
    store: MemoryStore,
    index: Index,
    profile: Profile,
}

impl World {
    fn built(seed: u64, profile: Profile) -> Self {
        Self::built_with(seed, profile, BEHIND)
    }

    fn built_with(seed: u64, profile: Profile, merging: MergeOptions) -> Self {
        let chain = mix::sample(seed, Size::SMALL);
        let node = Arc::<MemoryNode>::default();
        node.follow(chain.blocks());
        let store = MemoryStore::new();
        let index = built_merging(&store, &node, profile, merging);
        Self { chain, node, store, index, profile }
    }

    /// Mines blocks, and lets the index follow.
    fn mine(&mut self, blocks: u32) {
        mine(&mut self.chain, blocks);
        self.node.follow(self.chain.blocks());
        self.index.sync(&*self.node).unwrap();
    }

    fn assert_as_fresh(&self, context: &str) {
        assert_as_fresh(&self.index, &self.node, context);
    }

    fn assert_as_fresh_when_opened_again(&self) {
        let reopened = open_merging(&self.store.reopen(), &self.node, self.profile, BEHIND);
        assert_as_fresh(&reopened, &self.node, "opened again");
    }
}

#[test]
fn blocks_of_an_index_far_behind_become_a_pack_with_the_deltas_before_them() {
    for profile in [Profile::Full, Profile::Lean] {
        let mut world = World::built(21, profile);
        for _ in 0..3 {
            world.mine(8);
        }
        assert!(deltas(&world.store) > 1, "{:?}", filled_tables(&world.store));
        let before = packs(&world.store);

        let mut updates = world.index.updates();
        world.mine(50);
        assert_eq!(updates.try_recv().unwrap().touched, Touched::Any);
        assert!(updates.try_recv().is_err(), "the blocks are announced together");
        // Updates that wait for it would hold their packs.
        drop(updates);
        assert_eq!(packs(&world.store), before + 1);
        world.assert_as_fresh("far behind");
        world.index.merge().unwrap();
        assert_eq!(deltas(&world.store), 1, "the last blocks alone are not packed: {:?}", filled_tables(&world.store));

        // Again, now with packs that are not much larger.
        for _ in 0..4 {
            world.mine(30);
            world.index.merge().unwrap();
            assert!(packs(&world.store) <= 4, "{} packs", packs(&world.store));
        }
        world.assert_as_fresh("far behind several times");

        // A reorg takes back what was packed.
        world.chain.rollback_to(world.chain.height() - 40);
        world.mine(90);
        world.assert_as_fresh("after a reorg into a pack");
        world.assert_as_fresh_when_opened_again();
    }
}

#[test]
fn the_last_blocks_of_an_index_behind_are_loaded_into_deltas() {
    for profile in [Profile::Full, Profile::Lean] {
        let mut world = World::built(22, profile);
        let before = packs(&world.store);

        // Fewer than a pack takes, with more transactions than a delta.
        for blocks in [9, 19] {
            world.mine(blocks);
            world.assert_as_fresh("some blocks behind");
        }
        assert_eq!(packs(&world.store), before);
        assert!(deltas(&world.store) > 1, "{:?}", filled_tables(&world.store));

        // A reorg takes back a part of them, and as many follow.
        world.chain.rollback_to(world.chain.height() - 7);
        world.mine(19);
        world.assert_as_fresh("after a reorg into loaded rows");
        world.assert_as_fresh_when_opened_again();
        world.index.merge().unwrap();
        world.assert_as_fresh("merged");
    }
}

#[test]
fn scripts_that_are_asked_about_while_an_index_catches_up_have_their_new_status_after_it() {
    // Every reading ends after 32 blocks: the second one begins for a pack, and has too few blocks for one.
    let merging = MergeOptions { bulk_records: 1, ..BEHIND };
    let World { mut chain, node, index, .. } = World::built_with(23, Profile::Full, merging);
    let index = Arc::new(index);
    mine(&mut chain, 32 + 15 + TIP_BLOCKS);
    node.follow(chain.blocks());
    let (asking, scripts) = (Arc::downgrade(&index), node.scripts());
    let ask = move || {
        let snapshot = asking.upgrade().unwrap().snapshot().unwrap();
        for script in &scripts {
            snapshot.status(&ScriptHash::of(script.as_bytes())).unwrap();
        }
    };
    node.at_every_hashes(ask);
    let mut updates = index.updates();
    index.sync(&*node).unwrap();
    assert_eq!(updates.try_recv().unwrap().touched, Touched::Any);
    assert_as_fresh(&index, &node, "caught up while statuses were asked for");
}
