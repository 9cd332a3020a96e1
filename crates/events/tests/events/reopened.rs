//! Writes fail, and succeed again after the events are opened again in place.

use std::sync::Arc;

use birdhouse_events::{Events, EventsOptions, Filter, SearchStorage, VerifiedEvent};
use birdhouse_store::{MemoryStore, Store};

use crate::power_cut::all;
use crate::world::{Model, World, seeds};

const SECRET: [u8; 16] = [6; 16];
const FAULTS: u64 = 100;
/// Writes before one fails at the latest.
const WRITES: u64 = 200;

fn open(store: &MemoryStore) -> Events {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let options = EventsOptions { memtable_events: 7, search: SearchStorage::Memory, ..EventsOptions::default() };
    Events::open(store, SECRET, options).unwrap()
}

#[test]
fn after_a_failed_write_the_events_open_again_in_place() {
    let (mut failed, mut failed_again, mut unacknowledged) = (0, 0, 0);
    for seed in seeds(FAULTS) {
        let mut world = World::new(seed);
        let store = MemoryStore::new();
        let (events, mut model, mut seen) = (open(&store), Model::default(), Vec::<VerifiedEvent>::new());
        store.fail_after(1 + world.rng.below(WRITES));
        for _ in 0..24 {
            let batch: Vec<VerifiedEvent> = (0..=world.rng.below(9)).map(|_| world.event(&seen)).collect();
            seen.extend(batch.iter().cloned());
            let manifest = store.manifest().unwrap();
            let before = model.find(&Filter::default());
            let accepted = events.accept(&batch.iter().collect::<Vec<_>>());
            let is_compacted = !world.rng.one_in(2) || events.compact().is_ok();
            let _ = events.index_words(3);
            for event in &batch {
                model.accept(event);
            }
            let after = model.find(&Filter::default());
            if accepted.is_ok() && is_compacted {
                assert_eq!(all(&events), after, "seed {seed}");
                continue;
            }
            if accepted.is_ok() && events.failure().is_none() {
                // The merge failed before it changed anything.
                store.fail_after(1 + world.rng.below(WRITES));
                continue;
            }
            failed += 1;
            assert!(events.failure().unwrap().contains("simulated fault"), "seed {seed}: {:?}", events.failure());
            // The disk still fails, and then no longer.
            failed_again += u64::from(events.reopen().is_err());
            assert!(events.failure().is_some(), "seed {seed}");
            store.fail_after(u64::MAX);
            events.reopen().unwrap();
            assert_eq!(events.failure(), None);
            let is_published = accepted.is_ok() || store.manifest().unwrap() != manifest;
            let now = all(&events);
            assert!(now == after || accepted.is_err() && now == before, "seed {seed}: neither before nor after");
            unacknowledged += u64::from(!is_published || now == before);
            events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
            if now == after {
                // An event may come again whose deletion request has vanished behind it.
                for event in &batch {
                    model.accept(event);
                }
            }
            assert_eq!(all(&events), model.find(&Filter::default()), "seed {seed}: what was refused is taken");
            store.fail_after(1 + world.rng.below(WRITES));
        }
        store.fail_after(u64::MAX);
        if events.failure().is_some() {
            events.reopen().unwrap();
        }
        while events.compact().unwrap() {}
        let (kept, closed) = (all(&events), store.reopen());
        drop(events);
        assert_eq!(all(&open(&closed)), kept, "seed {seed}: a start finds the same");
    }
    println!("{failed} failures, {failed_again} attempts that failed, {unacknowledged} batches withdrawn");
    assert_eq!(failed_again, failed);
    assert!(seeds(FAULTS).count() < 100 || failed > FAULTS && unacknowledged > FAULTS / 4, "too few faults to tell");
}
