//! An index that is far behind appends buried blocks as packs, and answers as one that was built with them.

use std::sync::Arc;

use birdhouse_chain::{MergeOptions, Profile, Touched};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};

use crate::common::{MemoryNode, open_merging, options};
use crate::merges::{assert_as_fresh, filled_tables, mine, packs};

const TIP_BLOCKS: u32 = 5;
/// Deltas and merges of some blocks, and packs of 20 blocks or more.
const BEHIND: MergeOptions =
    MergeOptions { tip_blocks: TIP_BLOCKS, delta_txs: 60, bulk_blocks: 20, oldest_multiple: 16 };

fn deltas(store: &MemoryStore) -> usize {
    filled_tables(store).iter().filter(|name| name.starts_with("recent.")).count()
}

#[test]
fn blocks_of_an_index_far_behind_become_a_pack_with_the_deltas_before_them() {
    for profile in [Profile::Full, Profile::Lean] {
        let mut chain: ChainBuilder = mix::sample(21, Size::SMALL);
        let node = Arc::<MemoryNode>::default();
        node.follow(chain.blocks());
        let store = MemoryStore::new();
        let index = open_merging(&store, &node, profile, BEHIND);
        let temp = tempfile::tempdir().unwrap();
        index.build(None, &options(temp.path())).unwrap();
        for _ in 0..3 {
            mine(&mut chain, 8);
            node.follow(chain.blocks());
            index.sync(&*node).unwrap();
        }
        assert!(deltas(&store) > 1, "{:?}", filled_tables(&store));
        let before = packs(&store);

        let mut updates = index.updates();
        mine(&mut chain, 50);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        assert_eq!(updates.try_recv().unwrap().touched, Touched::Any);
        assert!(updates.try_recv().is_err(), "the blocks are announced together");
        // Updates that wait for it would hold their packs.
        drop(updates);
        assert_eq!(packs(&store), before + 1);
        assert_as_fresh(&index, &node, "far behind");
        index.merge().unwrap();
        assert_eq!(deltas(&store), 1, "the last blocks alone are not packed: {:?}", filled_tables(&store));

        // Again, now with packs that are not much larger.
        for _ in 0..4 {
            mine(&mut chain, 30);
            node.follow(chain.blocks());
            index.sync(&*node).unwrap();
            index.merge().unwrap();
            assert!(packs(&store) <= 4, "{} packs", packs(&store));
        }
        assert_as_fresh(&index, &node, "far behind several times");

        // A reorg takes back what was packed.
        chain.rollback_to(chain.height() - 40);
        mine(&mut chain, 90);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        assert_as_fresh(&index, &node, "after a reorg into a pack");
        let reopened = open_merging(&store.reopen(), &node, profile, BEHIND);
        assert_as_fresh(&reopened, &node, "opened again");
    }
}

#[test]
fn the_last_blocks_of_an_index_behind_are_loaded_into_deltas() {
    for profile in [Profile::Full, Profile::Lean] {
        let mut chain: ChainBuilder = mix::sample(22, Size::SMALL);
        let node = Arc::<MemoryNode>::default();
        node.follow(chain.blocks());
        let store = MemoryStore::new();
        let index = open_merging(&store, &node, profile, BEHIND);
        let temp = tempfile::tempdir().unwrap();
        index.build(None, &options(temp.path())).unwrap();
        let before = packs(&store);

        // Fewer than a pack takes, with more transactions than a delta.
        for blocks in [9, 19] {
            mine(&mut chain, blocks);
            node.follow(chain.blocks());
            index.sync(&*node).unwrap();
            assert_as_fresh(&index, &node, "some blocks behind");
        }
        assert_eq!(packs(&store), before);
        assert!(deltas(&store) > 1, "{:?}", filled_tables(&store));

        // A reorg takes back a part of them, and as many follow.
        chain.rollback_to(chain.height() - 7);
        mine(&mut chain, 19);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        assert_as_fresh(&index, &node, "after a reorg into loaded rows");
        let reopened = open_merging(&store.reopen(), &node, profile, BEHIND);
        assert_as_fresh(&reopened, &node, "opened again");
        index.merge().unwrap();
        assert_as_fresh(&index, &node, "merged");
    }
}
