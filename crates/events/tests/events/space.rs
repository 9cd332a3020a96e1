//! The space of events that are gone comes back, and nothing else changes: not during it, not across power cuts and
//! failures.

use std::collections::HashSet;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use birdhouse_events::{
    Accepted, EventId, Events, EventsOptions, Filter, Keys, Kind, Query, Seq, TABLES, Tag, Timestamp, UnsignedEvent,
    VerifiedEvent,
};
use birdhouse_store::{MemoryStore, SegmentOptions, SegmentStore, Store};

use crate::power_cut::all;
use crate::world::{Model, Rng, World, seeds};

const SECRET: [u8; 16] = [9; 16];
/// Small units, so that few events fill many.
const UNIT_BITS: u32 = 9;
const EVENTS: u64 = 5000;
const PAGE_ROWS: usize = 70;

fn options(memtable_events: usize, unit_bits: u32) -> EventsOptions {
    EventsOptions { memtable_events, unit_bits, ..EventsOptions::default() }
}

fn on_disk(folder: &Path) -> (Arc<SegmentStore>, Events) {
    let store = Arc::new(SegmentStore::open(folder, TABLES, SegmentOptions::default()).unwrap());
    let events = Events::open(Arc::clone(&store) as _, SECRET, options(200, UNIT_BITS)).unwrap();
    (store, events)
}

fn bytes(store: &dyn Store) -> u64 {
    store.sizes().unwrap().iter().map(|(_, bytes)| bytes).sum()
}

fn keys(author: u64) -> Keys {
    Keys::from_secret([1 + u8::try_from(author % 40).unwrap(); 32]).unwrap()
}

/// Returns an event with tags and a content of some hundred bytes.
fn event(rng: &mut Rng, number: u64, kind: u16, tags: Vec<Tag>) -> VerifiedEvent {
    let content = "words of a note ".repeat(usize::try_from(10 + rng.below(30)).unwrap());
    UnsignedEvent { created_at: Timestamp(1000 + number), kind: Kind(kind), tags, content }.sign(&keys(number))
}

fn tag(name: &str, value: impl Display) -> Tag {
    Tag(vec![name.to_owned(), format!("{value}")])
}

/// Returns events of which about half are gone in the end: versions that are replaced, and notes that are deleted.
fn events_and_their_ends(rng: &mut Rng) -> Vec<VerifiedEvent> {
    let mut all: Vec<VerifiedEvent> = Vec::new();
    for number in 0..EVENTS {
        let (kind, tags) = match rng.below(8) {
            0 => (30_023, vec![tag("d", rng.below(5)), tag("t", rng.below(50))]),
            1 => (10_002, vec![tag("r", "wss://relay.example.org")]),
            2 if number > 100 => {
                let author = keys(number).pubkey();
                let own = all.iter().rev().filter(|one| one.kind == Kind(1) && one.pubkey == author).take(20);
                (5, own.filter(|_| rng.one_in(3)).map(|one| tag("e", one.id)).collect())
            }
            _ => (1, vec![tag("t", rng.below(50)), tag("p", keys(rng.below(40)).pubkey())]),
        };
        let next = event(rng, number, kind, tags);
        all.push(next);
    }
    all
}

fn accept(events: &Events, some: &[VerifiedEvent]) -> Vec<Accepted> {
    some.chunks(50).flat_map(|some| events.accept(&some.iter().collect::<Vec<_>>()).unwrap()).collect()
}

/// Returns the events of a filter, page by page.
pub(crate) fn found(events: &Events, filter: &Filter, rows: usize) -> Vec<birdhouse_events::Event> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        from = events
            .page(Query::of(filter), from, rows, &mut |_, packed| {
                found.push(packed.to_event().unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        if from.is_none() {
            return found;
        }
    }
}

#[test]
fn half_of_the_events_are_gone_and_their_space_is_back() {
    let mut rng = Rng(11);
    let sent = events_and_their_ends(&mut rng);
    let folder = tempfile::tempdir().unwrap();
    let (store, events) = on_disk(folder.path());
    let mut model = Model::default();
    for some in sent.chunks(500) {
        accept(&events, some);
        for event in some {
            model.accept(event);
        }
    }
    let gone = EVENTS - model.0.len() as u64;
    assert!(gone > EVENTS * 2 / 5, "{gone} of {EVENTS} are gone");
    assert_eq!((events.live_events(), events.unreclaimed_events()), (EVENTS - gone, gone));
    let whole = bytes(&*store);
    let filters: Vec<Filter> = [r##"{"#t":["7"]}"##, r#"{"kinds":[5,10002]}"#, r#"{"since":2000,"until":3000}"#, "{}"]
        .iter()
        .map(|text| Filter::from_json(text, &birdhouse_events::FilterLimits::default()).unwrap())
        .collect();
    let answers: Vec<_> = filters.iter().map(|filter| model.find(filter)).collect();
    let mut steps = 0;
    while events.compact().unwrap() {
        let which = steps % filters.len();
        assert_eq!(found(&events, &filters[which], PAGE_ROWS), answers[which], "after {steps} steps");
        steps += 1;
    }
    assert!(steps > 8, "{steps} steps");
    let left = events.unreclaimed_events();
    assert!(left < EVENTS / 20, "{left} of {gone} are not given back");
    let live: HashSet<EventId> = model.0.iter().map(|event| event.id).collect();
    assert!(sent.iter().all(|event| events.has(&event.id).unwrap() == live.contains(&event.id)));
    let seqs: Vec<Seq> = (0..events.end().0).map(Seq).collect();
    let mut visited = 0;
    events
        .visit(&seqs, &mut |_, _| {
            visited += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(visited, EVENTS - gone, "what is gone is not visited");

    let other_folder = tempfile::tempdir().unwrap();
    let (other, live) = on_disk(other_folder.path());
    let stored = accept(&live, &model.0);
    assert!(stored.iter().all(|outcome| matches!(outcome, Accepted::Stored(_))));
    while live.compact().unwrap() {}
    let (given_back, never_had) = (bytes(&*store), bytes(&*other));
    println!("{whole} bytes before, {given_back} after, {never_had} without those that are gone");
    println!("{:?}\n{:?}", store.sizes(), other.sizes());
    assert!(given_back * 10 <= never_had * 11, "{given_back} bytes, and {never_had} without those that are gone");

    // The same after a restart, and after more of everything.
    drop((events, store));
    let (store, events) = on_disk(folder.path());
    assert_eq!(events.live_events(), EVENTS - gone);
    for (filter, answer) in filters.iter().zip(&answers) {
        assert_eq!(&found(&events, filter, PAGE_ROWS), answer);
    }
    for event in &events_and_their_ends(&mut Rng(12))[..600] {
        let outcome = events.accept(&[event]).unwrap();
        assert_eq!(matches!(outcome[0], Accepted::Stored(_)), model.accept(event));
    }
    while events.compact().unwrap() {}
    drop((events, store));
    let (_store, events) = on_disk(folder.path());
    for filter in &filters {
        assert_eq!(found(&events, filter, PAGE_ROWS), model.find(filter));
    }
}

/// Returns a store with events of which many are gone, not compacted, and the model of them.
/// Returns the steps in which the space of deleted events is given back beside events of this many bytes.
fn steps(content_bytes: usize) -> u64 {
    const UNIT_BITS: u32 = 6;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let events = Events::open(store, SECRET, options(1 << UNIT_BITS, UNIT_BITS)).unwrap();
    let note = |second: u64, kind, tags, bytes| {
        let (created_at, content) = (Timestamp(1000 + second), "x".repeat(bytes));
        UnsignedEvent { created_at, kind: Kind(kind), tags, content }.sign(&keys(1))
    };
    let unit: Vec<_> = (0..1 << UNIT_BITS).map(|second| note(second, 1, Vec::new(), content_bytes)).collect();
    accept(&events, &unit);
    // A third of them is deleted, and the rest has to move.
    let deleted = unit.iter().step_by(3).map(|event| tag("e", event.id)).collect();
    accept(&events, &[note(100, 5, deleted, 0)]);
    for second in 200..400 {
        accept(&events, &[note(second, 1, Vec::new(), 0)]);
    }
    let mut steps = 0;
    while events.compact().unwrap() {
        steps += 1;
    }
    assert_eq!(events.unreclaimed_events(), 0, "their space is back");
    steps
}

/// Readers and writers come between two steps.
#[test]
fn a_step_that_gives_space_back_copies_a_bounded_number_of_bytes() {
    const CONTENT_BYTES: usize = 200_000;
    const STEP_BYTES: usize = 1 << 20;
    let (small, large) = (steps(10), steps(CONTENT_BYTES));
    println!("{small} steps for small events, {large} for large ones");
    let moved = (64 - 22) * CONTENT_BYTES;
    // A step may go beyond its bytes by one event; the small events are copied in one step.
    assert!(large + 1 >= small + (moved / (STEP_BYTES + CONTENT_BYTES)) as u64, "{small}, {large}");
}

fn filled(seed: u64) -> (MemoryStore, Events, Model, Vec<VerifiedEvent>) {
    let (mut world, store) = (World::new(seed), MemoryStore::new());
    let events = Events::open(Arc::new(store.clone()), SECRET, options(11, 6)).unwrap();
    let (mut model, mut seen) = (Model::default(), Vec::<VerifiedEvent>::new());
    while events.end().0 < 300 {
        let event = world.event(&seen);
        events.accept(&[&event]).unwrap();
        model.accept(&event);
        seen.push(event);
    }
    (store, events, model, seen)
}

#[test]
fn power_cuts_and_failures_while_space_is_given_back_lose_nothing() {
    let (mut cuts, mut moved) = (0, 0);
    for seed in seeds(60) {
        let mut rng = Rng(seed);
        let (store, mut events, model, seen) = filled(seed);
        let expected = model.find(&Filter::default());
        assert_eq!(all(&events), expected);
        let before = events.unreclaimed_events();
        let mut store = store;
        for cut in 0..60 {
            store.fail_after(rng.below(7));
            let mut outcome = Ok(true);
            while matches!(outcome, Ok(true)) {
                outcome = events.compact();
                assert_eq!(all(&events), expected, "seed {seed}, cut {cut}");
            }
            store.fail_after(u64::MAX);
            if outcome.is_ok() {
                break;
            }
            cuts += 1;
            if rng.one_in(2) {
                store = store.crash(rng.next());
                events = Events::open(Arc::new(store.clone()), SECRET, options(11, 6)).unwrap();
            } else if events.failure().is_some() {
                events.reopen().unwrap();
            }
            assert_eq!(all(&events), expected, "seed {seed}, after cut {cut}");
        }
        while events.compact().unwrap() {}
        moved += before - events.unreclaimed_events();
        assert_eq!(all(&events), expected, "seed {seed}, at the end");
        for event in &seen {
            assert_eq!(events.has(&event.id).unwrap(), model.0.iter().any(|live| live.id == event.id));
        }
        assert_eq!(all(&Events::open(Arc::new(store.crash(7)), SECRET, options(11, 6)).unwrap()), expected);
    }
    println!("{cuts} cuts, {moved} events given back");
    assert!(cuts > 500 && moved > 3000, "{cuts} cuts, {moved} events given back");
}

#[test]
fn readers_find_every_event_while_units_move() {
    let sent = events_and_their_ends(&mut Rng(13));
    let folder = tempfile::tempdir().unwrap();
    let (_store, events) = on_disk(folder.path());
    accept(&events, &sent[..3000]);
    let expected = all(&events);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !is_done.load(Ordering::Acquire) || reads == 0 {
                assert!(all(&events) == expected, "read {reads}");
                reads += 1;
            }
            reads
        });
        while events.compact().unwrap() {}
        is_done.store(true, Ordering::Release);
        println!("{} reads", reader.join().unwrap());
    });
    while events.compact().unwrap() {}
    assert!(events.unreclaimed_events() < 400);
    assert_eq!(all(&events), expected);
}

fn expiring(number: u64, at: Option<u64>) -> VerifiedEvent {
    let tags = at.map(|at| tag("expiration", at)).into_iter().collect();
    event(&mut Rng(number), number, 1, tags)
}

#[test]
fn expired_events_are_deleted_in_the_order_of_their_times() {
    let store = MemoryStore::new();
    let open = |store: &MemoryStore| Events::open(Arc::new(store.clone()), SECRET, options(100, 6)).unwrap();
    let mut events = open(&store);
    // Every third event stays; the others expire at times that are not in the order of their numbers.
    let sent: Vec<VerifiedEvent> =
        (0..600).map(|number| expiring(number, (number % 3 > 0).then_some(5000 + number * 7 % 600))).collect();
    accept(&events, &sent);
    let expires = |event: &VerifiedEvent| event.expiration().map_or(u64::MAX, |at| at.0);
    let mut now = 4999;
    while now < 5700 {
        let store = if now % 2 == 0 { store.reopen() } else { store.crash(now) };
        events = open(&store);
        while events.expire(u32::try_from(now).unwrap()).unwrap() {}
        let live = sent.iter().filter(|event| expires(event) > now).count();
        assert_eq!(events.live_events(), live as u64, "at {now}");
        assert!(sent.iter().all(|event| events.has(&event.id).unwrap() == (expires(event) > now)), "at {now}");
        now += 50;
    }
    while events.compact().unwrap() {}
    assert!(events.unreclaimed_events() < 100, "{} are not given back", events.unreclaimed_events());
    assert_eq!(all(&events).len(), 200);
}

#[test]
fn a_failed_write_loses_no_expiration() {
    let mut failed = 0;
    for seed in 0..40 {
        let store = MemoryStore::new();
        let events = Events::open(Arc::new(store.clone()), SECRET, options(100, 6)).unwrap();
        accept(&events, &(0..90).map(|number| expiring(number, Some(5000 + number))).collect::<Vec<_>>());
        store.fail_after(seed % 5);
        if events.expire(5050).is_err() {
            failed += 1;
            store.fail_after(u64::MAX);
            events.reopen().unwrap();
        }
        let store = store.crash(seed);
        let events = Events::open(Arc::new(store), SECRET, options(100, 6)).unwrap();
        while events.expire(5050).unwrap() {}
        assert_eq!(events.live_events(), 39, "seed {seed}");
    }
    assert!(failed > 10, "{failed} failures");
}

/// Returns the manifest as version 2 wrote it.
fn of_version_2(manifest: &[u8]) -> Vec<u8> {
    let (head, words) = manifest.split_at(17);
    let words: Vec<&[u8]> = words.chunks(8).collect();
    // Number and offset of the log, tombstones, memtable, segments.
    let kept = [0, 1, 3, 4].into_iter().chain(9..words.len()).map(|word| words[word]);
    [&[2], &head[1..]].into_iter().chain(kept).collect::<Vec<_>>().concat()
}

#[test]
fn a_store_of_version_2_is_opened_and_its_events_expire() {
    let store = MemoryStore::new();
    let events = Events::open(Arc::new(store.clone()), SECRET, options(100, 16)).unwrap();
    let mut model = Model::default();
    let mut world = World::new(5);
    for _ in 0..40 {
        let event = world.event(&model.0);
        events.accept(&[&event]).unwrap();
        model.accept(&event);
    }
    let expired = expiring(7, Some(5000));
    accept(&events, std::slice::from_ref(&expired));
    while events.compact().unwrap() {}
    drop(events);
    // Version 2 had no schedule.
    store.clear(TABLES[0]).unwrap();
    store.publish(&of_version_2(&store.manifest().unwrap().unwrap())).unwrap();
    let events = Events::open(Arc::new(store), SECRET, options(100, 16)).unwrap();
    assert!(events.has(&expired.id).unwrap());
    while events.expire(5000).unwrap() {}
    assert!(!events.has(&expired.id).unwrap());
    assert_eq!(all(&events), model.find(&Filter::default()));
}
