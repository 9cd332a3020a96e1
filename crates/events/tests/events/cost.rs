//! A REQ never scans: the work follows the number of rows returned, not the number of events stored.

use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use birdhouse_events::{
    Cost, Events, EventsOptions, Filter, Keys, Kind, Letter, Pubkey, Query, TABLES, Tag, Timestamp, UnsignedEvent,
    VerifiedEvent,
};
use birdhouse_store::{MemoryStore, SegmentOptions, SegmentStore};

use crate::world::sorted;

const SECRET: [u8; 16] = [9; 16];
const EVENTS: u64 = 12_000;
/// A viral note has a reaction in every other event, and an answer in one of twenty.
const VIRAL: &str = "viral";
/// Relay list of an author (NIP-65); replaceable.
const RELAY_LIST: Kind = Kind(10_002);
/// From here on, the first authors are silent.
const SILENT_FROM: u64 = 1000;

fn author(number: u64) -> Keys {
    let mut secret = [7; 32];
    secret[..8].copy_from_slice(&number.to_be_bytes());
    Keys::from_secret(secret).unwrap()
}

fn event(number: u64) -> VerifiedEvent {
    let (kind, subject) = match number % 20 {
        0 => (1, VIRAL.to_owned()),
        even if even.is_multiple_of(2) => (7, VIRAL.to_owned()),
        _ => (1, format!("note {}", number % 211)),
    };
    let who = if number < SILENT_FROM { number % 100 } else { 100 + number % 37 };
    let tags = [("e", subject), ("p", format!("person {}", number % 5))];
    let tags = tags.map(|(name, value)| Tag(vec![name.to_owned(), value])).to_vec();
    let (created_at, content) = (Timestamp(1000 + number), String::new());
    UnsignedEvent { created_at, kind: Kind(kind), tags, content }.sign(&author(who))
}

fn tag(letter: &str, values: impl IntoIterator<Item = String>) -> (Letter, Vec<String>) {
    (Letter::parse(letter).unwrap(), sorted(values.into_iter().collect()))
}

fn authors(numbers: std::ops::Range<u64>) -> Vec<Pubkey> {
    sorted(numbers.map(|number| author(number).pubkey()).collect())
}

#[test]
fn what_is_looked_at_follows_what_is_shown() {
    let store = Arc::new(MemoryStore::new());
    let events =
        Events::open(store, SECRET, EventsOptions { memtable_events: 1000, ..EventsOptions::default() }).unwrap();
    let all: Vec<VerifiedEvent> = (0..EVENTS).map(event).collect();
    for some in all.chunks(500) {
        events.accept(&some.iter().collect::<Vec<_>>()).unwrap();
        while events.compact().unwrap() {}
    }
    let cost = |filter: Filter, rows: usize| {
        let query = Query { end: events.end(), ..Query::of(&filter) };
        let explanation = events.explain(query, rows).unwrap();
        println!("{}: {explanation:?}", filter.shape());
        explanation.cost
    };
    let notes = Some(vec![Kind(1)]);
    let any = Filter::default();

    // The viral note is among the 76, with ten times as many reactions as answers.
    let subjects = || (0..75).map(|number| format!("note {number}")).chain([VIRAL.to_owned()]);
    let Cost { postings, events: seen, rows, .. } =
        cost(Filter { kinds: notes.clone(), tags: vec![tag("e", subjects())], ..any.clone() }, 100);
    assert!(rows == 100 && seen == 100 && postings <= 110, "{postings} {seen}");

    // Active authors: the newest events of all suffice.
    let Cost { postings, events: seen, rows, .. } =
        cost(Filter { kinds: notes.clone(), authors: Some(authors(100..137)), ..any.clone() }, 100);
    assert!(rows == 100 && seen <= 110 && postings <= 300, "{postings} {seen}");

    // Silent authors: the scan in vain is bounded, and then their lists are read.
    let Cost { postings, events: seen, rows, .. } =
        cost(Filter { kinds: notes.clone(), authors: Some(authors(0..100)), ..any.clone() }, 100);
    assert!(rows == 100 && seen <= 110 && postings <= 1024 + 110, "{postings} {seen}");

    // Few authors: no scan.
    let Cost { postings, events: seen, rows, .. } = cost(Filter { authors: Some(authors(0..3)), ..any.clone() }, 20);
    assert!(rows == 20 && seen <= 32 && postings <= 33, "{postings} {seen}");

    // Two letters: the query reads the shorter lists, not those of a person who is named by a fifth of all events.
    let both = vec![tag("e", ["note 7".to_owned()]), tag("p", ["person 3".to_owned()])];
    let Cost { postings, events: seen, rows, .. } = cost(Filter { tags: both, ..any.clone() }, 500);
    let named = all.iter().filter(|event| event.values("e").any(|value| value == "note 7")).count() as u64;
    assert!(rows > 0 && postings <= named && seen <= named, "{postings} {seen} of {named}");

    // A page in the past begins there.
    let Cost { postings, events: seen, rows, .. } =
        cost(Filter { kinds: notes, until: Some(Timestamp(3000)), ..any.clone() }, 50);
    assert!(rows == 50 && seen <= 50 && postings <= 51, "{postings} {seen}");

    // Relay lists: an author has one, so only those of these authors are read.
    let list = |number: u64| {
        let created_at = Timestamp(1000 + EVENTS + number);
        UnsignedEvent { created_at, kind: RELAY_LIST, tags: Vec::new(), content: String::new() }.sign(&author(number))
    };
    let relays: Vec<VerifiedEvent> = (0..300).map(list).collect();
    events.accept(&relays.iter().collect::<Vec<_>>()).unwrap();
    let of_some = Filter { kinds: Some(vec![RELAY_LIST]), authors: Some(authors(0..20)), ..any.clone() };
    let Cost { postings, events: seen, rows, .. } = cost(of_some, 500);
    assert_eq!((postings, seen, rows), (20, 20, 20));

    // A query by id reads the event and nothing else.
    let ids = Some(sorted(all[5..8].iter().map(|event| event.id).collect()));
    let Cost { postings, events: seen, rows, .. } = cost(Filter { ids, ..any }, 500);
    assert_eq!((postings, seen, rows), (0, 3, 3));
}

/// The page of a file that a checksum proves.
const PAGE_BYTES: u64 = 4096;

/// A query proves the pages that it reads. So those that fail beside a damaged page are those that read it.
#[test]
fn a_query_reads_no_postings_of_other_lists() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<VerifiedEvent> = (0..4000).map(event).collect();
    let events = on_disk(folder.path());
    for some in all.chunks(500) {
        events.accept(&some.iter().collect::<Vec<_>>()).unwrap();
    }
    drop(events);
    let filters = (0..137).map(|number| Filter { authors: Some(authors(number..number + 1)), ..Filter::default() });
    let filters: Vec<Filter> = filters.collect();
    let failures = |until: Option<Timestamp>| {
        let events = on_disk(folder.path());
        let read = |filter: &&Filter| {
            let filter = Filter { until, ..Filter::clone(filter) };
            events.page(Query::of(&filter), None, 20, &mut |_, _| ControlFlow::Continue(())).is_err()
        };
        filters.iter().filter(read).count()
    };
    assert_eq!(failures(None), 0);
    let file = OpenOptions::new().read(true).write(true).open(folder.path().join("arrays/posting")).unwrap();
    let pages = file.metadata().unwrap().len() / PAGE_BYTES;
    let mut failed = [0, 0];
    for page in 0..pages {
        let (mut byte, at) = ([0], page * PAGE_BYTES + 100);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        for (failed, until) in failed.iter_mut().zip([None, Some(Timestamp(1500))]) {
            *failed += failures(until);
        }
        file.write_all_at(&byte, at).unwrap();
    }
    println!("{failed:?} failures of 137 queries beside each of {pages} pages");
    // A list takes a page or two, and some are longer.
    assert!(pages > 30 && failed.iter().all(|failed| (100..500).contains(failed)), "{failed:?} with {pages} pages");
}

/// Opens events whose postings are in one segment.
fn on_disk(folder: &Path) -> Events {
    let store = Arc::new(SegmentStore::open(folder, TABLES, SegmentOptions::default()).unwrap());
    Events::open(store, SECRET, EventsOptions { memtable_events: 4000, ..EventsOptions::default() }).unwrap()
}
