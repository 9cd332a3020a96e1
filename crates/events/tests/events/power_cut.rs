//! Power cuts at any write: every accepted event is there, and no other event is there in part.

use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_events::{Event, Events, EventsOptions, Filter, Query, VerifiedEvent};
use birdhouse_store::{MemoryStore, Store};

use crate::world::{Model, World, seeds};

const SECRET: [u8; 16] = [6; 16];
const CUTS: u64 = 400;
/// Writes before the power is cut at the latest; most worlds make more.
const WRITES: u64 = 200;

fn open(store: &MemoryStore) -> Events {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Events::open(store, SECRET, EventsOptions { memtable_events: 7, ..EventsOptions::default() }).unwrap()
}

pub(crate) fn all(events: &Events) -> Vec<Event> {
    let mut found = Vec::new();
    let filter = Filter::default();
    let query = Query::of(&filter);
    events
        .page(query, None, usize::MAX, &mut |_, packed| {
            found.push(packed.to_event().unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

#[test]
fn nothing_acknowledged_is_lost_and_no_batch_is_there_by_half() {
    let (mut cut_off, mut kept_unacknowledged, mut cut_in_compaction) = (0, 0, 0);
    let worlds = seeds(CUTS);
    let count = worlds.end - worlds.start;
    for seed in worlds {
        println!("seed {seed}");
        let mut world = World::new(seed);
        let store = MemoryStore::new();
        let (mut events, mut model, mut seen) = (open(&store), Model::default(), Vec::<VerifiedEvent>::new());
        store.fail_after(1 + world.rng.below(WRITES));
        for _ in 0..12 {
            let batch: Vec<VerifiedEvent> = (0..=world.rng.below(9)).map(|_| world.event(&seen)).collect();
            seen.extend(batch.iter().cloned());
            let (mut notified, manifest) = (Vec::new(), store.manifest().unwrap());
            let accepted = events.accept_and_notify(&batch.iter().collect::<Vec<_>>(), |outcomes| {
                assert_eq!(outcomes.len(), batch.len());
                notified = all(&events);
            });
            let before = model.find(&Filter::default());
            for event in &batch {
                model.accept(event);
            }
            let (found, after) = (all(&events), model.find(&Filter::default()));
            let is_published = accepted.is_ok() || store.manifest().unwrap() != manifest;
            assert!(
                found == if is_published { after.clone() } else { before.clone() },
                "what is not kept is not found"
            );
            assert!(notified == after || accepted.is_err() && notified.is_empty(), "it is found when it is notified");
            let is_compacted = !world.rng.one_in(2) || events.compact().is_ok();
            if accepted.is_ok() && is_compacted {
                continue;
            }
            cut_off += 1;
            cut_in_compaction += u64::from(accepted.is_ok());
            let again = events.accept(&batch.iter().collect::<Vec<_>>());
            assert!(again.is_err() || accepted.is_ok(), "a store that failed takes nothing more");
            let after_the_cut = store.crash(seed);
            events = open(&after_the_cut);
            let (found, after) = (all(&events), model.find(&Filter::default()));
            assert!(found == after || accepted.is_err() && found == before, "neither before nor after the batch");
            kept_unacknowledged += u64::from(accepted.is_err() && found == after && before != after);
            // Events that were not acknowledged can be sent again.
            events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!(all(&events), after);
            break;
        }
    }
    println!("{cut_off} cuts in {count} worlds");
    assert!(cut_off > CUTS / 2, "{cut_off} cuts");
    assert!(cut_in_compaction > CUTS / 50, "{cut_in_compaction} while segments were merged");
    assert!(kept_unacknowledged > 0, "no cut came between the publish and the answer");
}
