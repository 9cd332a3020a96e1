//! Rows that a writer of a table forgot: verification finds that they are missing, whichever writer and table it is.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use birdhouse_chain::{Height, Index, MergeOptions, Profile, Secret, TABLES};
use birdhouse_store::{ArraySpec, Batch, Direction, KeyRange, MemoryStore, PageLimit, Store as _, Table};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use bitcoin::Network;
use bitcoin::constants::genesis_block;

use crate::common::{MemoryNode, open_merging, options};
use crate::merges::mine;

/// The arrays of an index. A new one belongs in this list.
const ARRAYS: [ArraySpec; 1] = [ArraySpec { name: "txid", record_bytes: 32 }];
/// Rows that are left out alone, of each table and writer.
const SINGLES: u64 = 1;
/// Transactions of a script whose history has rows of its own.
const LONG: u32 = 300;
const ALL: Range<Height> = Height(0)..Height(u32::MAX);
/// Deltas of some blocks, loaded ones of 5 blocks or more, and packs of 20 blocks or more.
const MERGING: MergeOptions =
    MergeOptions { tip_blocks: 5, delta_txs: 60, bulk_blocks: 20, oldest_multiple: 16, ..MergeOptions::DEFAULT };

struct World {
    chain: ChainBuilder,
    node: Arc<MemoryNode>,
    store: MemoryStore,
    index: Index,
}

/// A writer of rows: its name, and what makes it write.
type Writer = (&'static str, fn(&mut World));

/// In an order in which each has something to write.
const WRITERS: [Writer; 6] = [
    ("first build", |world| {
        let temp = tempfile::tempdir().unwrap();
        world.index.build(None, &options(temp.path())).unwrap();
    }),
    ("tip", |world| world.mine(3)),
    ("catching up into a delta", |world| world.mine(9)),
    ("catching up into a pack", |world| {
        mix::busy_script(&mut world.chain, 1, LONG);
        world.mine(40);
    }),
    ("merge", |world| {
        (0..4).for_each(|_| world.mine(4));
        assert!(world.index.merge().unwrap() > 0);
    }),
    ("reorg into a pack", |world| {
        world.chain.rollback_to(world.chain.height() - 30);
        world.node.follow(world.chain.blocks());
        world.index.sync(&*world.node).unwrap();
    }),
];

impl World {
    fn new(seed: u64) -> Self {
        let (mut chain, node) = (mix::sample(seed, Size::SMALL), Arc::<MemoryNode>::default());
        mix::busy_script(&mut chain, 0, LONG);
        node.follow(chain.blocks());
        let store = MemoryStore::new();
        let index = open_merging(&store, &node, Profile::Full, MERGING);
        Self { chain, node, store, index }
    }

    fn mine(&mut self, blocks: u32) {
        mine(&mut self.chain, blocks);
        self.node.follow(self.chain.blocks());
        self.index.sync(&*self.node).unwrap();
    }

    /// Returns table and key of every row.
    fn rows(&self) -> BTreeSet<(&'static str, Vec<u8>)> {
        let keys = |table: &Table| {
            let (all, limit) =
                (KeyRange::prefix(&[], Direction::Forward), PageLimit { rows: usize::MAX, bytes: usize::MAX });
            let page = self.store.scan_many(*table, &[all], limit).unwrap().pop().unwrap();
            page.rows.into_iter().map(|(key, _)| (table.name, key)).collect::<Vec<_>>()
        };
        TABLES.iter().flat_map(keys).collect()
    }

    /// Returns true if verification fails, or the index cannot be opened, once a copy of the store has lost something.
    fn is_found(&self, heights: Range<Height>, lose: impl FnOnce(&MemoryStore)) -> bool {
        let store = self.store.reopen();
        lose(&store);
        let genesis = genesis_block(Network::Regtest).block_hash();
        let source = Arc::clone(&self.node) as _;
        let opened = Index::open_with(Arc::new(store), source, genesis, Profile::Full, Secret([7; 16]), MERGING);
        let temp = tempfile::tempdir().unwrap();
        let verified = opened.and_then(|index| index.snapshot().unwrap().verify(heights, &options(temp.path())));
        verified.map_or(true, |report| report.differences > 0)
    }
}

/// A loss, by its description.
type Loss<'a> = (String, Box<dyn Fn(&MemoryStore) + 'a>);

/// Returns the losses of rows of one table: all of them, and some alone.
fn losses_of_rows<'a>(table: &'a Table, added: &'a [Vec<u8>], rng: &mut Rng) -> Vec<Loss<'a>> {
    let delete = move |store: &MemoryStore, keys: &[Vec<u8>]| {
        let mut batch = Batch::new();
        for key in keys {
            batch.delete(*table, key);
        }
        store.write(batch).unwrap();
    };
    let all: Loss<'_> = ("all".to_owned(), Box::new(move |store| delete(store, added)));
    // Most rows of stale transactions say nothing that rows of the new chain do not say as well.
    let singles = if table.name == "stale" { 0 } else { SINGLES };
    let single = |_| -> Loss<'_> {
        let at = usize::try_from(rng.below(added.len() as u64)).unwrap();
        (format!("{:02x?}", added[at]), Box::new(move |store| delete(store, &added[at..=at])))
    };
    std::iter::once(all).chain((0..singles).map(single)).collect()
}

/// Returns the losses of the records of an array: not written, not written before later ones, and one alone.
fn losses_of_records<'a>(spec: &'a ArraySpec, added: Range<u64>, rng: &mut Rng) -> Vec<Loss<'a>> {
    let write_zeros = |store: &MemoryStore, records: Range<u64>| {
        let bytes = vec![0; spec.record_bytes * usize::try_from(records.end - records.start).unwrap()];
        store.array(*spec).unwrap().write(records.start, &bytes).unwrap();
    };
    let (start, one) = (added.start, added.start + rng.below(added.end - added.start));
    vec![
        ("cut".to_owned(), Box::new(move |store| store.array(*spec).unwrap().truncate(start).unwrap())),
        ("zeros".to_owned(), Box::new(move |store| write_zeros(store, added.clone()))),
        (one.to_string(), Box::new(move |store| write_zeros(store, one..one + 1))),
    ]
}

#[test]
fn verification_finds_the_rows_of_every_table_that_a_writer_forgot() {
    for seed in rounds(1) {
        let (mut world, mut rng, mut seen) = (World::new(seed), Rng::new(seed), BTreeSet::new());
        for (writer, write) in WRITERS {
            let (before, lens) = (world.rows(), ARRAYS.map(|spec| world.store.array(spec).unwrap().len()));
            let known = world.index.snapshot().map_or(0, |at| at.tip().height.0 + 1);
            write(&mut world);
            // Without `--all`, the last blocks are verified. A reorg alone adds none.
            let added_blocks = Height(known)..Height(u32::MAX);
            let ranges = if world.chain.height() < known { vec![ALL] } else { vec![ALL, added_blocks] };
            assert!(!world.is_found(ALL, |_| ()), "seed {seed}: {writer}: nothing was lost");
            let rows = world.rows();
            for table in &TABLES {
                let added = rows.difference(&before).filter(|(name, _)| *name == table.name);
                let added: Vec<Vec<u8>> = added.map(|(_, key)| key.clone()).collect();
                if added.is_empty() {
                    continue;
                }
                seen.insert(table.name.split('.').next().unwrap());
                for (lost, lose) in losses_of_rows(table, &added, &mut rng) {
                    let ranges = if lost == "all" { &ranges[..] } else { &[ALL] };
                    for range in ranges {
                        let is_found = world.is_found(range.clone(), &lose);
                        assert!(is_found, "seed {seed}: {writer}: {}: {lost}, of blocks {range:?}", table.name);
                    }
                }
            }
            for (spec, before) in ARRAYS.iter().zip(lens) {
                let added = before..world.store.array(*spec).unwrap().len();
                if added.is_empty() {
                    continue;
                }
                seen.insert(spec.name);
                for (lost, lose) in losses_of_records(spec, added, &mut rng) {
                    assert!(world.is_found(ALL, lose), "seed {seed}: {writer}: {}: {lost}", spec.name);
                }
            }
        }
        let stored = world.store.sizes().unwrap();
        let kinds: BTreeSet<&str> = stored.iter().map(|(name, _)| name.split('.').next().unwrap()).collect();
        assert_eq!(seen, kinds, "seed {seed}: the tables and arrays that were tried, and those that there are");
    }
}

#[test]
fn verification_finds_a_wrong_size_or_weight_of_a_block() {
    let mut world = World::new(1);
    (WRITERS[0].1)(&mut world);
    let header = TABLES.iter().find(|table| table.name == "header").unwrap();
    let rows: Vec<Vec<u8>> =
        world.rows().into_iter().filter(|(name, _)| *name == "header").map(|(_, key)| key).collect();
    // The row ends with size, weight, and a byte that says that there is no position.
    for from_end in [9, 5] {
        let is_found = world.is_found(ALL, |store| {
            let mut value = store.get_many(*header, &[&rows[7]]).unwrap().remove(0).unwrap();
            let at = value.len() - from_end;
            value[at] ^= 1;
            let mut batch = Batch::new();
            batch.put(*header, &rows[7], value);
            store.write(batch).unwrap();
        });
        assert!(is_found, "{from_end}");
    }
}
