//! A node that falls behind, is wiped, or changes its mind: what it calls our tip decides.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use birdhouse_chain::source::BlockStanding::{Fork, Invalid, Unconnected, Unknown};
use birdhouse_chain::{Error, Height, Index, Profile, Touched, Update};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use tokio::sync::broadcast::Receiver;

use crate::answers::Answers;
use crate::common::Activity::{Rests, Syncs};
use crate::common::{MemoryNode, built};

/// An index of a node's whole chain.
fn world() -> (Arc<MemoryNode>, ChainBuilder, Index) {
    let chain = mix::sample(5, Size::SMALL);
    let node = Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    let index = built(&node, Profile::Full);
    index.sync(&*node).unwrap();
    (node, chain, index)
}

fn height(index: &Index) -> u32 {
    index.snapshot().unwrap().tip().height.0
}

fn kind(index: &Index) -> &'static str {
    index.waiting().map_or("in sync", |waiting| waiting.kind())
}

#[test]
fn a_node_that_is_behind_is_waited_for_and_followed_when_it_is_back() {
    for (standing, activity, expected) in [
        (Unknown, Rests, "node on another chain"),
        (Unknown, Syncs, "node behind"),
        (Fork, Syncs, "node behind"),
        (Unconnected, Rests, "node behind"),
    ] {
        let (node, chain, index) = world();
        let before = Answers::of(&index.snapshot().unwrap(), &node.scripts());
        node.regard(standing, activity);
        for len in [1, 20, chain.blocks().len() - 1] {
            node.follow(&chain.blocks()[..len]);
            assert!(!index.sync(&*node).unwrap());
            assert_eq!((kind(&index), height(&index)), (expected, chain.height()), "{standing:?} {activity:?}");
        }
        Answers::of(&index.snapshot().unwrap(), &node.scripts()).assert_equal(&before, "while the node is behind");
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        assert_eq!((kind(&index), height(&index)), ("in sync", chain.height()));
    }
}

#[test]
fn a_node_that_falls_behind_after_it_was_judged_takes_nothing_back() {
    let (node, mut chain, index) = world();
    let ours = chain.height();
    chain.rollback_to(ours - 5);
    chain.mine(6);
    node.follow(chain.blocks());
    node.fall_behind_after_next_view(&chain.blocks()[..20]);
    assert!(!index.sync(&*node).unwrap());
    assert_eq!((kind(&index), height(&index)), ("node behind", ours));
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    assert_eq!((kind(&index), height(&index)), ("in sync", chain.height()));
}

#[test]
fn a_node_that_catches_up_while_it_is_judged_is_followed_without_a_detour() {
    let (node, mut chain, index) = world();
    let ours = chain.height();
    node.regard(Unconnected, Syncs);
    node.follow(&chain.blocks()[..20]);
    chain.rollback_to(ours - 5);
    chain.mine(6);
    node.follow_before_next_view(chain.blocks());
    let mut updates = index.updates();
    assert!(index.sync(&*node).unwrap());
    assert_eq!((kind(&index), height(&index)), ("in sync", ours + 1));
    let heights = std::iter::from_fn(|| updates.try_recv().ok()).map(|update| update.snapshot.tip().height.0);
    assert_eq!(heights.collect::<Vec<_>>(), [ours + 1], "no lower tip was shown");
}

/// The next update, if it is there.
fn now(index: &Index, updates: &mut Receiver<Arc<Update>>) -> Option<Arc<Update>> {
    let next = pin!(index.next_update(updates));
    match next.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(update) => Some(update.expect("the index lives")),
        Poll::Pending => None,
    }
}

#[test]
fn a_receiver_that_lags_gets_one_update_and_none_that_is_older() {
    let (node, mut chain, index) = world();
    let mut updates = index.updates();
    for _ in 0..70 {
        chain.mine(1);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
    }
    let next = now(&index, &mut updates).unwrap();
    assert_eq!((next.snapshot.tip().height.0, &next.touched), (chain.height(), &Touched::Any));
    assert!(now(&index, &mut updates).is_none(), "an older one came");
    chain.mine(1);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    let next = now(&index, &mut updates).unwrap();
    assert_eq!(next.snapshot.tip().height.0, chain.height());
}

#[test]
fn a_node_that_calls_the_tip_invalid_is_followed_to_less_work() {
    for (standing, activity) in [(Invalid, Rests), (Invalid, Syncs), (Fork, Rests)] {
        let (node, mut chain, index) = world();
        node.regard(standing, activity);
        chain.rollback_to(chain.height() - 7);
        node.follow(chain.blocks());
        assert!(index.sync(&*node).unwrap());
        assert_eq!((kind(&index), height(&index)), ("in sync", chain.height()));
        let fresh = built(&node, Profile::Full);
        fresh.sync(&*node).unwrap();
        let scripts = node.scripts();
        let expected = Answers::of(&fresh.snapshot().unwrap(), &scripts);
        Answers::of(&index.snapshot().unwrap(), &scripts).assert_equal(&expected, "after the rollback");
    }
}

#[test]
fn another_chain_of_a_node_that_lost_ours_counts_when_it_has_more_work() {
    let (node, mut chain, index) = world();
    let ours = chain.height();
    // Blocks at the tip, whose stale bodies only notifications need.
    chain.mine(6);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    chain.rollback_to(ours);
    chain.mine(6);
    node.regard(Unknown, Rests);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    assert_eq!(kind(&index), "node on another chain", "as much work is not more");
    chain.mine(1);
    node.follow(chain.blocks());
    node.lose_stale_blocks();
    let mut updates = index.updates();
    assert!(index.sync(&*node).unwrap());
    assert_eq!((kind(&index), height(&index)), ("in sync", ours + 7));
    assert_eq!(updates.try_recv().unwrap().touched, Touched::Any, "the stale blocks are lost");
}

#[test]
fn a_reorg_below_the_set_depth_waits_for_the_operators_approval() {
    let (node, mut chain, index) = world();
    let ours = chain.height();
    index.set_reorg_depth_max(4);
    chain.rollback_to(ours - 5);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    assert_eq!((kind(&index), height(&index)), ("deep reorg", ours));
    let said = index.waiting().unwrap().to_string();
    assert!(said.contains("birdhouse ctl accept-reorg") && said.contains("reorg-depth-max allows 4"), "{said}");
    let stop = AtomicBool::new(false);
    assert!(matches!(index.catch_up(&*node, &stop), Err(Error::Waiting(_))));

    assert!(index.accept_reorg().is_some());
    // Nobody accepted a deeper one.
    chain.rollback_to(ours - 6);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    assert_eq!((kind(&index), height(&index)), ("deep reorg", ours));
    assert!(index.accept_reorg().is_some());
    index.sync(&*node).unwrap();
    assert_eq!((kind(&index), height(&index)), ("in sync", ours - 6));
    assert!(index.accept_reorg().is_none());
    // The word counted once.
    chain.rollback_to(chain.height() - 5);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    assert_eq!(kind(&index), "deep reorg");
    index.set_reorg_depth_max(5);
    index.sync(&*node).unwrap();
    assert_eq!(kind(&index), "in sync");
}

#[test]
fn an_approval_covers_no_reorg_that_comes_while_the_accepted_one_is_followed() {
    let (node, mut chain, index) = world();
    index.set_reorg_depth_max(4);
    let fork = height(&index) - 6;
    chain.rollback_to(fork);
    chain.mine(150);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    assert!(index.accept_reorg().is_some());
    // The first step takes 6 stale and 64 new blocks. In the second, the node changes its mind again.
    let mut other = chain.clone();
    other.rollback_to(fork + 50);
    other.mine(120);
    let (read, changed) = (Arc::new(AtomicU32::new(0)), Arc::clone(&node));
    node.at_every_block(move || {
        if read.fetch_add(1, Ordering::Relaxed) == 75 {
            changed.follow(other.blocks());
        }
    });
    index.sync(&*node).unwrap();
    assert_eq!(kind(&index), "deep reorg", "at height {} after a fork at {fork}", height(&index));
}

#[test]
fn an_approval_of_a_deep_reorg_that_the_node_has_left_covers_no_other_one() {
    let (node, mut chain, index) = world();
    let index = Arc::new(index);
    index.set_reorg_depth_max(4);
    let ours = chain.height();
    let (mut deep, mut other) = (chain.clone(), chain.clone());
    deep.rollback_to(ours - 6);
    deep.mine(9);
    node.follow(deep.blocks());
    index.sync(&*node).unwrap();
    assert_eq!(kind(&index), "deep reorg");

    // The node comes back, to more blocks on our tip. While they are appended, a person speaks, and another reorg
    // comes.
    chain.mine(3);
    node.follow(chain.blocks());
    other.rollback_to(ours - 5);
    other.mine(12);
    let (is_first, changed, asked) = (AtomicBool::new(true), Arc::clone(&node), Arc::clone(&index));
    node.at_every_block(move || {
        if is_first.swap(false, Ordering::Relaxed) {
            asked.accept_reorg();
            changed.follow(other.blocks());
        }
    });
    index.sync(&*node).unwrap();
    assert_eq!((kind(&index), height(&index)), ("deep reorg", ours + 3));
}

#[test]
fn a_deep_rollback_can_be_stopped_and_changes_nothing_until_its_publish() {
    let (node, mut chain, index) = world();
    let (ours, before) = (height(&index), Answers::of(&index.snapshot().unwrap(), &node.scripts()));
    chain.rollback_to(ours - 50);
    chain.mine(1);
    node.follow(chain.blocks());
    let stop = Arc::new(AtomicBool::new(false));
    let (read, set) = (Arc::new(AtomicU32::new(0)), Arc::clone(&stop));
    let count = Arc::clone(&read);
    node.at_every_block(move || {
        if count.fetch_add(1, Ordering::Relaxed) == 9 {
            set.store(true, Ordering::Relaxed);
        }
    });
    index.catch_up(&*node, &stop).unwrap();
    assert_eq!((height(&index), read.load(Ordering::Relaxed)), (ours, 10), "it stopped after the tenth stale block");
    Answers::of(&index.snapshot().unwrap(), &node.scripts()).assert_equal(&before, "stopped");
    stop.store(false, Ordering::Relaxed);
    index.catch_up(&*node, &stop).unwrap();
    assert_eq!(index.snapshot().unwrap().tip().height, Height(chain.height()));
}
