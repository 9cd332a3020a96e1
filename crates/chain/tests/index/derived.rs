//! A derived index against a naive model: random chains with reorgs, power cuts at any write, pieces in any order, and
//! an index that joins late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use birdhouse_chain::{
    BlockError, Derived, DerivedArray, DerivedIndex, Height, Index, Profile, ProvedBlock, Records, Snapshot, sha256d,
    source::BlockId,
};
use birdhouse_store::{ArraySpec, MemoryStore};
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use bitcoin::Block;
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash as _;

use crate::common::{self, MemoryNode, built};
use crate::power_cut::{in_generations, move_on};

/// The first block that gives records: reorgs of the test go below it.
pub(crate) const START: u32 = 5;

const ARRAYS: &[DerivedArray] = &[
    DerivedArray::PerBlock(ArraySpec { name: "sum", record_bytes: 32 }),
    DerivedArray::PerItem { records: ArraySpec { name: "value", record_bytes: 8 }, ends: "value-end" },
];

/// For each block a hash over the one of the block before it and the scripts that the block spends, and the values of
/// the outputs of every transaction but the coinbase.
pub(crate) struct Sums;

impl Derived for Sums {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn format(&self) -> u8 {
        7
    }

    fn start(&self) -> Height {
        Height(START)
    }

    fn arrays(&self) -> &'static [DerivedArray] {
        ARRAYS
    }

    fn of_block(&self, id: BlockId, block: &ProvedBlock<'_>) -> Result<Records, BlockError> {
        let sum: Vec<u8> = block.spent_scripts().flatten().copied().collect();
        let parsed: Block = deserialize(block.bytes()).unwrap();
        assert_eq!(parsed.block_hash(), id.hash);
        let outputs = parsed.txdata[1..].iter().flat_map(|tx| &tx.output);
        let values = outputs.flat_map(|output| output.value.to_sat().to_le_bytes());
        Ok(Records::new([sha256d(&sum).to_vec(), values.collect()]))
    }

    fn link(&self, before: &Records, records: &mut Records) {
        let sum = sha256d(&[before.of(0), records.of(0)].concat()).to_vec();
        *records = Records::new([sum, records.of(1).to_vec()]);
    }
}

/// Each array of the blocks from [`START`] on, as a naive scan of whole blocks finds it.
pub(crate) fn model(blocks: &[Block]) -> [Vec<Vec<u8>>; 2] {
    let outputs = blocks.iter().flat_map(|block| &block.txdata).map(|tx| (tx.compute_txid(), &tx.output));
    let outputs: std::collections::HashMap<_, _> = outputs.collect();
    let (mut sums, mut values, mut sum) = (Vec::new(), Vec::new(), Vec::new());
    for block in blocks.iter().skip(START as usize) {
        let inputs = block.txdata[1..].iter().flat_map(|tx| &tx.input).map(|input| input.previous_output);
        let spent = inputs.flat_map(|out| outputs[&out.txid][out.vout as usize].script_pubkey.to_bytes());
        let spent = bitcoin::hashes::sha256d::Hash::hash(&spent.collect::<Vec<u8>>());
        sum.extend(spent.to_byte_array());
        sum = bitcoin::hashes::sha256d::Hash::hash(&sum).to_byte_array().to_vec();
        sums.push(sum.clone());
        let of_block = block.txdata[1..].iter().flat_map(|tx| &tx.output);
        values.push(of_block.flat_map(|output| output.value.to_sat().to_le_bytes()).collect());
    }
    [sums, values]
}

pub(crate) fn open(store: &MemoryStore) -> Arc<DerivedIndex> {
    Arc::new(DerivedIndex::open(Arc::new(store.clone()), Arc::new(Sums), 3).unwrap())
}

/// Compares all that a derived index has of a snapshot's chain with the model of its blocks.
pub(crate) fn compare(derived: &DerivedIndex, at: &Snapshot, blocks: &[Block], context: &str) {
    let len = derived.len(at);
    assert!(len as usize <= blocks.len().max(START as usize), "{context}");
    for (array, expected) in model(blocks).iter().enumerate() {
        for (height, expected) in (START..len).zip(expected) {
            let found = derived.read(at, array, Height(height)..Height(height + 1)).unwrap();
            assert_eq!(found.as_ref(), Some(expected), "{context}: array {array}, height {height}");
        }
        let all = derived.read(at, array, Height(START)..Height(len)).unwrap();
        assert_eq!(all, Some(expected[..(len - START) as usize].concat()), "{context}: array {array}");
        assert_eq!(derived.read(at, array, Height(START)..Height(len + 1)).unwrap(), None, "{context}");
        assert_eq!(derived.read(at, array, Height(START - 1)..Height(len)).unwrap(), None, "{context}");
    }
}

fn world(seed: u64) -> (birdhouse_testkit::ChainBuilder, Arc<MemoryNode>, Index) {
    let (chain, node) = (mix::sample(seed, Size::SMALL), Arc::new(MemoryNode::default()));
    node.follow(chain.blocks());
    let index = built(&node, Profile::Lean);
    (chain, node, index)
}

#[test]
fn records_are_those_of_a_naive_scan_over_reorgs_and_cuts_at_any_write() {
    let mut cuts = 0;
    for seed in rounds(2) {
        let (mut rng, (mut chain, node, index)) = (Rng::new(seed), world(seed));
        let (mut store, mut writes_max) = (MemoryStore::new(), 4);
        let mut derived = open(&store);
        for step in 0..25 {
            let (context, at) = (format!("seed {seed} step {step}"), index.snapshot().unwrap());
            store.fail_after(rng.below(writes_max));
            let outcome = (|| {
                while derived.advance(&at)? {}
                Ok::<_, birdhouse_chain::Error>(())
            })();
            if outcome.is_err() {
                cuts += 1;
                writes_max += 2;
                compare(&derived, &at, chain.blocks(), &context);
                store = store.crash(rng.next_u64());
                derived = open(&store);
            } else {
                assert_eq!(derived.len(&at), at.tip().height.0 + 1, "{context}");
                store.fail_after(u64::MAX);
            }
            compare(&derived, &at, chain.blocks(), &context);
            if rng.per_mille(500) {
                if rng.per_mille(200) {
                    chain.rollback_to(START - 2);
                    // `move_on` goes back by 60 blocks at most.
                    (0..61).for_each(|_| {
                        chain.mine_block();
                    });
                }
                move_on(&mut chain, &mut rng);
                node.follow(chain.blocks());
                index.sync(&*node).unwrap();
                compare(&derived, &index.snapshot().unwrap(), chain.blocks(), &context);
            }
        }
    }
    assert!(cuts > 5, "{cuts} cuts");
}

#[test]
fn a_held_snapshot_of_a_stale_chain_reads_what_both_chains_share_or_nothing() {
    let (mut chain, node, index) = world(3);
    let derived = open(&MemoryStore::new());
    let (stale, blocks) = (index.snapshot().unwrap(), chain.blocks().to_vec());
    while derived.advance(&stale).unwrap() {}
    let fork = chain.height() - 4;
    chain.rollback_to(fork);
    (0..6).for_each(|_| {
        mix::random_traffic(&mut chain, 3, 30);
        chain.mine_block();
    });
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    let at = index.snapshot().unwrap();
    while derived.advance(&at).unwrap() {}
    compare(&derived, &at, chain.blocks(), "the new chain");
    assert!(derived.len(&stale) <= fork + 1 && derived.len(&at) == at.tip().height.0 + 1);
    compare(&derived, &stale, &blocks, "the stale chain");
}

#[test]
fn the_snapshot_before_a_new_tip_takes_nothing_from_it() {
    let (mut chain, node, index) = world(15);
    let derived = open(&MemoryStore::new());
    let before = index.snapshot().unwrap();
    chain.mine_block();
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    let at = index.snapshot().unwrap();
    while derived.advance(&at).unwrap() {}
    // As the follower does, which took its snapshot before the tip was announced.
    assert!(!derived.advance(&before).unwrap());
    assert_eq!(derived.len(&at), at.tip().height.0 + 1);
    compare(&derived, &at, chain.blocks(), "the new tip");
}

#[test]
fn snapshots_of_many_blocks_ago_cut_nothing_and_have_all_their_records() {
    let (mut chain, node, index) = world(9);
    let derived = open(&MemoryStore::new());
    let mut held = vec![index.snapshot().unwrap()];
    while derived.advance(&held[0]).unwrap() {}
    for _ in 0..40 {
        chain.mine(1);
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        let now = index.snapshot().unwrap();
        while derived.advance(&now).unwrap() {}
        held.push(now);
    }
    let newest = held.last().unwrap();
    for at in &held {
        assert!(!derived.advance(at).unwrap());
        assert_eq!(derived.len(at), at.tip().height.0 + 1);
        assert_eq!(derived.len(newest), newest.tip().height.0 + 1, "cut by the snapshot of {}", at.tip().height.0);
    }
}

#[test]
fn verification_finds_each_record_that_differs_and_no_other() {
    let (_, _, index) = world(4);
    let (store, at) = (MemoryStore::new(), index.snapshot().unwrap());
    let derived = open(&store);
    while derived.advance(&at).unwrap() {}
    let all = Height(0)..Height(u32::MAX);
    let report = derived.verify(&at, all.clone()).unwrap();
    assert_eq!((report.blocks, report.differences), (u64::from(derived.len(&at) - START), 0));
    // A chained record, so the one that is computed from it differs, too.
    let array = birdhouse_store::Store::array(&store, ArraySpec { name: "sum", record_bytes: 32 }).unwrap();
    array.write(20, &[0xee; 32]).unwrap();
    let report = derived.verify(&at, Height(START + 20)..Height(START + 21)).unwrap();
    assert_eq!((report.blocks, report.differences), (1, 1), "{report:?}");
    assert_eq!(report.described, [format!("sums: block {}: array 0 differs", START + 20)]);
    assert_eq!(derived.verify(&at, all).unwrap().differences, 1);
}

#[test]
fn a_store_of_another_format_is_refused_and_left_as_it_is() {
    struct Other;
    impl Derived for Other {
        fn name(&self) -> &'static str {
            Sums.name()
        }
        fn format(&self) -> u8 {
            8
        }
        fn arrays(&self) -> &'static [DerivedArray] {
            ARRAYS
        }
        fn of_block(&self, id: BlockId, block: &ProvedBlock<'_>) -> Result<Records, BlockError> {
            Sums.of_block(id, block)
        }
    }
    let (_, _, index) = world(5);
    let (store, at) = (MemoryStore::new(), index.snapshot().unwrap());
    let derived = open(&store);
    while derived.advance(&at).unwrap() {}
    let refused = DerivedIndex::open(Arc::new(store.clone()), Arc::new(Other), 1).unwrap_err();
    assert!(matches!(refused, birdhouse_chain::Error::OtherFormat { found: 7, known: 8 }), "{refused}");
    assert_eq!(open(&store).len(&at), at.tip().height.0 + 1);
}

#[test]
fn a_build_gives_a_derived_index_its_blocks_and_none_is_read_again() {
    let (chain, node) = (mix::sample(11, Size::SMALL), Arc::new(MemoryNode::default()));
    node.follow(chain.blocks());
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    node.at_every_block(move || _ = counted.fetch_add(1, Ordering::Relaxed));
    for generations in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let index = common::open(&MemoryStore::new(), &node, Profile::Full);
        let derived = open(&MemoryStore::new());
        index.set_derived(vec![Arc::clone(&derived)]);
        let options = if generations { in_generations(temp.path()) } else { common::options(temp.path()) };
        index.build(None, &birdhouse_chain::BuildOptions { threads: 3, ..options }).unwrap();
        let at = index.snapshot().unwrap();
        assert_eq!(derived.len(&at), at.tip().height.0 + 1, "generations: {generations}");
        compare(&derived, &at, chain.blocks(), "after the build");
        let progress = index.derived_progress().pop().unwrap();
        assert_eq!((progress.blocks, progress.of_blocks, progress.failures), (derived.len(&at), derived.len(&at), 0));
    }
    assert_eq!(reads.load(Ordering::Relaxed), 0, "blocks that were read by their hash");
}

#[test]
fn builds_cut_off_at_any_write_lead_to_the_records_of_a_naive_scan() {
    for seed in rounds(1) {
        let (mut rng, mut chain) = (Rng::new(seed), mix::sample(12, Size::SMALL));
        let node = Arc::new(MemoryNode::default());
        node.follow(chain.blocks());
        let (temp, mut cuts) = (tempfile::tempdir().unwrap(), 0);
        let (mut store, mut beside) = (MemoryStore::new(), MemoryStore::new());
        let (index, derived) = loop {
            let (index, derived) = (common::open(&store, &node, Profile::Full), open(&beside));
            index.set_derived(vec![Arc::clone(&derived)]);
            store.fail_after(if cuts < 4 { rng.below(300) } else { u64::MAX });
            if rng.per_mille(300) {
                beside.fail_after(rng.below(6));
            }
            let outcome = index.build(None, &in_generations(temp.path()));
            if outcome.is_ok() {
                break (index, derived);
            }
            cuts += 1;
            (store, beside) = (store.crash(rng.next_u64()), beside.crash(rng.next_u64()));
            if rng.per_mille(300) {
                move_on(&mut chain, &mut rng);
                node.follow(chain.blocks());
            }
        };
        store.fail_after(u64::MAX);
        beside.fail_after(u64::MAX);
        let context = format!("seed {seed} after {cuts} cuts");
        index.sync(&*node).unwrap();
        let at = index.snapshot().unwrap();
        while derived.advance(&at).unwrap() {}
        assert_eq!(derived.len(&at), at.tip().height.0 + 1, "{context}");
        compare(&derived, &at, chain.blocks(), &context);
    }
}

#[test]
fn an_index_that_joins_late_is_followed_beside_one_that_fails() {
    let (chain, _, index) = world(13);
    let (late, failing, broken) = (open(&MemoryStore::new()), MemoryStore::new(), AtomicBool::new(false));
    let failing_index = open(&failing);
    failing.fail_after(0);
    index.set_derived(vec![failing_index, Arc::clone(&late)]);
    let at = index.snapshot().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| index.follow_derived(&broken));
        while late.len(&at) < at.tip().height.0 + 1 {
            std::thread::yield_now();
        }
        broken.store(true, Ordering::Relaxed);
    });
    compare(&late, &at, chain.blocks(), "joined late");
    let progress = index.derived_progress();
    assert!(progress[0].failures > 0 && progress[0].failure.is_some(), "{progress:?}");
    assert_eq!((progress[1].blocks, progress[1].failures), (at.tip().height.0 + 1, 0));
}

#[test]
fn a_tip_is_announced_after_a_derived_index_has_it_unless_that_is_behind() {
    let (mut chain, node, index) = world(14);
    let (store, mut rng) = (MemoryStore::new(), Rng::new(14));
    let derived = open(&store);
    index.set_derived(vec![Arc::clone(&derived)]);
    let is_covered = |at: &Snapshot| derived.len(at) == at.tip().height.0 + 1;
    let mut updates = index.updates();
    let mut announced = |chain: &birdhouse_testkit::ChainBuilder| {
        node.follow(chain.blocks());
        index.sync(&*node).unwrap();
        let mut last = None;
        while let Ok(update) = updates.try_recv() {
            last = Some((Arc::clone(&update.snapshot), is_covered(&update.snapshot)));
        }
        last.unwrap()
    };
    chain.mine_block();
    let (at, has_it) = announced(&chain);
    assert!(!has_it, "it has no block yet, and holds up none");
    while derived.advance(&at).unwrap() {}
    for step in 0..12 {
        if step % 3 == 2 {
            chain.rollback_to(chain.height() - 1 - u32::try_from(rng.below(6)).unwrap());
            (0..8).for_each(|_| _ = chain.mine_block());
        } else {
            mix::random_traffic(&mut chain, 3, 30);
            chain.mine_block();
        }
        let (at, has_it) = announced(&chain);
        assert!(has_it, "step {step}");
        compare(&derived, &at, chain.blocks(), "announced");
    }
    store.fail_after(0);
    chain.mine_block();
    assert!(!announced(&chain).1, "a derived index that fails holds up no tip");
    store.fail_after(u64::MAX);
    chain.mine_block();
    let (at, has_it) = announced(&chain);
    assert!(!has_it, "nor does one that is behind");
    while derived.advance(&at).unwrap() {}
    chain.mine_block();
    assert!(announced(&chain).1);
}
