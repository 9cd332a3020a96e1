//! Events that another process writes, read at its published states, against the naive model.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use birdhouse_events::{Accepted, Error, Events, EventsOptions, Filter, Seq, VerifiedEvent};
use birdhouse_store::{
    Array, ArraySpec, Batch, BulkRun, FinishedRun, KeyRange, MemoryReplica, MemoryStore, Page, PageLimit, Replica,
    Store, Table,
};

use crate::space::found;
use crate::world::{Model, World, seeds};

const SECRET: [u8; 16] = [6; 16];
const WORLDS: u64 = 30;
/// Few, so that most answers have several pages.
const PAGE_ROWS: usize = 7;

fn options() -> EventsOptions {
    EventsOptions { memtable_events: 9, unit_bits: 6, ..EventsOptions::default() }
}

fn open(store: &MemoryStore) -> Events {
    Events::open(Arc::new(store.clone()), SECRET, options()).unwrap()
}

fn follow(store: &MemoryStore) -> Events {
    Events::open_published(Arc::new(MemoryReplica::new(store)), options()).unwrap().unwrap()
}

#[test]
fn each_state_is_read_as_it_was_published_and_every_new_event_is_reported_once() {
    for seed in seeds(WORLDS) {
        println!("seed {seed}");
        let (mut world, store) = (World::new(seed), MemoryStore::new());
        let (mut writer, mut model, mut seen) = (open(&store), Model::default(), Vec::<VerifiedEvent>::new());
        let (mut follower, mut adopted) = (follow(&store), Model::default());
        let (mut stored, mut reported) = (Vec::new(), Vec::new());
        while seen.len() < 400 {
            let batch: Vec<VerifiedEvent> = (0..=world.rng.below(6)).map(|_| world.event(&seen)).collect();
            for (event, outcome) in batch.iter().zip(writer.accept(&batch.iter().collect::<Vec<_>>()).unwrap()) {
                model.accept(event);
                if let Accepted::Stored(seq) = outcome {
                    stored.push((seq, event.id));
                }
            }
            seen.extend(batch);
            while world.rng.one_in(2) && writer.compact().unwrap() {}
            if world.rng.one_in(12) {
                drop(writer);
                writer = open(&store);
            }
            if world.rng.one_in(3) {
                follower.adopt_newest(&mut |seq, event| reported.push((seq, event.id))).unwrap();
                adopted = Model(model.0.clone());
            }
            if world.rng.one_in(20) {
                // A new follower learns of what was there by asking.
                follower = follow(&store);
                adopted = Model(model.0.clone());
                reported = stored.clone();
            }
            for _ in 0..5 {
                let filter = world.filter(&seen);
                assert_eq!(found(&follower, &filter, PAGE_ROWS), adopted.find(&filter), "{filter:?}");
            }
            assert_eq!(follower.live_events(), adopted.0.len() as u64);
        }
        follower.adopt_newest(&mut |seq, event| reported.push((seq, event.id))).unwrap();
        // What was deleted and given back before it was seen is left out.
        let mut expected = stored.iter();
        assert!(reported.iter().all(|one| expected.any(|other| other == one)), "out of order, or twice");
        let is_missing = |(seq, id): &&(Seq, _)| !reported.contains(&(*seq, *id));
        let missing: Vec<_> = stored.iter().filter(is_missing).collect();
        assert!(missing.iter().all(|(_, id)| !model.0.iter().any(|event| event.id == *id)), "{missing:?} are live");
    }
}

#[test]
fn what_is_followed_cannot_be_changed_and_other_events_are_refused() {
    let (store, mut world) = (MemoryStore::new(), World::new(1));
    let event = world.event(&[]);
    open(&store).accept(&[&event]).unwrap();
    let other = MemoryStore::new();
    drop(Events::open(Arc::new(other.clone()), [7; 16], options()).unwrap());
    let replica =
        Arc::new(Switched { first: MemoryReplica::new(&store), then: MemoryReplica::new(&other), asked: 0.into() });
    let follower = Events::open_published(replica, options()).unwrap().unwrap();
    assert!(matches!(follower.accept(&[&event]), Err(Error::Followed)));
    assert!(matches!(follower.reopen(), Err(Error::Followed)));
    assert_eq!(follower.failure(), None);
    assert!(matches!(follower.adopt_newest(&mut |_, _| {}), Err(Error::Replaced)));
    assert_eq!(found(&follower, &Filter::default(), PAGE_ROWS), [event.event().clone()]);
}

/// States of one store, and from the second question on those of another one.
struct Switched {
    first: MemoryReplica,
    then: MemoryReplica,
    asked: AtomicU32,
}

impl Replica for Switched {
    fn newest(&self) -> birdhouse_store::Result<Option<Arc<dyn Store>>> {
        if self.asked.fetch_add(1, Ordering::Relaxed) == 0 { self.first.newest() } else { self.then.newest() }
    }
}

#[test]
fn a_state_with_the_same_manifest_takes_the_place_of_the_one_before() {
    let store = MemoryStore::new();
    open(&store).accept(&[&World::new(2).event(&[])]).unwrap();
    let replica = Arc::new(Renewed { store, given: Mutex::new(Vec::new()) });
    let follower = Events::open_published(Arc::clone(&replica) as _, options()).unwrap().unwrap();
    follower.adopt_newest(&mut |_, _| panic!("there is no new event")).unwrap();
    follower.adopt_newest(&mut |_, _| panic!("there is no new event")).unwrap();
    let kept: Vec<bool> = replica.given.lock().unwrap().iter().map(|state| state.strong_count() > 0).collect();
    assert_eq!(kept, [false, false, true], "a state that is no longer the newest expires");
}

/// Another state at every question.
struct Renewed {
    store: MemoryStore,
    given: Mutex<Vec<Weak<dyn Store>>>,
}

impl Replica for Renewed {
    fn newest(&self) -> birdhouse_store::Result<Option<Arc<dyn Store>>> {
        let state: Arc<dyn Store> = Arc::new(self.store.reopen());
        self.given.lock().unwrap().push(Arc::downgrade(&state));
        Ok(Some(state))
    }
}

#[test]
fn every_event_is_reported_once_although_reads_fail_at_any_moment() {
    let (store, mut world) = (MemoryStore::new(), World::new(3));
    let writer = open(&store);
    let replica =
        Arc::new(Failing { inner: MemoryReplica::new(&store), reads_left: Arc::new(AtomicU32::new(u32::MAX)) });
    let follower = Events::open_published(Arc::clone(&replica) as _, options()).unwrap().unwrap();
    let (mut seen, mut stored, mut reported, mut failures) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for round in 0..200 {
        let batch: Vec<VerifiedEvent> = (0..=world.rng.below(6)).map(|_| world.event(&seen)).collect();
        for (event, outcome) in batch.iter().zip(writer.accept(&batch.iter().collect::<Vec<_>>()).unwrap()) {
            if let Accepted::Stored(seq) = outcome {
                stored.push((seq, event.id));
            }
        }
        seen.extend(batch);
        let reads = u32::try_from(world.rng.below(12)).unwrap();
        replica.reads_left.store(if round % 4 == 3 { u32::MAX } else { reads }, Ordering::Relaxed);
        failures += u32::from(follower.adopt_newest(&mut |seq, event| reported.push((seq, event.id))).is_err());
    }
    replica.reads_left.store(u32::MAX, Ordering::Relaxed);
    follower.adopt_newest(&mut |seq, event| reported.push((seq, event.id))).unwrap();
    assert_eq!(reported, stored);
    assert!(failures > 20, "{failures} failures are too few to tell");
}

/// States of which reads of arrays fail after some.
struct Failing {
    inner: MemoryReplica,
    reads_left: Arc<AtomicU32>,
}

impl Replica for Failing {
    fn newest(&self) -> birdhouse_store::Result<Option<Arc<dyn Store>>> {
        let failing =
            |inner| Arc::new(FailingState { inner, reads_left: Arc::clone(&self.reads_left) }) as Arc<dyn Store>;
        Ok(self.inner.newest()?.map(failing))
    }
}

struct FailingState {
    inner: Arc<dyn Store>,
    reads_left: Arc<AtomicU32>,
}

impl Store for FailingState {
    fn get_many(&self, table: Table, keys: &[&[u8]]) -> birdhouse_store::Result<Vec<Option<Vec<u8>>>> {
        self.inner.get_many(table, keys)
    }

    fn scan_many(&self, table: Table, ranges: &[KeyRange], limit: PageLimit) -> birdhouse_store::Result<Vec<Page>> {
        self.inner.scan_many(table, ranges, limit)
    }

    fn write(&self, batch: Batch) -> birdhouse_store::Result<()> {
        self.inner.write(batch)
    }

    fn publish(&self, manifest: &[u8]) -> birdhouse_store::Result<()> {
        self.inner.publish(manifest)
    }

    fn manifest(&self) -> birdhouse_store::Result<Option<Vec<u8>>> {
        self.inner.manifest()
    }

    fn bulk_run(&self, table: Table) -> birdhouse_store::Result<Box<dyn BulkRun>> {
        self.inner.bulk_run(table)
    }

    fn bulk_load(&self, runs: Vec<FinishedRun>) -> birdhouse_store::Result<()> {
        self.inner.bulk_load(runs)
    }

    fn clear(&self, table: Table) -> birdhouse_store::Result<()> {
        self.inner.clear(table)
    }

    fn array(&self, spec: ArraySpec) -> birdhouse_store::Result<Arc<dyn Array>> {
        Ok(Arc::new(FailingArray { inner: self.inner.array(spec)?, reads_left: Arc::clone(&self.reads_left) }))
    }

    fn sizes(&self) -> birdhouse_store::Result<Vec<(String, u64)>> {
        self.inner.sizes()
    }

    fn is_remote(&self) -> bool {
        true
    }
}

struct FailingArray {
    inner: Arc<dyn Array>,
    reads_left: Arc<AtomicU32>,
}

impl FailingArray {
    fn spend(&self) -> birdhouse_store::Result<()> {
        let spent = self.reads_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        spent.map(drop).map_err(|_| birdhouse_store::Error::Engine("simulated fault".to_owned()))
    }
}

impl Array for FailingArray {
    fn read_many(&self, numbers: &[u64]) -> birdhouse_store::Result<Vec<u8>> {
        self.spend()?;
        self.inner.read_many(numbers)
    }

    fn read_run(&self, first: u64, count: usize) -> birdhouse_store::Result<Vec<u8>> {
        self.spend()?;
        self.inner.read_run(first, count)
    }

    fn write(&self, first: u64, records: &[u8]) -> birdhouse_store::Result<()> {
        self.inner.write(first, records)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn truncate(&self, len: u64) -> birdhouse_store::Result<()> {
        self.inner.truncate(len)
    }

    fn is_remote(&self) -> bool {
        true
    }
}
