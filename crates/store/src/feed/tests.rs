#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::batch::Batch;
use crate::contract::{self, NUMBERS, Open, PARTS, PLAIN, TABLES, agree, all, operations, put_all, row};
use crate::error::{Error, Result};
use crate::range::{KeyRange, Page, PageLimit};
use crate::segments::{SegmentOptions, SegmentStore};
use crate::store::{Array, BulkRun, FinishedRun, Replica, Store};
use crate::table::{ArraySpec, Table};

static GO_ON: AtomicBool = AtomicBool::new(false);

fn open(folder: &Path) -> Arc<SegmentStore> {
    let options = SegmentOptions { memtable_bytes: 3000, segment_bytes: 8000, cache_bytes: 20_000 };
    Arc::new(SegmentStore::open(folder, TABLES, options).unwrap())
}

/// A store and a replica, which is brought up to date by hand.
struct Pair {
    folder: TempDir,
    feed: FeedStore,
    store: Arc<SegmentStore>,
    replica: FileReplica,
}

impl Pair {
    fn new(bounds: FeedBounds) -> Self {
        let folder = TempDir::new().unwrap();
        Self::of(folder, bounds)
    }

    /// Opens the store of a folder, and a replica that begins as its backup.
    fn of(folder: TempDir, bounds: FeedBounds) -> Self {
        let store = open(&folder.path().join("store"));
        if store.manifest().unwrap().is_none() {
            store.publish(b"first").unwrap();
        }
        let copy = folder.path().join("replica");
        if copy.exists() {
            fs::remove_dir_all(&copy).unwrap();
        }
        assert!(store.backup(&copy, &mut || std::ops::ControlFlow::Continue(())).unwrap());
        let feed = FeedStore::new(Arc::clone(&store), bounds).unwrap();
        Self { replica: FileReplica::new(open(&copy)).unwrap(), folder, feed, store }
    }

    /// Opens the store of the replica again, as after a crash.
    fn restart_replica(self) -> Self {
        let Self { folder, feed, store, replica } = self;
        drop(replica);
        let replica = FileReplica::new(open(&folder.path().join("replica"))).unwrap();
        Self { folder, feed, store, replica }
    }

    fn next(&self) -> Option<u64> {
        let newest = self.replica.newest().unwrap().unwrap();
        self.feed.after(&newest.manifest().unwrap().unwrap())
    }

    fn fetch(&self, number: u64) -> Option<Arc<Vec<u8>>> {
        let Fetched::Change(bytes) = self.feed.change(number) else { return None };
        for file in Change::decode(&bytes).unwrap().files() {
            fs::copy(self.feed.file(file.number), self.replica.path(file)).unwrap();
        }
        Some(bytes)
    }

    fn follow(&self) {
        let next = self.next().unwrap();
        for number in next.. {
            let Some(bytes) = self.fetch(number) else { break };
            assert!(self.replica.apply(&Change::decode(&bytes).unwrap(), &GO_ON).unwrap());
        }
    }

    fn assert_equal(&self) {
        let state = self.replica.newest().unwrap().unwrap();
        assert_eq!(state.manifest().unwrap(), self.store.manifest().unwrap());
        assert_eq!(content(&*state), content(&*self.store));
    }
}

type Content = (Vec<Vec<(Vec<u8>, Vec<u8>)>>, Vec<u8>);

fn content(store: &dyn Store) -> Content {
    let array = store.array(NUMBERS).unwrap();
    let records = array.read_run(0, usize::try_from(array.len()).unwrap()).unwrap();
    (TABLES.iter().map(|table| all(store, *table)).collect(), records)
}

fn load(store: &dyn Store, table: Table, keys: std::ops::Range<u32>) {
    let mut run = store.bulk_run(table).unwrap();
    for key in keys {
        run.push(format!("{key:06}").as_bytes(), b"some value of a row").unwrap();
    }
    store.bulk_load(vec![run.finish().unwrap()]).unwrap();
}

/// A store whose every publish is applied by a replica, which then has the same content.
struct Mirrored(Pair);

impl Store for Mirrored {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.0.feed.get_many(table, keys)
    }
    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> Result<Vec<Page>> {
        self.0.feed.scan_many(table, ranges, limit)
    }
    fn write(&self, batch: Batch) -> Result<()> {
        self.0.feed.write(batch)
    }
    fn publish(&self, manifest: &[u8]) -> Result<()> {
        self.0.feed.publish(manifest)?;
        self.0.follow();
        self.0.assert_equal();
        Ok(())
    }
    fn manifest(&self) -> Result<Option<Vec<u8>>> {
        self.0.feed.manifest()
    }
    fn bulk_run(&self, table: Table) -> Result<Box<dyn BulkRun>> {
        self.0.feed.bulk_run(table)
    }
    fn bulk_load(&self, runs: Vec<FinishedRun>) -> Result<()> {
        self.0.feed.bulk_load(runs)
    }
    fn clear(&self, table: Table) -> Result<()> {
        self.0.feed.clear(table)
    }
    fn array(&self, spec: ArraySpec) -> Result<Arc<dyn Array>> {
        self.0.feed.array(spec)
    }
    fn sizes(&self) -> Result<Vec<(String, u64)>> {
        self.0.feed.sizes()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_replica_equals_the_store_after_every_publish(operations in operations()) {
        use contract::Operation;
        // A restart of the store is a test of its own: what was not published is not told to a replica.
        let operations: Vec<_> =
            operations.into_iter().filter(|operation| !matches!(operation, Operation::Restart)).collect();
        let mirrored = || -> Box<dyn Store> { Box::new(Mirrored(Pair::new(FeedBounds::default()))) };
        let alone = || -> Box<dyn Store> {
            let store = crate::memory::MemoryStore::new();
            store.publish(b"first").unwrap();
            Box::new(store)
        };
        agree(&alone, &mirrored, &operations);
    }
}

#[test]
fn a_store_that_keeps_changes_keeps_the_contract() {
    fn place() -> Box<Open> {
        let folder = TempDir::new().unwrap();
        Box::new(move || Box::new(FeedStore::new(open(folder.path()), FeedBounds::default()).unwrap()))
    }
    contract::run(&place);
}

#[test]
fn a_replica_goes_on_after_a_restart_of_itself_and_of_the_store() {
    let pair = Pair::new(FeedBounds::default());
    put_all(&pair.feed, PARTS, &[row("one", "1")]);
    pair.feed.publish(b"one").unwrap();
    pair.follow();
    let pair = pair.restart_replica();
    load(&pair.feed, PLAIN, 0..2000);
    pair.feed.array(NUMBERS).unwrap().write(0, &[3; 80]).unwrap();
    pair.feed.publish(b"two").unwrap();
    pair.follow();
    pair.assert_equal();
    let Pair { folder, feed, store, replica } = pair;
    drop((feed, store));
    let store = open(&folder.path().join("store"));
    let feed = FeedStore::new(Arc::clone(&store), FeedBounds::default()).unwrap();
    let pair = Pair { folder, feed, store, replica };
    put_all(&pair.feed, PARTS, &[row("three", "3")]);
    pair.feed.publish(b"three").unwrap();
    pair.follow();
    pair.assert_equal();
}

#[test]
fn a_change_that_a_crash_cut_off_is_invisible_and_is_applied_again() {
    let mut pair = Pair::new(FeedBounds::default());
    load(&pair.feed, PLAIN, 0..300);
    pair.feed.array(NUMBERS).unwrap().write(0, &[1; 80]).unwrap();
    pair.feed.publish(b"one").unwrap();
    pair.follow();
    pair.feed.clear(PLAIN).unwrap();
    load(&pair.feed, PLAIN, 1000..3000);
    put_all(&pair.feed, PARTS, &[row("two", "2")]);
    pair.feed.array(NUMBERS).unwrap().write(10, &[2; 80]).unwrap();
    pair.feed.publish(b"two").unwrap();
    let number = pair.next().unwrap();
    let bytes = pair.fetch(number).unwrap();
    let whole = Change::decode(&bytes).unwrap();
    // Every operation but the publish.
    for count in 0..=whole.operations.len() {
        let part = Change { manifest: b"", operations: whole.operations[..count].to_vec() };
        assert!(pair.replica.apply_unpublished(&part, &GO_ON).unwrap());
        pair = pair.restart_replica();
        let state = pair.replica.newest().unwrap().unwrap();
        assert_eq!(state.manifest().unwrap(), Some(b"one".to_vec()), "{count} operations");
        assert_eq!(pair.next(), Some(number));
        pair.fetch(number).unwrap();
    }
    pair.follow();
    pair.assert_equal();
}

#[test]
fn a_table_is_emptied_after_its_readers_have_gone() {
    let pair = Pair::new(FeedBounds::default());
    load(&pair.feed, PLAIN, 0..300);
    pair.feed.publish(b"with").unwrap();
    pair.follow();
    let reader = pair.replica.newest().unwrap().unwrap();
    pair.feed.publish(b"without").unwrap();
    pair.feed.clear(PLAIN).unwrap();
    pair.feed.publish(b"emptied").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let applied = scope.spawn(|| pair.follow());
        while pair.replica.newest().unwrap().unwrap().manifest().unwrap() != Some(b"without".to_vec()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(all(&*reader, PLAIN).len(), 300);
        assert!(!applied.is_finished());
        drop(reader);
        applied.join().unwrap();
    });
    pair.assert_equal();
    let _reader = pair.replica.newest().unwrap().unwrap();
    pair.feed.publish(b"next").unwrap();
    pair.follow();
    pair.feed.clear(PLAIN).unwrap();
    pair.feed.publish(b"last").unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let bytes = pair.fetch(pair.next().unwrap()).unwrap();
    assert!(!pair.replica.apply(&Change::decode(&bytes).unwrap(), &stop).unwrap(), "a shutdown ends the wait");
}

#[test]
fn a_damaged_file_is_refused_and_the_state_before_it_stays() {
    let pair = Pair::new(FeedBounds::default());
    load(&pair.feed, PLAIN, 0..3000);
    pair.feed.publish(b"one").unwrap();
    let bytes = pair.fetch(0).unwrap();
    let change = Change::decode(&bytes).unwrap();
    let path = pair.replica.path(change.files().next().unwrap());
    let whole = fs::read(&path).unwrap();
    for place in (0..whole.len()).step_by(101) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, damaged).unwrap();
        let applied = pair.replica.apply(&change, &GO_ON);
        assert!(matches!(applied, Err(Error::Corrupt { .. } | Error::Engine(_))), "byte {place}: {applied:?}");
    }
    assert_eq!(pair.replica.newest().unwrap().unwrap().manifest().unwrap(), Some(b"first".to_vec()));
    pair.follow();
    pair.assert_equal();
}

#[test]
fn changes_beyond_the_bounds_are_gone_and_later_ones_are_kept() {
    let bounds = FeedBounds { bytes: 1000, file_bytes: 100_000 };
    let pair = Pair::new(bounds);
    let array = pair.feed.array(NUMBERS).unwrap();
    array.write(0, &[1; 800]).unwrap();
    array.write(100, &[1; 800]).unwrap();
    pair.feed.publish(b"large").unwrap();
    assert_eq!((pair.next(), pair.feed.change(0)), (None, Fetched::Gone));
    let pair = Pair::of(keep(pair), bounds);
    put_all(&pair.feed, PARTS, &[row("one", "1")]);
    pair.feed.publish(b"small").unwrap();
    pair.follow();
    pair.assert_equal();
    load(&pair.feed, PLAIN, 0..20_000);
    pair.feed.publish(b"large file").unwrap();
    assert_eq!(pair.next(), None);
    let kept = fs::read_dir(pair.folder.path().join("store/feed")).unwrap().count();
    assert_eq!(kept, 0, "dropped files are removed");
}

/// Closes both stores.
fn keep(pair: Pair) -> TempDir {
    pair.folder
}
