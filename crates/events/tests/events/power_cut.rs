//! The power goes at any write: what was accepted is there, what was not is not there by half.

use std::sync::Arc;

use birdhouse_events::{Audience, Event, Events, EventsOptions, Filter, Query, Seq, VerifiedEvent};
use birdhouse_store::{MemoryStore, Store};

use crate::world::{Model, World};

const SECRET: [u8; 16] = [6; 16];
const CUTS: u64 = 400;
/// Writes after which the power goes at the latest; most worlds make more.
const WRITES: u64 = 200;

fn open(store: &MemoryStore) -> Events {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Events::open(store, SECRET, EventsOptions { tail_events: 7, urls: Vec::new() }).unwrap()
}

fn all(events: &Events) -> Vec<Event> {
    let mut found = Vec::new();
    let query = Query { filter: &Filter::default(), end: Seq(u64::MAX), now: 0, audience: Audience::Operator };
    events.page(query, None, usize::MAX, &mut |_, packed| found.push(packed.to_event().unwrap())).unwrap();
    found
}

#[test]
fn nothing_acknowledged_is_lost_and_no_batch_is_there_by_half() {
    let (mut cut_off, mut kept_unacknowledged) = (0, 0);
    for seed in 0..CUTS {
        println!("seed {seed}");
        let mut world = World::new(seed);
        let store = MemoryStore::new();
        let (mut events, mut model, mut seen) = (open(&store), Model::default(), Vec::<VerifiedEvent>::new());
        store.fail_after(1 + world.rng.below(WRITES));
        for _ in 0..12 {
            let batch: Vec<VerifiedEvent> = (0..=world.rng.below(9)).map(|_| world.event(&seen)).collect();
            seen.extend(batch.iter().cloned());
            let outcome = events.accept(&batch.iter().collect::<Vec<_>>());
            let before = model.find(&Filter::default());
            for event in &batch {
                model.accept(event);
            }
            if outcome.is_ok() {
                continue;
            }
            cut_off += 1;
            assert!(
                events.accept(&batch.iter().collect::<Vec<_>>()).is_err(),
                "a store that failed takes nothing more"
            );
            let after_the_cut = store.crash(seed);
            events = open(&after_the_cut);
            let (found, after) = (all(&events), model.find(&Filter::default()));
            assert!(found == before || found == after, "neither before nor after the batch");
            kept_unacknowledged += u64::from(found == after && before != after);
            // What was not acknowledged can be sent again.
            events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!(all(&events), after);
            break;
        }
    }
    assert!(cut_off > CUTS / 2, "{cut_off} cuts");
    assert!(kept_unacknowledged > 0, "no cut came between the publish and the answer");
}
