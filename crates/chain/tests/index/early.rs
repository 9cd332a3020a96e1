//! Early rows: what answers while an index is first built is an index of the first blocks, and every answer is whole.

use std::sync::Arc;

use birdhouse_chain::{Error, Height, Index, Profile, Waiting};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};

use crate::answers::Answers;
use crate::common::{MemoryNode, built, open};
use crate::power_cut::in_generations;

/// The answers of an index of the first blocks, up to `tip`, that was built at once.
fn undisturbed(chain: &ChainBuilder, tip: Height, node: &MemoryNode) -> Answers {
    let lower = Arc::new(MemoryNode::default());
    lower.follow(&chain.blocks()[..=tip.0 as usize]);
    Answers::of(&built(&lower, Profile::Full).snapshot().unwrap(), &node.scripts())
}

/// Asserts that what answers now, if anything does, has every block up to its tip. Returns that tip.
pub(crate) fn assert_whole(index: &Index, chain: &ChainBuilder, node: &MemoryNode, context: &str) -> Option<Height> {
    let at = index.snapshot().ok()?;
    let tip = at.tip().height;
    let context = format!("{context}: early rows up to {tip}");
    Answers::of(&at, &node.scripts()).assert_equal(&undisturbed(chain, tip, node), &context);
    Some(tip)
}

/// Asserts that nothing follows the node, and that everybody hears of an old tip.
fn assert_early(index: &Index, node: &MemoryNode, ours: Height, chain: &ChainBuilder) {
    assert!(!index.is_ready());
    assert_eq!(index.waiting(), Some(Waiting::Building { ours, chain: Height(chain.height()) }));
    assert_eq!(index.downloading().unwrap().percent, index.progress().percent());
    assert!(matches!(index.sync(node), Err(Error::NotReady)));
    assert!(matches!(index.merge(), Ok(0)));
}

#[test]
fn each_tip_that_a_build_announces_has_all_of_its_blocks_while_the_build_goes_on() {
    let chain = mix::sample(7, Size::SMALL);
    let node = Arc::new(MemoryNode::default());
    node.follow(chain.blocks());
    for profile in [Profile::Full, Profile::Lean] {
        let temp = tempfile::tempdir().unwrap();
        let index = open(&MemoryStore::new(), &node, profile);
        let mut updates = index.updates();
        index.build(None, &in_generations(temp.path())).unwrap();
        // Each of these snapshots keeps its rows, though the build has replaced them.
        let mut heights = Vec::new();
        while let Ok(update) = updates.try_recv() {
            let tip = update.snapshot.tip().height;
            let expected = undisturbed(&chain, tip, &node);
            Answers::of(&update.snapshot, &node.scripts()).assert_equal(&expected, &format!("{profile:?} at {tip}"));
            heights.push(tip.0);
        }
        assert!(heights.len() > 3 && heights.is_sorted(), "{heights:?}");
        assert_eq!(heights.last(), Some(&chain.height()));
        assert!(index.is_ready() && index.waiting().is_none() && index.downloading().is_none());
    }
}

/// A build that fails once early rows answer: its index, its store, and the number of writes that it was allowed.
fn cut_off_early(node: &Arc<MemoryNode>, profile: Profile, temp_dir: &std::path::Path) -> (MemoryStore, Index) {
    for writes in (100..).step_by(20) {
        let store = MemoryStore::new();
        store.fail_after(writes);
        let index = open(&store, node, profile);
        assert!(index.build(None, &in_generations(temp_dir)).is_err(), "{writes} writes are all of the build");
        if index.snapshot().is_ok() {
            return (store, index);
        }
        std::fs::remove_dir_all(temp_dir).unwrap();
    }
    unreachable!("a build ends")
}

#[test]
fn early_rows_answer_after_a_failure_and_the_build_resumes_beside_them() {
    let chain = mix::sample(8, Size::SMALL);
    let node = Arc::new(MemoryNode::default());
    node.follow(chain.blocks());
    let whole = undisturbed(&chain, Height(chain.height()), &node);
    for profile in [Profile::Full, Profile::Lean] {
        let temp = tempfile::tempdir().unwrap();
        let (store, index) = cut_off_early(&node, profile, temp.path());
        let tip = assert_whole(&index, &chain, &node, "after the failure").unwrap();
        assert!(tip.0 < chain.height());
        assert_early(&index, &node, tip, &chain);

        // A new process answers again as soon as it resumes.
        drop(index);
        let store = store.reopen();
        let index = open(&store, &node, profile);
        let mut updates = index.updates();
        index.build(None, &in_generations(temp.path())).unwrap();
        assert_eq!(updates.try_recv().unwrap().snapshot.tip().height, tip, "the first that answers");
        Answers::of(&index.snapshot().unwrap(), &node.scripts()).assert_equal(&whole, "at the end");
    }
}

#[test]
fn a_build_that_starts_anew_answers_nothing_until_it_has_rows_again() {
    let chain = mix::sample(8, Size::SMALL);
    let node = Arc::new(MemoryNode::default());
    node.follow(chain.blocks());
    let temp = tempfile::tempdir().unwrap();
    let (store, index) = cut_off_early(&node, Profile::Full, temp.path());
    std::fs::remove_dir_all(temp.path()).unwrap();
    store.fail_after(3);
    index.build(None, &in_generations(temp.path())).unwrap_err();
    assert!(index.snapshot().is_err(), "the txids of early rows are cut");
    store.fail_after(u64::MAX);
    let mut updates = index.updates();
    index.build(None, &in_generations(temp.path())).unwrap();
    while let Ok(update) = updates.try_recv() {
        let tip = update.snapshot.tip().height;
        let expected = undisturbed(&chain, tip, &node);
        Answers::of(&update.snapshot, &node.scripts()).assert_equal(&expected, &format!("anew at {tip}"));
    }
    assert!(index.is_ready());
}
