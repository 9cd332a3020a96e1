//! The follower with a node whose tip moves at the worst moment.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::source::MempoolChange;
use birdhouse_chain::{Height, Index, MergeOptions, Profile, Runtime, ScriptHash, Secret, Snapshot, Spawned, Touched};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::tx::Payment;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{Block, Network, Transaction, Txid};

use crate::common::{MemoryNode, built, built_merging};

/// Far longer than any step of these tests takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node with a chain, and that chain with more blocks.
fn node_and_more(blocks: usize) -> (Arc<MemoryNode>, ChainBuilder) {
    let mut chain = mix::sample(3, Size::SMALL);
    let node = Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    for _ in 0..blocks {
        chain.mine_block();
    }
    (node, chain)
}

#[test]
fn a_tip_that_moves_while_the_mempool_is_listed_is_followed() {
    let (node, chain) = node_and_more(1);
    let index = built(&node, Profile::Full);
    // As with ZMQ: after a number of changes the follower lists the mempool again, and no update announces a block.
    node.tell_of_nothing();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        // The follower begins with a listing.
        wait_until(|| node.listings() >= 1);
        node.follow_at_next_listing(chain.blocks());
        let tip = chain.blocks().last().expect("a chain has blocks").block_hash();
        let is_followed = has_come(|| index.snapshot().is_ok_and(|snapshot| snapshot.tip().hash == tip));
        stop.store(true, Ordering::Relaxed);
        // A follower that does not stop would keep the scope from ending.
        let has_ended = has_come(|| follower.is_finished());
        assert!(is_followed && has_ended, "followed: {is_followed}, ended: {has_ended}");
    });
}

#[test]
fn a_node_whose_tip_moves_at_every_listing_does_not_keep_the_follower_from_stopping() {
    let (node, chain) = node_and_more(1);
    let index = built(&node, Profile::Full);
    node.alternate_at_listings([chain.blocks(), &chain.blocks()[..chain.blocks().len() - 1]]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        wait_until(|| node.listings() >= 5);
        stop.store(true, Ordering::Relaxed);
        assert!(has_come(|| follower.is_finished()), "stop ends every loop");
    });
}

#[test]
fn a_large_mempool_is_kept_in_parts_and_does_not_delay_a_block() {
    /// Transactions of 400 a round: eight requests of 50 at once.
    const TRANSACTIONS: usize = 2_400;
    let mut chain = mix::sample(4, Size::SMALL);
    let node = Arc::<MemoryNode>::default();
    node.follow(chain.blocks());
    let index = built(&node, Profile::Full);
    let script = chain.wallet().foreign_address(1).script_pubkey();
    for _ in 0..TRANSACTIONS {
        chain.pay(&[Payment::to_script(script.clone(), 1000)]);
    }
    let mut unconfirmed = chain.clone();
    node.hold(unconfirmed.mine_block().txdata[1..].to_vec());
    node.fetch_slowly(Duration::from_millis(250));
    let mut blocks = chain.blocks().to_vec();
    blocks.push(empty_block_on(&chain));
    let len = || index.snapshot().unwrap().mempool().len();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        let is_partial = has_come(|| len() > 0);
        let part = len();
        let mut updates = index.updates();
        node.follow(&blocks);
        let tip = blocks.last().unwrap().block_hash();
        let is_whole = has_come(|| len() == TRANSACTIONS);
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
        let mut snapshots = std::iter::from_fn(|| Some(updates.try_recv().ok()?.snapshot.clone()));
        let kept = snapshots.find(|at| at.tip().hash == tip).map(|at| at.mempool().len());
        assert!(is_partial && part < TRANSACTIONS, "{part} transactions were shown first");
        // The block was shown before the rest of the mempool.
        assert!(kept.is_some_and(|kept| (part..TRANSACTIONS).contains(&kept)), "{part} transactions, then {kept:?}");
        assert!(is_whole, "{} transactions at the end", len());
    });
}

/// A clock that only the node's work moves, in milliseconds.
#[derive(Debug, Default)]
struct NodeClock(AtomicU64);

impl Runtime for NodeClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
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
        Ok(Box::new(thread::spawn(work)))
    }
}

/// The wait is a multiple of what each poll costs the node. A transaction is fetched once.
#[test]
fn a_poll_that_fetches_transactions_makes_the_next_wait_no_longer() {
    let (node, mut chain) = node_and_more(0);
    let store = MemoryStore::new();
    drop(built_merging(&store, &node, Profile::Full, MergeOptions::default()));
    let clock = Arc::new(NodeClock::default());
    let genesis = genesis_block(Network::Regtest).block_hash();
    let (on, store, source) = (Arc::clone(&clock) as _, Arc::new(store), Arc::clone(&node) as _);
    let merging = MergeOptions::default();
    let index = Index::open_on(on, store, source, genesis, Profile::Full, Secret([7; 16]), merging).unwrap();
    let script = chain.wallet().foreign_address(7).script_pubkey();
    chain.pay(&[Payment::to_script(script, 1000)]);
    node.hold([chain.mine_block().txdata.last().expect("it has a payment").clone()]);
    node.at_every_fetch(move || {
        clock.0.fetch_add(50, Ordering::Relaxed);
    });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        wait_until(|| node.waits() >= 2);
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
    });
    assert_eq!(index.snapshot().unwrap().mempool().len(), 1, "the first poll fetched it");
    assert_eq!(node.timeouts()[..2], [Duration::from_millis(100); 2]);
}

#[test]
fn blocks_that_are_caught_up_together_are_one_update_with_all_of_their_scripts() {
    // More than a step of 64, and few enough to be no pack.
    const BLOCKS: u32 = 90;
    let (node, mut chain) = node_and_more(0);
    let index = built(&node, Profile::Full);
    index.sync(&*node).unwrap();
    let script = chain.wallet().foreign_address(7).script_pubkey();
    let before = chain.height();
    chain.mine(BLOCKS / 2);
    chain.pay(&[Payment::to_script(script.clone(), 1000)]);
    chain.mine(BLOCKS / 2);
    node.follow(chain.blocks());
    let mut updates = index.updates();
    assert!(index.sync(&*node).unwrap());
    let update = updates.try_recv().unwrap();
    assert_eq!(update.snapshot.tip().height, Height(before + BLOCKS));
    let Touched::Scripts(touched) = &update.touched else { panic!("every block is known") };
    assert!(touched.binary_search(&ScriptHash::of(script.as_bytes())).is_ok());
    assert!(updates.try_recv().is_err(), "there is one update");
}

#[test]
fn an_index_with_an_interval_looks_at_the_node_when_it_is_over_or_a_transaction_is_asked_for() {
    let (node, mut chain) = node_and_more(0);
    let index = built(&node, Profile::Full);
    index.set_look_interval(Duration::from_secs(3));
    let height = || index.snapshot().unwrap().tip().height.0;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        wait_until(|| node.listings() >= 1);
        let began = Instant::now();
        chain.mine(1);
        node.follow(chain.blocks());
        let is_followed = has_come(|| height() == chain.height());
        let took = began.elapsed();
        chain.mine(1);
        node.follow(chain.blocks());
        let asked = Instant::now();
        let unknown = index.admit(&*node, Txid::all_zeros());
        let is_followed_at_once = has_come(|| height() == chain.height()) && asked.elapsed() < Duration::from_secs(2);
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
        assert!(is_followed && took > Duration::from_secs(2), "the interval was {took:?}");
        assert!(matches!(unknown, Ok(false)) && is_followed_at_once, "after {:?}", asked.elapsed());
    });
}

/// An index in sync with a node whose last block spends what a transaction of the same chain without that block spends:
/// the node, the chain, that transaction, and the index.
fn index_and_conflict() -> (Arc<MemoryNode>, ChainBuilder, Transaction, Index) {
    let (node, mut chain) = node_and_more(0);
    let mut behind = chain.clone();
    let pay = |chain: &mut ChainBuilder, sat: u64| {
        let script = chain.wallet().foreign_address(7).script_pubkey();
        chain.pay(&[Payment::to_script(script, sat)]);
        chain.mine_block().txdata.last().expect("it has a payment").clone()
    };
    let (confirmed, conflict) = (pay(&mut chain, 1000), pay(&mut behind, 2000));
    let spent = |tx: &Transaction| tx.input.iter().map(|input| input.previous_output).collect::<Vec<_>>();
    assert_eq!(spent(&confirmed), spent(&conflict));
    node.follow(chain.blocks());
    let index = built(&node, Profile::Full);
    index.sync(&*node).unwrap();
    (node, chain, conflict, index)
}

/// Fails if a snapshot at the tip of a chain has the transaction that its last block conflicts with.
fn assert_no_conflict(at: &Snapshot, conflict: &Transaction, chain: &ChainBuilder) {
    let has_conflict = at.mempool().get(&conflict.compute_txid()).is_some();
    assert!(!has_conflict || at.tip().hash != chain.tip(), "beside the block at {:?}", at.tip().height);
}

#[test]
fn a_transaction_of_a_node_that_fell_behind_is_not_shown_beside_the_block_that_it_conflicts_with() {
    let (node, chain, conflict, index) = index_and_conflict();

    node.follow(&chain.blocks()[..chain.blocks().len() - 1]);
    node.hold([conflict.clone()]);
    assert!(!index.admit(&*node, conflict.compute_txid()).unwrap());
    assert!(index.snapshot().unwrap().mempool().get(&conflict.compute_txid()).is_none());
}

#[test]
fn a_mempool_that_was_listed_while_the_node_had_left_our_tip_is_not_shown_when_it_is_back() {
    let (node, chain, conflict, index) = index_and_conflict();
    let mut updates = index.updates();

    node.leave_while_the_mempool_is_listed(
        &chain.blocks()[..chain.blocks().len() - 1],
        std::slice::from_ref(&conflict),
    );
    index.sync(&*node).unwrap();
    let announced = std::iter::from_fn(|| Some(updates.try_recv().ok()?.snapshot.clone()));
    announced.chain([index.snapshot().unwrap()]).for_each(|at| assert_no_conflict(&at, &conflict, &chain));
    assert_eq!(index.snapshot().unwrap().tip().hash, chain.tip());
}

#[test]
fn a_published_transaction_that_the_node_has_at_another_tip_is_not_shown_beside_a_block_that_it_conflicts_with() {
    let (node, chain, conflict, index) = index_and_conflict();
    let mut updates = index.updates();
    let behind = &chain.blocks()[..chain.blocks().len() - 1];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        // Its first look lists an empty mempool.
        wait_until(|| node.listings() >= 2);
        node.tell_and_fall_behind(&conflict, behind);
        let has_come =
            has_come(|| index.snapshot().is_ok_and(|at| at.mempool().get(&conflict.compute_txid()).is_some()));
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
        assert!(has_come, "it is shown where it belongs");
    });
    while let Ok(update) = updates.try_recv() {
        assert_no_conflict(&update.snapshot, &conflict, &chain);
    }
}

#[test]
fn what_a_node_removes_after_it_started_again_and_loaded_its_mempool_is_removed_here() {
    let (node, mut chain) = node_and_more(0);
    node.follow(chain.blocks());
    let index = built(&node, Profile::Full);
    let script = chain.wallet().foreign_address(7).script_pubkey();
    chain.pay(&[Payment::to_script(script, 1000)]);
    let transaction = chain.mine_block().txdata.last().expect("it has a payment").clone();
    let txid = transaction.compute_txid();
    node.hold([transaction]);
    node.count_changes_from(100);
    index.sync(&*node).unwrap();
    let has_it = || index.snapshot().is_ok_and(|at| at.mempool().get(&txid).is_some());
    assert!(has_it());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let follower = scope.spawn(|| index.follow(&*node, &stop));
        node.begin_to_load();
        wait_until(|| node.looks_while_loading() >= 2);
        // From now on it tells of changes alone.
        node.tell_of_nothing();
        let waits = node.waits();
        wait_until(|| node.waits() > waits + 2);
        node.load(Vec::new(), vec![MempoolChange::Removed { txid, sequence: 2 }]);
        let waits = node.waits();
        wait_until(|| !has_it() || node.waits() > waits + 100);
        let is_gone = !has_it();
        stop.store(true, Ordering::Relaxed);
        follower.join().unwrap().unwrap();
        assert!(is_gone, "it is still shown");
    });
}

/// A node that leaves a block with a payment for three others, and is at `next` of them once it was asked about it.
fn assert_payment_comes_back(next: impl FnOnce(&ChainBuilder) -> Vec<Block>) {
    let (node, mut chain) = node_and_more(0);
    let script = chain.wallet().foreign_address(7).script_pubkey();
    let mut branch = chain.clone();
    chain.pay(&[Payment::to_script(script, 1000)]);
    let returned = chain.mine_block().txdata.last().expect("it has a payment").clone();
    node.follow(chain.blocks());
    let index = built(&node, Profile::Full);
    index.sync(&*node).unwrap();

    branch.mine(3);
    node.follow(branch.blocks());
    node.hold([returned.clone()]);
    let next = next(&branch);
    node.fall_behind_after_next_view(&next);
    let mut updates = index.updates();
    assert!(index.sync(&*node).unwrap());
    let update = updates.try_recv().unwrap();
    assert_eq!(Some(update.snapshot.tip().hash), next.last().map(Block::block_hash));
    assert!(update.snapshot.mempool().get(&returned.compute_txid()).is_some());
}

#[test]
fn transactions_of_stale_blocks_come_back_at_once_where_the_node_lost_its_tip_meanwhile() {
    assert_payment_comes_back(|branch| branch.blocks()[..branch.blocks().len() - 1].to_vec());
}

#[test]
fn transactions_of_stale_blocks_come_back_at_once_where_the_node_has_another_tip_meanwhile() {
    assert_payment_comes_back(|branch| {
        let mut shorter = branch.clone();
        shorter.rollback_to(branch.height() - 1);
        [shorter.blocks(), &[empty_block_on(&shorter)]].concat()
    });
}

#[test]
fn a_node_that_returns_to_our_tip_once_it_was_asked_about_it_takes_no_block_back() {
    let (node, mut chain) = node_and_more(2);
    let index = built(&node, Profile::Full);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    let ours = chain.blocks().to_vec();
    chain.rollback_to(chain.height() - 2);
    let shorter = empty_block_on(&chain);
    node.follow(&[chain.blocks(), &[shorter]].concat());
    // It calls our tip invalid, and then it calls it the best again.
    node.fall_behind_after_next_view(&ours);
    let mut updates = index.updates();
    index.sync(&*node).unwrap();
    assert_eq!(Some(index.snapshot().unwrap().tip().hash), ours.last().map(Block::block_hash));
    assert!(updates.try_recv().is_err(), "blocks left the chain and came back");
}

/// The next block of a chain, with a coinbase alone.
fn empty_block_on(chain: &ChainBuilder) -> Block {
    let mut other = chain.clone();
    other.rollback_to(chain.height() - 1);
    let mut block = other.mine_block().clone();
    block.txdata.truncate(1);
    block.header.prev_blockhash = chain.tip();
    block.header.merkle_root = block.compute_merkle_root().unwrap();
    block
}

fn has_come(condition: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !condition() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

fn wait_until(condition: impl Fn() -> bool) {
    assert!(has_come(condition), "the follower goes on");
}
