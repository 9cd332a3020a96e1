#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use birdhouse_cassandra::{Cassandra, report_skipped};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::contract::{self, NUMBERS, Open, Operation, PARTS, PLAIN, agree, all, operations, put_all, row};
use crate::memory::MemoryStore;
use crate::store::Replica as _;
use crate::{Batch, Error, Result, Store};

/// Hosts of a cluster that runs already, for the process that a test starts.
const HOSTS_VARIABLE: &str = "BIRDHOUSE_STORE_CQL_HOSTS";
/// A lease that runs out while a test waits.
const SHORT_LEASE: Duration = Duration::from_secs(1);

/// The node that all tests of this process share, while one of them runs.
static SHARED: Mutex<Weak<Cassandra>> = Mutex::new(Weak::new());

/// Returns the node of this process; `None` if the machine has no Cassandra, which it reports.
pub(super) fn node(test: &str) -> Option<Arc<Cassandra>> {
    let mut shared = SHARED.lock().unwrap();
    if let Some(node) = shared.upgrade() {
        return Some(node);
    }
    let Some(node) = Cassandra::start(1).unwrap() else {
        report_skipped(test);
        return None;
    };
    let node = Arc::new(node);
    *shared = Arc::downgrade(&node);
    Some(node)
}

/// Settings of a new store.
fn options(hosts: &str, spool: &Path) -> CqlOptions {
    static PLACES: AtomicU32 = AtomicU32::new(0);
    CqlOptions {
        // CQL reserves this word.
        address: format!("cql://{hosts}/order?replication=1").parse().unwrap(),
        access: CqlAccess::default(),
        place: format!("place{}", PLACES.fetch_add(1, Ordering::Relaxed)),
        owner: "test".to_owned(),
        spool: spool.to_owned(),
        lease: SHORT_LEASE,
        grace: CqlOptions::GRACE,
        cache_bytes: CqlOptions::CACHE_BYTES,
    }
}

fn open(options: &CqlOptions) -> CqlStore {
    CqlStore::open(options.clone(), &AtomicBool::new(false)).unwrap().unwrap()
}

/// Returns a place of its own on a node.
fn place(node: &Cassandra) -> Box<Open> {
    let spool = TempDir::new().unwrap();
    let options = options(&node.hosts(), spool.path());
    Box::new(move || {
        let _spool = &spool;
        Box::new(open(&options))
    })
}

#[test]
fn keeps_the_contract() {
    let Some(node) = node("the contract on Cassandra") else { return };
    contract::run(&|| place(&node));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn answers_like_the_memory_engine(operations in operations()) {
        let Some(node) = node("random operations on Cassandra") else { return Ok(()) };
        let memory = RefCell::new(MemoryStore::new());
        let reference = move || -> Box<dyn Store> {
            let store = memory.borrow().reopen();
            memory.replace(store.clone());
            Box::new(store)
        };
        // What was not published may be lost with the process: a new process finds the generations of the last publish.
        let before_restart = |operation: Operation| match operation {
            Operation::Restart => vec![Operation::Publish(b"manifest".to_vec()), Operation::Restart],
            operation => vec![operation],
        };
        let operations: Vec<_> = operations.into_iter().flat_map(before_restart).collect();
        agree(&reference, &*place(&node), &operations);
    }
}

/// Opens the store of a folder, on the node of the test or on that which started this process.
fn open_at(folder: &Path) -> Result<Box<dyn Store>> {
    let hosts = std::env::var(HOSTS_VARIABLE).unwrap_or_else(|_| node("").unwrap().hosts());
    let place = folder.file_name().unwrap().to_string_lossy().into_owned();
    let options = CqlOptions { place, ..options(&hosts, &folder.join("spool")) };
    Ok(Box::new(CqlStore::open(options, &AtomicBool::new(false))?.unwrap()))
}

#[test]
#[ignore = "the writer of the test below, which starts it"]
fn writer_to_be_killed() {
    contract::kill::write_until_killed(open_at);
}

#[test]
fn everything_published_is_there_after_a_kill_at_any_moment() {
    let Some(node) = node("killed writers on Cassandra") else { return };
    contract::kill::survive(open_at, "cql::tests::writer_to_be_killed", &[(HOSTS_VARIABLE, node.hosts())]);
}

/// Settings of a process that never says that it lives, so another one takes over from it.
fn silent(options: &CqlOptions) -> CqlOptions {
    CqlOptions { lease: Duration::from_hours(1), ..options.clone() }
}

fn records(store: &dyn Store) -> Vec<u8> {
    let array = store.array(NUMBERS).unwrap();
    array.read_run(0, usize::try_from(array.len()).unwrap()).unwrap()
}

#[test]
fn writer_that_lost_its_lease_changes_nothing_that_anybody_reads() {
    let Some(node) = node("fencing on Cassandra") else { return };
    let (spool, other_spool) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let options = options(&node.hosts(), spool.path());
    let old = open(&silent(&options));
    put_all(&old, PLAIN, &[row("key", "published")]);
    old.array(NUMBERS).unwrap().write(0, &[1; 16]).unwrap();
    old.publish(b"old").unwrap();
    // A merge that is about to be loaded into an empty table.
    let mut run = old.bulk_run(PARTS).unwrap();
    run.push(b"aaaa1", b"of the old one").unwrap();
    let run = run.finish().unwrap();

    let new = open(&CqlOptions { spool: other_spool.path().to_owned(), ..options.clone() });
    assert_eq!(new.manifest().unwrap(), Some(b"old".to_vec()));
    assert_eq!(records(&new), [1; 16]);
    put_all(&new, PLAIN, &[row("key", "new")]);
    put_all(&new, PARTS, &[row("aaaa2", "of the new one")]);
    new.array(NUMBERS).unwrap().write(2, &[2; 8]).unwrap();
    new.publish(b"new").unwrap();

    // The old one wakes up, and learns last that it is late.
    assert!(!old.is_fenced());
    put_all(&old, PLAIN, &[row("key", "too late")]);
    old.bulk_load(vec![run]).unwrap();
    old.array(NUMBERS).unwrap().write(2, &[9; 80]).unwrap();
    old.array(NUMBERS).unwrap().write(512, &[9; 1500 * 8]).unwrap();
    assert!(matches!(old.publish(b"late"), Err(Error::Fenced { .. })));
    assert!(old.is_fenced());
    assert!(matches!(old.write(Batch::new()), Ok(())));
    let mut batch = Batch::new();
    batch.put(PLAIN, "key", "later still");
    assert!(matches!(old.write(batch), Err(Error::Fenced { .. })));

    let published = CqlReplica::open(&options).unwrap().newest().unwrap().unwrap();
    for store in [&new as &dyn Store, &*published] {
        assert_eq!(store.manifest().unwrap(), Some(b"new".to_vec()));
        assert_eq!(all(store, PLAIN), [row("key", "new")]);
        assert_eq!(all(store, PARTS), [row("aaaa2", "of the new one")]);
        assert_eq!(records(store), [[1; 8], [1; 8], [2; 8]].concat());
    }
    // Where the late records lie, nothing of them is left once the array grows.
    new.array(NUMBERS).unwrap().write(2000, &[3; 8]).unwrap();
    assert_eq!(new.array(NUMBERS).unwrap().read_run(3, 1997).unwrap(), [0; 1997 * 8]);
    drop(old);
    drop(new);
    assert_eq!(open(&options).manifest().unwrap(), Some(b"new".to_vec()), "giving up a lost lease changes nothing");
}

#[test]
fn spare_writer_takes_over_when_the_owner_is_silent_and_at_once_when_it_leaves() {
    let Some(node) = node("take-over on Cassandra") else { return };
    let spool = TempDir::new().unwrap();
    let options = options(&node.hosts(), spool.path());
    let alive = open(&options);
    let stop = Arc::new(AtomicBool::new(false));
    let spare = std::thread::spawn({
        let (options, stop) = (options.clone(), Arc::clone(&stop));
        move || CqlStore::open(options, &stop).unwrap()
    });
    std::thread::sleep(3 * SHORT_LEASE);
    alive.publish(b"alive").unwrap();
    assert!(!spare.is_finished(), "the owner says that it lives");
    drop(alive);
    let spare = spare.join().unwrap().unwrap();
    assert_eq!(spare.manifest().unwrap(), Some(b"alive".to_vec()));
    let stopped = AtomicBool::new(true);
    assert!(CqlStore::open(options, &stopped).unwrap().is_none(), "a spare that is to stop waits no longer");
}

#[test]
fn one_of_many_candidates_holds_the_lease() {
    let Some(node) = node("candidates on Cassandra") else { return };
    let holders = AtomicU32::new(0);
    let spools: Vec<_> = (0..4).map(|_| TempDir::new().unwrap()).collect();
    let options = options(&node.hosts(), spools[0].path());
    std::thread::scope(|scope| {
        for spool in &spools {
            let (holders, options) = (&holders, CqlOptions { spool: spool.path().to_owned(), ..options.clone() });
            scope.spawn(move || {
                for _ in 0..3 {
                    let store = open(&options);
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two processes hold one lease");
                    let manifest = store.manifest().unwrap().map_or(0, |bytes| bytes[0]);
                    store.publish(&[manifest + 1]).unwrap();
                    holders.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(open(&options).manifest().unwrap(), Some(vec![12]), "each published on top of the one before");
}

#[test]
fn publish_that_a_node_held_back_changes_nothing() {
    let Some(node) = node("a late publish on Cassandra") else { return };
    let spool = TempDir::new().unwrap();
    let options = options(&node.hosts(), spool.path());
    let writer = open(&options);
    let read = || {
        let place = options.place.clone();
        writer.epoch.cluster.wait(|link| async move { lease::read(&link, &place).await }).unwrap().unwrap()
    };
    let before = read();
    writer.publish(b"one").unwrap();
    writer.publish(b"two").unwrap();
    let (place, number) = (options.place.clone(), read().published);
    let late = (b"one, again".to_vec(), before.published + 1, 1_i64, place, before.epoch, before.published);
    let sent = writer
        .epoch
        .cluster
        .wait(|link| async move { link.send("publish late", &link.statements.publish, late).await.map(drop) });
    sent.unwrap();
    assert_eq!(read().published, number);
    assert_eq!(open_reader(&options).newest().unwrap().unwrap().manifest().unwrap(), Some(b"two".to_vec()));
    writer.publish(b"three").unwrap();
    assert_eq!(open_reader(&options).newest().unwrap().unwrap().manifest().unwrap(), Some(b"three".to_vec()));
}

fn open_reader(options: &CqlOptions) -> CqlReplica {
    CqlReplica::open(options).unwrap()
}

#[test]
fn reader_sees_what_is_published_and_keeps_it() {
    let Some(node) = node("readers on Cassandra") else { return };
    let spool = TempDir::new().unwrap();
    let options = options(&node.hosts(), spool.path());
    let writer = open(&options);
    let reader = CqlReplica::open(&options).unwrap();
    assert!(reader.newest().unwrap().is_none());
    put_all(&writer, PARTS, &[row("aaaa1", "1")]);
    writer.array(NUMBERS).unwrap().write(0, &[1; 8]).unwrap();
    assert!(reader.newest().unwrap().is_none(), "nothing is published");
    writer.publish(b"one").unwrap();
    let one = reader.newest().unwrap().unwrap();
    assert!(Arc::ptr_eq(&one, &reader.newest().unwrap().unwrap()));

    writer.clear(PARTS).unwrap();
    put_all(&writer, PARTS, &[row("aaaa2", "2")]);
    writer.array(NUMBERS).unwrap().write(1, &[2; 8]).unwrap();
    writer.publish(b"two").unwrap();
    let two = reader.newest().unwrap().unwrap();
    for (state, manifest, rows, found) in [
        (&one, b"one", [row("aaaa1", "1")], vec![1; 8]),
        (&two, b"two", [row("aaaa2", "2")], [[1; 8], [2; 8]].concat()),
    ] {
        assert_eq!(state.manifest().unwrap(), Some(manifest.to_vec()));
        assert_eq!(all(&**state, PARTS), rows);
        assert_eq!(records(&**state), found);
        assert!(state.publish(b"not by a reader").is_err() && state.clear(PARTS).is_err());
    }
}

#[test]
fn state_expires_before_its_rows_are_deleted() {
    let Some(node) = node("expiry on Cassandra") else { return };
    let (spool, grace) = (TempDir::new().unwrap(), Duration::from_secs(2));
    let options = CqlOptions { grace, ..options(&node.hosts(), spool.path()) };
    let writer = open(&options);
    put_all(&writer, PARTS, &[row("aaaa1", "1"), row("bbbb1", "1")]);
    writer.publish(b"one").unwrap();
    let old_rows = writer.tables.current(PARTS).unwrap();
    let reader = CqlReplica::open(&options).unwrap();
    let one = reader.newest().unwrap().unwrap();
    writer.clear(PARTS).unwrap();
    put_all(&writer, PARTS, &[row("aaaa2", "2")]);
    let mut publishes = 0;
    let is_empty = || {
        let table = old_rows.clone();
        writer.epoch.cluster.wait(|link| table.has_no_row(link)).unwrap()
    };
    while !is_empty() {
        publishes += 1;
        assert!(publishes < 200, "the rows of the old generation stay");
        writer.publish(b"two").unwrap();
        let two = reader.newest().unwrap().unwrap();
        assert_eq!(all(&*two, PARTS), [row("aaaa2", "2")], "the newest state stays valid");
        if let Ok(values) = one.get_many(PARTS, &[b"aaaa1"]) {
            assert_eq!(values, [Some(b"1".to_vec())], "an answer that is given is right");
        }
        std::thread::sleep(grace / 20);
    }
    assert!(one.get_many(PARTS, &[b"aaaa1"]).is_err(), "an expired state gives no answer");
    assert!(publishes > 10, "rows were deleted under a reader");
}

#[test]
fn discarded_records_stay_for_readers_until_their_grace_is_over_and_later_ones_for_ever() {
    let Some(node) = node("discarded records on Cassandra") else { return };
    let (spool, grace) = (TempDir::new().unwrap(), Duration::from_secs(2));
    let options = CqlOptions { grace, cache_bytes: 0, ..options(&node.hosts(), spool.path()) };
    let writer = open(&options);
    let array = writer.array(NUMBERS).unwrap();
    // Three chunks of 512 records.
    array.write(0, &[1; 3 * 4096]).unwrap();
    writer.publish(b"one").unwrap();
    let reader = open_reader(&options);
    let one = reader.newest().unwrap().unwrap().array(NUMBERS).unwrap();
    array.discard(0, 1024).unwrap();
    writer.publish(b"two").unwrap();
    assert_eq!(one.read_run(0, 1).unwrap(), [1; 8], "readers may have the state before");
    assert_eq!(writer.sizes().unwrap().iter().find(|(name, _)| name == NUMBERS.name).unwrap().1, 4096);
    // The second chunk is used again before it is deleted.
    array.write(512, &[2; 4096]).unwrap();
    writer.publish(b"three").unwrap();
    let mut publishes = 0;
    while array.read_run(0, 1).unwrap() != [0; 8] {
        publishes += 1;
        assert!(publishes < 200, "discarded records stay");
        if let Ok(record) = one.read_run(0, 1) {
            assert_eq!(record, [1; 8], "an answer that is given is right");
        }
        std::thread::sleep(grace / 20);
        writer.publish(b"again").unwrap();
    }
    assert!(one.read_run(0, 1).is_err(), "an expired state gives no answer");
    assert_eq!(array.read_run(512, 512).unwrap(), [2; 4096], "what was written later stays");
    assert!(publishes > 10, "records were deleted under a reader");
}

#[test]
fn cached_records_are_those_of_the_state_that_is_read() {
    let Some(node) = node("the cache of records on Cassandra") else { return };
    let spool = TempDir::new().unwrap();
    let options = options(&node.hosts(), spool.path());
    let writer = open(&options);
    let (array, reader) = (writer.array(NUMBERS).unwrap(), open_reader(&options));
    let newest = || reader.newest().unwrap().unwrap().array(NUMBERS).unwrap();
    // Others are reserved behind the first, and written later in the same chunk.
    array.write(20, &[3; 8]).unwrap();
    array.write(0, &[1; 8]).unwrap();
    writer.publish(b"one").unwrap();
    let one = newest();
    assert_eq!(one.read_run(0, 1).unwrap(), [1; 8]);
    array.write(1, &[2; 8]).unwrap();
    writer.publish(b"two").unwrap();
    let two = newest();
    assert_eq!(two.read_many(&[0, 1]).unwrap(), [[1; 8], [2; 8]].concat());
    let mut runs = Vec::new();
    two.visit_runs(&[(20, 1), (0, 2), (5, 0)], &mut |bytes| {
        runs.push(bytes.to_vec());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(runs, [vec![3; 8], [[1; 8], [2; 8]].concat(), vec![]]);
    assert!(two.visit_runs(&[(20, 2)], &mut |_| panic!("it is past the end")).is_err());
    assert_eq!(one.read_run(0, 1).unwrap(), [1; 8]);

    array.truncate(1).unwrap();
    writer.publish(b"three").unwrap();
    array.write(1, &[4; 8]).unwrap();
    writer.publish(b"four").unwrap();
    assert_eq!(newest().read_run(0, 2).unwrap(), [[1; 8], [4; 8]].concat(), "not those before the cut");
    assert_eq!(array.read_run(0, 2).unwrap(), [[1; 8], [4; 8]].concat());
}
