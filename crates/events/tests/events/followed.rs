//! Events that another process writes, read at its published states, against the naive model.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use birdhouse_events::{Accepted, Error, Event, Events, EventsOptions, Filter, Query, Seq, VerifiedEvent};
use birdhouse_store::{MemoryReplica, MemoryStore, Replica, Store};

use crate::world::{Model, World, seeds};

const SECRET: [u8; 16] = [6; 16];
const WORLDS: u64 = 30;

fn options() -> EventsOptions {
    EventsOptions { memtable_events: 9, unit_bits: 6, ..EventsOptions::default() }
}

fn open(store: &MemoryStore) -> Events {
    Events::open(Arc::new(store.clone()), SECRET, options()).unwrap()
}

fn follow(store: &MemoryStore) -> Events {
    Events::open_published(Arc::new(MemoryReplica::new(store)), options()).unwrap().unwrap()
}

/// Returns the events of a filter, page by page.
fn found(events: &Events, filter: &Filter) -> Vec<Event> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        from = events
            .page(Query::of(filter), from, 7, &mut |_, packed| {
                all.push(packed.to_event().unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        if from.is_none() {
            return all;
        }
    }
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
                assert_eq!(found(&follower, &filter), adopted.find(&filter), "{filter:?}");
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
    assert_eq!(found(&follower, &Filter::default()), [event.event().clone()]);
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
