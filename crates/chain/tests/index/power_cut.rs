//! Power cuts, simulated over the engine in memory: after any write, each unpublished row is lost or kept, as a seed
//! decides. The reopened store must lead to the answers of an index that was never disturbed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use birdhouse_chain::{BuildOptions, Error, Height, Index, MergeOptions, Profile, SpoolBounds};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use tempfile::TempDir;

use crate::answers::Answers;
use crate::common::{MemoryNode, built, open, open_merging, options};
use crate::early::assert_whole;

/// One round: a chain, a node that has it, and the choices of a seed.
struct Round {
    seed: u64,
    rng: Rng,
    chain: ChainBuilder,
    node: Arc<MemoryNode>,
    profile: Profile,
    merging: MergeOptions,
    temp: TempDir,
}

/// Plays rounds that start from `chain`; `play` returns the number of its cuts.
fn play_rounds(usual: u64, first_seed: u64, chain: &ChainBuilder, play: impl Fn(Round) -> u64) {
    let (mut cuts, rounds) = (0, rounds(usual));
    let count = rounds.end - rounds.start;
    for seed in rounds.map(|round| first_seed + round) {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let node = Arc::new(MemoryNode::default());
        node.follow(chain.blocks());
        let profile = *rng.pick(&[Profile::Full, Profile::Lean]);
        // Small deltas, so that rounds of a few blocks merge; some reorgs reach below what is packed.
        let tip_blocks = u32::try_from(rng.below(8)).unwrap();
        let bulk_blocks = 1 + u32::try_from(rng.below(12)).unwrap();
        let merging = MergeOptions {
            tip_blocks,
            delta_txs: 1 + rng.below(40),
            bulk_blocks,
            oldest_multiple: 16,
            ..MergeOptions::DEFAULT
        };
        let temp = tempfile::tempdir().unwrap();
        cuts += play(Round { seed, rng, chain: chain.clone(), node, profile, merging, temp });
    }
    println!("{cuts} cuts in {count} rounds");
}

/// Several generations even for a chain of some hundred blocks, with as many early rows as there can be.
pub(crate) fn in_generations(temp_dir: &Path) -> BuildOptions {
    BuildOptions { temp_bytes: 24 << 10, reorg_blocks: 20, early_percent: 100, ..options(temp_dir) }
}

/// The answers of an index that is built in one run, without any fault.
fn undisturbed(node: &Arc<MemoryNode>) -> Answers {
    Answers::of(&built(node, Profile::Full).snapshot().unwrap(), &node.scripts())
}

fn answers(index: &Index, node: &MemoryNode) -> Answers {
    Answers::of(&index.snapshot().unwrap(), &node.scripts())
}

fn assert_verified(index: &Index, temp_dir: &Path, context: &str) {
    let report = index.snapshot().unwrap().verify(Height(0)..Height(u32::MAX), &options(temp_dir)).unwrap();
    assert_eq!(report.described, Vec::<String>::new(), "{context}");
    assert_eq!(report.differences, 0, "{context}");
}

/// A few more blocks, or another branch that is longer: often short, sometimes from far below.
pub(crate) fn move_on(chain: &mut ChainBuilder, rng: &mut Rng) {
    let mut blocks = 1 + rng.below(4);
    if rng.per_mille(400) {
        let deepest = if rng.per_mille(300) { 60 } else { 5 };
        let depth = 1 + rng.below(deepest);
        chain.rollback_to(chain.height() - u32::try_from(depth).unwrap());
        blocks += depth;
    }
    for _ in 0..blocks {
        mix::random_traffic(chain, 3, 30);
        chain.mine_block();
    }
}

#[test]
fn a_tip_cut_off_at_any_write_leads_to_the_answers_of_a_fresh_index() {
    play_rounds(4, 0x0070_7765_7263_7574, &mix::sample(6, Size::SMALL), cut_the_tip);
}

fn cut_the_tip(round: Round) -> u64 {
    let Round { seed, mut rng, mut chain, node, profile, merging, temp } = round;
    let mut store = MemoryStore::new();
    let mut index = open_merging(&store, &node, profile, merging);
    index.build(None, &options(temp.path())).unwrap();
    let (mut before, mut cuts) = (answers(&index, &node), 0);
    for step in 0..6 {
        let context = format!("seed {seed} step {step}");
        move_on(&mut chain, &mut rng);
        node.follow(chain.blocks());
        // Each cut of a step allows more writes than the one before: many blocks need more than the first cuts allow.
        let mut writes_max = 40;
        while let Err(error) = sync_beside_a_reader(&index, &node, &store, rng.below(writes_max), &before, &context) {
            writes_max *= 2;
            cuts += 1;
            assert!(matches!(error, Error::Store(_)), "{context}: {error}");
            store = store.crash(rng.next_u64());
            index = open_merging(&store, &node, profile, merging);
            // The cut may have come before or after the last publish.
            before = answers(&index, &node);
        }
        before = answers(&index, &node);
        before.assert_equal(&undisturbed(&node), &context);
        assert_verified(&index, temp.path(), &context);
    }
    cuts
}

/// Syncs to the node's tip and merges, with the power cut at some write, or not, while a reader asks the snapshot from
/// before.
fn sync_beside_a_reader(
    index: &Index,
    node: &MemoryNode,
    store: &MemoryStore,
    writes: u64,
    before: &Answers,
    context: &str,
) -> Result<(), Error> {
    let held = index.snapshot().unwrap();
    let scripts = before.scripts.keys().cloned().collect();
    let synced = AtomicBool::new(false);
    store.fail_after(writes);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                let last = synced.load(Ordering::Acquire);
                Answers::of(&held, &scripts).assert_equal(before, &format!("{context}, a held snapshot"));
                if last {
                    return;
                }
            }
        });
        let outcome = index.sync(node).and_then(|_| index.merge());
        synced.store(true, Ordering::Release);
        reader.join().unwrap();
        outcome.map(drop)
    })
}

#[test]
fn catching_up_by_records_on_disk_cut_off_at_any_write_leads_to_the_answers_of_a_fresh_index() {
    let (published, cuts) = (AtomicU64::new(0), AtomicU64::new(0));
    play_rounds(3, 0x7370_6f6f_6c63_7574, &mix::sample(8, Size::SMALL), |round| {
        let cut = cut_the_catching_up(round);
        published.fetch_add(cut.published, Ordering::Relaxed);
        cuts.fetch_add(cut.cuts_within, Ordering::Relaxed);
        cut.cuts
    });
    let (published, cuts) = (published.into_inner(), cuts.into_inner());
    assert!(published > 0 && cuts > 0, "{published} packs by way of the disk, {cuts} cuts within one");
}

/// Counts of one round.
#[derive(Default)]
struct SpoolCuts {
    cuts: u64,
    /// Cuts after the blocks of a pack were read to be spooled.
    cuts_within: u64,
    /// Packs that were published.
    published: u64,
}

fn cut_the_catching_up(round: Round) -> SpoolCuts {
    let Round { seed, mut rng, mut chain, node, profile, merging, temp } = round;
    node.give_undo_data();
    let spooled_blocks = 1 + u32::try_from(rng.below(12)).unwrap();
    let spooling = SpoolBounds { bytes_min: 0, asked_blocks: 30, spends_held: 5, looked_up: 3, ..merging.spooling };
    let merging = MergeOptions { spooled_blocks, spooling, ..merging };
    let ready = |store: &MemoryStore| {
        let index = open_merging(store, &node, profile, merging);
        index.build(None, &options(temp.path())).unwrap();
        index
    };
    let mut store = MemoryStore::new();
    let mut index = ready(&store);
    let mut counts = SpoolCuts::default();
    for step in 0..4 {
        if rng.per_mille(300) {
            move_on(&mut chain, &mut rng);
        }
        for _ in 0..25 {
            mix::random_traffic(&mut chain, 3, 30);
            chain.mine_block();
        }
        node.follow(chain.blocks());
        let mut writes_max = 20;
        loop {
            let before = index.spool_counts();
            store.fail_after(rng.below(writes_max));
            let followed = index.sync(&*node).and_then(|_| index.merge());
            let after = index.spool_counts();
            counts.published += after.published - before.published;
            let Err(error) = followed else { break };
            writes_max *= 2;
            counts.cuts += 1;
            counts.cuts_within += u64::from(after.begun - before.begun > after.published - before.published);
            assert!(matches!(error, Error::Store(_)), "seed {seed} step {step}: {error}");
            if rng.per_mille(300) {
                // The disk heals, and the same process goes on.
                store.fail_after(u64::MAX);
                index.sync(&*node).unwrap();
                continue;
            }
            store = store.crash(rng.next_u64());
            index = ready(&store);
        }
        let context = format!("seed {seed} step {step} after {} cuts", counts.cuts);
        answers(&index, &node).assert_equal(&undisturbed(&node), &context);
        assert_verified(&index, temp.path(), &context);
    }
    counts
}

#[test]
fn a_build_cut_off_at_any_write_leads_to_the_answers_of_a_fresh_index() {
    play_rounds(2, 0x6275_696c_6463_7574, &mix::sample(7, Size::SMALL), cut_the_build);
}

fn cut_the_build(round: Round) -> u64 {
    let Round { seed, mut rng, mut chain, node, profile, merging, temp } = round;
    let mut store = MemoryStore::new();
    let mut cuts = 0;
    let index = loop {
        let index = open_merging(&store, &node, profile, merging);
        // Six cuts at most.
        store.fail_after(if cuts < 6 { rng.below(300) } else { u64::MAX });
        match index.build(None, &in_generations(temp.path())) {
            Ok(_) => break index,
            Err(error) => assert!(matches!(error, Error::Store(_)), "seed {seed}: {error}"),
        }
        assert_whole(&index, &chain, &node, &format!("seed {seed} after {cuts} cuts"));
        cuts += 1;
        store = store.crash(rng.next_u64());
        if rng.per_mille(300) {
            move_on(&mut chain, &mut rng);
            node.follow(chain.blocks());
        }
    };
    // The last build may have ended before its cut.
    store.fail_after(u64::MAX);
    index.sync(&*node).unwrap();
    let context = format!("seed {seed} after {cuts} cuts");
    answers(&index, &node).assert_equal(&undisturbed(&node), &context);
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "{context}: temporary files are left");
    assert_verified(&index, temp.path(), &context);
    cuts
}

/// The store of a build that failed while it merged its generations.
fn cut_off_while_merging(node: &Arc<MemoryNode>, profile: Profile, temp_dir: &Path) -> MemoryStore {
    for writes in (100..).step_by(50) {
        let store = MemoryStore::new();
        store.fail_after(writes);
        let index = open(&store, node, profile);
        assert!(index.build(None, &in_generations(temp_dir)).is_err(), "{writes} writes are all of the build");
        // All blocks are read at 75 %; each of the 32 rounds is then less than 1 %.
        if index.progress().percent() > 77 {
            return store.reopen();
        }
        std::fs::remove_dir_all(temp_dir).unwrap();
    }
    unreachable!("a build ends")
}

#[test]
fn a_reorg_while_generations_are_merged_is_followed_afterwards() {
    for loses_stale_blocks in [false, true] {
        let mut chain = mix::sample(8, Size::SMALL);
        let node = Arc::new(MemoryNode::default());
        node.follow(chain.blocks());
        let temp = tempfile::tempdir().unwrap();
        let store = cut_off_while_merging(&node, Profile::Full, temp.path());
        chain.rollback_to(chain.height() - 30);
        for _ in 0..32 {
            mix::random_traffic(&mut chain, 3, 30);
            chain.mine_block();
        }
        node.follow(chain.blocks());
        if loses_stale_blocks {
            node.lose_stale_blocks();
        }
        let index = open(&store, &node, Profile::Full);
        index.build(None, &in_generations(temp.path())).unwrap();
        index.sync(&*node).unwrap();
        let context = format!("loses stale blocks: {loses_stale_blocks}");
        answers(&index, &node).assert_equal(&undisturbed(&node), &context);
        assert_verified(&index, temp.path(), &context);
    }
}

#[test]
fn a_build_whose_temporary_files_were_removed_starts_anew() {
    let chain = mix::sample(8, Size::SMALL);
    let node = Arc::new(MemoryNode::default());
    node.follow(chain.blocks());
    let temp = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    // Enough writes for one or two generations, but not for all.
    store.fail_after(150);
    assert!(open(&store, &node, Profile::Full).build(None, &in_generations(temp.path())).is_err());
    let store = store.reopen();
    let kept = std::fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().path());
    let runs: Vec<_> = kept.filter(|path| path.extension().is_some_and(|extension| extension == "run")).collect();
    assert!(!runs.is_empty(), "the build was cut off after its first generation");
    for run in &runs {
        std::fs::remove_file(run).unwrap();
    }
    let index = open(&store, &node, Profile::Full);
    index.build(None, &in_generations(temp.path())).unwrap();
    answers(&index, &node).assert_equal(&undisturbed(&node), "after the files were removed");
}

#[test]
fn a_build_with_files_of_an_earlier_version_starts_anew() {
    let chain = mix::sample(8, Size::SMALL);
    let node = Arc::new(MemoryNode::default());
    node.follow(chain.blocks());
    for profile in [Profile::Full, Profile::Lean] {
        let temp = tempfile::tempdir().unwrap();
        let store = cut_off_while_merging(&node, profile, temp.path());
        let mut former = Vec::new();
        for entry in std::fs::read_dir(temp.path()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let (kind, rest) = name.split_once('-').unwrap();
            match kind {
                "run" => former.push((path.with_file_name(format!("sorted-{rest}")), path)),
                "txhashes" => former.push((path.with_file_name(format!("hashes-{rest}")), path)),
                "tiphashes" => std::fs::remove_file(path).unwrap(),
                _ => {}
            }
        }
        for (former, path) in &former {
            std::fs::rename(path, former).unwrap();
        }
        assert!(former.len() > 100);
        let index = open(&store, &node, profile);
        store.fail_after(20);
        index.build(None, &in_generations(temp.path())).unwrap_err();
        let left = former.iter().filter(|(former, _)| former.exists()).count();
        assert_eq!(left, 0, "files that nothing reads take disk space");
        store.fail_after(u64::MAX);
        index.build(None, &in_generations(temp.path())).unwrap();
        answers(&index, &node).assert_equal(&undisturbed(&node), "with files of an earlier version");
    }
}

#[test]
fn files_of_a_killed_build_are_removed_when_the_index_is_ready() {
    let chain = mix::sample(8, Size { blocks: 1, block_txs: 1, scripts_per_form: 1, busy: &[] });
    let node = Arc::new(MemoryNode::default());
    node.follow(chain.blocks());
    let temp = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    open(&store, &node, Profile::Full).build(None, &options(temp.path())).unwrap();
    for name in ["scripts-000.tmp", "scripts-00001-000.run", "positions-00001.run"] {
        std::fs::write(temp.path().join(name), "left by a kill after the publish").unwrap();
    }
    assert!(open(&store.reopen(), &node, Profile::Full).build(None, &options(temp.path())).unwrap().is_none());
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}
