//! Work beside readers: events arrive, segments are compacted, and an index gets lists that it lacked.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use birdhouse_events::{
    Event, Events, EventsOptions, Filter, Keys, Kind, Letter, Query, Seq, Tag, Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_store::{SegmentOptions, SegmentStore, Store};
use tempfile::TempDir;

const SECRET: [u8; 16] = [8; 16];
const EVENTS: u64 = 12_000;
const TOPICS: u64 = 40;

fn note(number: u64) -> VerifiedEvent {
    let keys = Keys::from_secret([1 + u8::try_from(number % 7).unwrap(); 32]).unwrap();
    let tag = |name: &str, value: u64| Tag(vec![name.to_owned(), format!("topic {}", value % TOPICS)]);
    let (created_at, kind) = (Timestamp(1000 + number / 3), Kind(if number.is_multiple_of(5) { 7 } else { 1 }));
    UnsignedEvent { created_at, kind, tags: vec![tag("t", number), tag("T", number / 2)], content: String::new() }
        .sign(&keys)
}

fn about(letter: &str, topic: u64) -> Filter {
    let letter = Letter::parse(letter).unwrap();
    Filter { tags: vec![(letter, vec![format!("topic {topic}")])], ..Filter::default() }
}

fn found(events: &Events, filter: &Filter) -> Vec<Event> {
    let (mut all, mut from) = (Vec::new(), None);
    let query = Query { end: events.end(), ..Query::of(filter) };
    loop {
        from = events
            .page(query, from, 50, &mut |_, packed| {
                all.push(packed.to_event().unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        if from.is_none() {
            return all;
        }
    }
}

fn store() -> (TempDir, Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SegmentStore::open(folder.path(), birdhouse_events::TABLES, SegmentOptions::default()).unwrap();
    (folder, Arc::new(store))
}

#[test]
fn answers_are_complete_while_lists_of_a_tag_are_added_to_a_filled_store() {
    let (_folder, store) = store();
    let without =
        EventsOptions { memtable_events: 1000, letters: [].into_iter().collect(), ..EventsOptions::default() };
    let events = Events::open(Arc::clone(&store), SECRET, without.clone()).unwrap();
    let notes: Vec<VerifiedEvent> = (0..EVENTS).map(note).collect();
    for some in notes.chunks(500) {
        events.accept(&some.iter().collect::<Vec<_>>()).unwrap();
        while events.compact().unwrap() {}
    }
    assert_eq!(events.unindexed_events(), 0, "nothing is missing of what is wanted");
    drop(events);

    let events =
        Events::open(store, SECRET, EventsOptions { memtable_events: 1000, ..EventsOptions::default() }).unwrap();
    let missing = events.unindexed_events();
    assert!(missing > EVENTS / 2, "{missing} events without lists of all their tags");
    let (mut topic, mut partly) = (0, 0);
    let mut ask = || {
        let left = events.unindexed_events();
        for letter in ["t", "T"] {
            let filter = about(letter, topic % TOPICS);
            let expected = notes.iter().filter(|note| filter.matches(note)).count();
            let found: BTreeSet<_> = found(&events, &filter).iter().map(|event| event.id).collect();
            assert_eq!(found.len(), expected, "{letter} {topic}, {left} left");
        }
        (topic, partly) = (topic + 1, partly + u64::from(0 < left && left < missing));
    };
    let mut has_more = true;
    while has_more {
        thread::scope(|scope| {
            let compacting = scope.spawn(|| events.compact().unwrap());
            while !compacting.is_finished() {
                ask();
            }
            has_more = compacting.join().unwrap();
        });
        ask();
    }
    assert!(partly > 0, "nobody asked while the lists were there in part");
    assert_eq!(events.unindexed_events(), 0);
}

#[test]
fn readers_see_every_event_once_while_others_come_and_segments_are_merged() {
    let (_folder, store) = store();
    let options = EventsOptions { memtable_events: 300, ..EventsOptions::default() };
    let events = Events::open(store, SECRET, options).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for first in (0..EVENTS).step_by(100) {
                let some: Vec<VerifiedEvent> = (first..first + 100).map(note).collect();
                events.accept(&some.iter().collect::<Vec<_>>()).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                if !events.compact().unwrap() {
                    thread::yield_now();
                }
            }
        });
        let mut asked = 0;
        while !is_done.load(Ordering::Acquire) || asked == 0 {
            let end = events.end();
            let all = found(&events, &Filter::default());
            let ids: BTreeSet<_> = all.iter().map(|event| event.id).collect();
            assert!(ids.len() == all.len() && all.len() as u64 >= end.0, "{} of {end}", ids.len());
            assert!(all.is_sorted_by(|one, other| (other.created_at, one.id) <= (one.created_at, other.id)));
            asked += 1;
        }
    });
    assert_eq!(found(&events, &Filter::default()).len() as u64, EVENTS);
    assert_eq!(events.end(), Seq(EVENTS));
}
