//! The event store against the naive model.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use birdhouse_events::{
    Accepted, EVENT_WORK, Event, Events, EventsOptions, Filter, Keys, Kind, Matcher, Position, Query, Tag, TagsBy,
    Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_store::{MemoryStore, SegmentOptions, SegmentStore, Store};

use crate::world::{Model, Rng, World, seeds, sorted};

const WORLDS: u64 = 250;
const SECRET: [u8; 16] = [5; 16];

/// Size of a world.
#[derive(Clone, Copy)]
struct Size {
    events: usize,
    /// Events in the memtable: few, so that there are many segments, compacted more than once.
    memtable: usize,
    filters: usize,
    /// Maximum rows of a page.
    rows: u64,
}

const SMALL: Size = Size { events: 160, memtable: 7, filters: 400, rows: 40 };

/// Returns a page, and checks that a count gets the same.
fn page(
    events: &Events,
    filter: &Filter,
    from: Option<Position>,
    (rows, work_max): (usize, u64),
) -> (Vec<Event>, Option<Position>) {
    let (mut found, mut counted) = (Vec::new(), Vec::new());
    let query = Query { work_max, ..Query::of(filter) };
    let next = events
        .page(query, from, rows, &mut |_, packed| {
            found.push(packed.to_event().unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
    let next_counted = events
        .page(Query { tags: TagsBy::List, ..query }, from, rows, &mut |_, packed| {
            counted.push(packed.id());
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(next_counted, next);
    assert!(counted.iter().eq(found.iter().map(|event| &event.id)), "{filter:?}");
    (found, next)
}

/// Returns all pages of a filter, of random sizes.
fn pages(events: &Events, filter: &Filter, rows_max: u64, rng: &mut Rng) -> Vec<Event> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let rows = 1 + usize::try_from(rng.below(rows_max)).unwrap();
        let work_max = if rng.one_in(2) { 1 + rng.below(40 * EVENT_WORK) } else { u64::MAX };
        let (some, next) = page(events, filter, from, (rows, work_max));
        assert!(some.len() <= rows);
        all.extend(some);
        from = next;
        if from.is_none() {
            return all;
        }
    }
}

fn run(world: &mut World, store: &Arc<dyn Store>, size: Size) {
    let open = |world: &mut World| {
        let options =
            EventsOptions { memtable_events: size.memtable, letters: world.letters(), ..EventsOptions::default() };
        Events::open(Arc::clone(store), SECRET, options).unwrap()
    };
    let (mut events, mut model, mut seen) = (open(world), Model::default(), Vec::<VerifiedEvent>::new());
    while seen.len() < size.events {
        let mut batch: Vec<VerifiedEvent> = (0..=world.rng.below(9)).map(|_| world.event(&seen)).collect();
        if !seen.is_empty() && world.rng.one_in(3) {
            batch.push(world.rng.one_of(&seen));
        }
        let outcomes = events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
        for (event, outcome) in batch.into_iter().zip(outcomes) {
            assert_eq!(matches!(outcome, Accepted::Stored(_)), model.accept(&event), "{event:?} {outcome:?}");
            seen.push(event);
        }
        while world.rng.one_in(2) && events.compact().unwrap() {}
        if world.rng.one_in(12) {
            drop(events);
            events = open(world);
        }
    }
    assert_eq!(events.live_events(), model.0.len() as u64);
    for _ in 0..size.filters {
        let filter = world.filter(&seen);
        let expected = model.find(&filter);
        assert_eq!(pages(&events, &filter, size.rows, &mut world.rng), expected, "{filter:?}");
        let rows = 1 + usize::try_from(world.rng.below(size.rows)).unwrap();
        let (first, _) = page(&events, &filter, None, (rows, u64::MAX));
        assert_eq!(first, expected[..rows.min(expected.len())], "{filter:?}, {rows} rows");
    }
}

#[test]
fn a_hundred_thousand_random_filters_are_answered_as_by_a_scan_of_everything() {
    for seed in seeds(WORLDS) {
        println!("seed {seed}");
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        run(&mut World::new(seed), &store, SMALL);
    }
}

#[test]
fn the_same_on_disk() {
    for seed in 1000..1003 {
        println!("seed {seed}");
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(SegmentStore::open(folder.path(), birdhouse_events::TABLES, SegmentOptions::default()).unwrap());
        run(&mut World::new(seed), &store, Size { filters: 100, ..SMALL });
    }
}

#[test]
fn merged_segments_take_no_space() {
    let folder = tempfile::tempdir().unwrap();
    let store =
        Arc::new(SegmentStore::open(folder.path(), birdhouse_events::TABLES, SegmentOptions::default()).unwrap());
    let options = EventsOptions { memtable_events: 1000, ..EventsOptions::default() };
    let events = Events::open(Arc::clone(&store) as Arc<dyn Store>, SECRET, options).unwrap();
    let keys = Keys::from_secret([1; 32]).unwrap();
    for first in (0..16_000).step_by(1000) {
        let note = |second| UnsignedEvent {
            created_at: Timestamp(second),
            kind: Kind(1),
            tags: vec![Tag(vec!["t".to_owned(), format!("{}", second % 100)])],
            content: String::new(),
        };
        let batch: Vec<VerifiedEvent> = (first..first + 1000).map(|second| note(second).sign(&keys)).collect();
        events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
        while events.compact().unwrap() {}
    }
    let bytes = |name: &str| store.sizes().unwrap().into_iter().find(|(other, _)| other == name).unwrap().1;
    // An event is in three lists: of all events, of its author, and of its tag.
    let (used, taken) = (16_000 * 3 * 16, bytes("posting"));
    assert!((used..used + used / 4).contains(&taken), "{taken} bytes taken, {used} used");
}

#[test]
fn the_same_where_the_newest_events_do_not_suffice() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    run(
        &mut World { has_quiet_authors: true, ..World::new(2000) },
        &store,
        Size { events: 15_000, memtable: 1000, filters: 600, rows: 300 },
    );
}

#[test]
fn an_event_meets_exactly_the_subscriptions_that_match_it() {
    for seed in 3000..3100 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        let seen: Vec<VerifiedEvent> = (0..50).map(|_| world.event(&[])).collect();
        let (mut matcher, mut model) = (Matcher::default(), HashMap::<u64, Arc<[Filter]>>::new());
        for _ in 0..120 {
            let key = world.rng.below(30);
            if world.rng.one_in(4) {
                matcher.remove(key);
                model.remove(&key);
            } else {
                let filters: Arc<[Filter]> = (0..=world.rng.below(3)).map(|_| world.filter(&seen)).collect();
                matcher.insert(key, Arc::clone(&filters));
                model.insert(key, filters);
            }
            let event = if world.rng.one_in(2) { world.rng.one_of(&seen) } else { world.event(&[]) };
            let mut matched = matcher.matches(&event);
            matched.sort_unstable();
            let expected = model.iter().filter(|(_, filters)| filters.iter().any(|filter| filter.matches(&event)));
            assert_eq!(matched, sorted(expected.map(|(key, _)| *key).collect()));
            assert_eq!(matcher.len(), model.len());
        }
    }
}
