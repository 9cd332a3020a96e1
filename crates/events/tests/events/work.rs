//! Work of the writer for requests that name much: it follows what is deleted, not the size of the events named.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_events::{
    Accepted, DeletedBy, Events, EventsOptions, Filter, Keys, Kind, Letter, Pace, Query, Tag, TagsBy, Timestamp,
    UnsignedEvent, VerifiedEvent,
};
use birdhouse_store::MemoryStore;
use nix::time::{ClockId, clock_gettime};

const SECRET: [u8; 16] = [9; 16];
/// Tags of the events that only take long to read.
const TAGS: u64 = 6000;
/// Processor time: far more than the work takes, and far less than reading the events takes.
const WORK_MAX: Duration = Duration::from_millis(300);

fn open(store: &Arc<MemoryStore>) -> Events {
    open_with(store, EventsOptions::default())
}

fn open_with(store: &Arc<MemoryStore>, options: EventsOptions) -> Events {
    Events::open(Arc::clone(store) as Arc<dyn birdhouse_store::Store>, SECRET, options).unwrap()
}

fn keys(author: u8) -> Keys {
    Keys::from_secret([author; 32]).unwrap()
}

fn event(author: u8, kind: Kind, second: u64, tags: Vec<Tag>) -> VerifiedEvent {
    let created_at = Timestamp(1000 + second);
    UnsignedEvent { created_at, kind, tags, content: String::new() }.sign(&keys(author))
}

fn tag(name: &str, value: &impl ToString) -> Tag {
    Tag(vec![name.to_owned(), value.to_string()])
}

/// Returns tags that no filter asks for, and that make an event long.
fn padding() -> impl Iterator<Item = Tag> {
    (0..TAGS).map(|number| tag("padding", &format!("{number:032}")))
}

/// Returns the processor time of this thread, which does all the work over a store in memory.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = cpu();
    let result = work();
    let took = cpu().checked_sub(start).unwrap();
    println!("{what}: {took:?}");
    assert!(took < WORK_MAX, "{what}: {took:?}");
    result
}

fn live(events: &Events, author: u8) -> u64 {
    let filter = Filter { authors: Some(vec![keys(author).pubkey()]), ..Filter::default() };
    events.explain(Query::of(&filter), usize::MAX).unwrap().cost.rows
}

#[test]
fn a_deleted_event_is_refused_at_the_first_of_a_thousand_requests() {
    let events = open(&Arc::default());
    let note = event(1, Kind(1), 0, Vec::new());
    for second in 1..300 {
        let tags = padding().chain([tag("e", &note.id)]).collect();
        events.accept(&[&event(1, Kind::DELETION, second, tags)]).unwrap();
    }
    let outcome = timed("a note that 300 requests of 6 000 tags delete", || events.accept(&[&note]).unwrap());
    assert_eq!(outcome, [Accepted::Deleted(DeletedBy::Author)]);
}

#[test]
fn a_deletion_request_reads_no_tags_of_what_it_deletes() {
    let events = open(&Arc::default());
    let me = keys(1).pubkey();
    let long: Vec<VerifiedEvent> = (0..200).map(|second| event(1, Kind(1), second, padding().collect())).collect();
    // Of two authors: a gift wrap is deleted by one of its recipients.
    let wraps: Vec<VerifiedEvent> =
        (0..200).map(|second| event(2, Kind::GIFT_WRAP, second, padding().chain([tag("p", &me)]).collect())).collect();
    let others = event(2, Kind::GIFT_WRAP, 500, padding().chain([tag("p", &keys(3).pubkey())]).collect());
    for event in long.iter().chain(&wraps).chain([&others]) {
        assert!(matches!(events.accept(&[event]).unwrap()[..], [Accepted::Stored(_)]));
    }
    let named = long.iter().chain(&wraps).chain([&others]);
    let request = event(1, Kind::DELETION, 1, named.map(|event| tag("e", &event.id)).collect());
    timed("a request that names 400 events of 6 000 tags", || events.accept(&[&request]).unwrap());
    assert_eq!((live(&events, 1), live(&events, 2)), (1, 1));
    assert_eq!(events.accept(&[&wraps[0]]).unwrap(), [Accepted::Deleted(DeletedBy::Recipient)]);
}

#[test]
fn a_vanish_request_is_carried_out_in_pieces_also_after_a_crash() {
    // More than one piece of them.
    const NOTES: u64 = 60_000;
    let store = Arc::<MemoryStore>::default();
    let events = open(&store);
    let notes: Vec<VerifiedEvent> = (0..NOTES).map(|second| event(1, Kind(1), second, Vec::new())).collect();
    for batch in notes.chunks(500) {
        events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
    }
    let everywhere = || vec![tag("relay", &"ALL_RELAYS")];
    let elsewhere = event(1, Kind::VANISH, 10, vec![tag("relay", &"wss://other.example")]);
    events.accept(&[&elsewhere]).unwrap();
    let request = event(1, Kind::VANISH, 1_000_000, everywhere());
    timed("a request to vanish", || events.accept(&[&request]).unwrap());
    assert!(live(&events, 1) > 1, "the first piece is not all");
    drop(events);
    let events = open(&store);
    assert_eq!(live(&events, 1), 1, "only the request is left");
    let earlier = event(1, Kind::VANISH, 5, everywhere());
    assert_eq!(events.accept(&[&notes[0], &earlier]).unwrap(), [Accepted::Deleted(DeletedBy::Author); 2]);
}

#[test]
fn a_flush_carries_out_the_requests_to_vanish_that_it_takes_from_the_memtable() {
    let store = Arc::<MemoryStore>::default();
    let small = || EventsOptions { memtable_events: 1000, ..EventsOptions::default() };
    let events = open_with(&store, small());
    let accept = |author, count| {
        let notes: Vec<VerifiedEvent> = (0..count).map(|second| event(author, Kind(1), second, Vec::new())).collect();
        for batch in notes.chunks(500) {
            events.accept(&batch.iter().collect::<Vec<_>>()).unwrap();
        }
    };
    // More than one piece of them.
    accept(1, 60_000);
    accept(2, 999);
    // It fills the memtable.
    events.accept(&[&event(1, Kind::VANISH, 1_000_000, vec![tag("relay", &"ALL_RELAYS")])]).unwrap();
    drop(events);
    assert_eq!(live(&open_with(&store, small()), 1), 1, "only the request is left");
}

#[test]
fn what_comes_again_behind_a_request_to_vanish_is_refused_and_not_called_a_duplicate() {
    let store = Arc::<MemoryStore>::default();
    let events = open(&store);
    let note = event(1, Kind(1), 1, Vec::new());
    let wrap = event(2, Kind::GIFT_WRAP, 1, vec![tag("p", &keys(1).pubkey())]);
    let other = event(2, Kind(1), 1, Vec::new());
    let request = event(1, Kind::VANISH, 10, vec![tag("relay", &"ALL_RELAYS")]);
    events.accept(&[&note, &wrap, &other]).unwrap();
    let [stored, answers @ ..] = &events.accept(&[&request, &note, &wrap, &other, &request]).unwrap()[..] else {
        panic!("an answer for each")
    };
    assert!(matches!(stored, Accepted::Stored(_)));
    let deleted = [DeletedBy::Author, DeletedBy::Recipient].map(Accepted::Deleted);
    assert_eq!(answers, [deleted, [Accepted::Duplicate; 2]].concat());
    assert_eq!((live(&events, 1), live(&events, 2)), (1, 1));
}

#[test]
fn a_deletion_request_that_vanished_in_the_same_batch_deletes_nothing_after_it() {
    let store = Arc::<MemoryStore>::default();
    let events = open(&store);
    let later = event(1, Kind(1), 20, Vec::new());
    let deletion = event(1, Kind::DELETION, 5, vec![tag("e", &later.id)]);
    let vanish = event(1, Kind::VANISH, 10, vec![tag("relay", &"ALL_RELAYS")]);
    let answers = events.accept(&[&deletion, &vanish, &later]).unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Accepted::Stored(_))), "{answers:?}");
    assert_eq!(live(&events, 1), 2, "the request to vanish, and the event after it");
}

/// Others who wait from the beginning.
#[derive(Debug)]
struct Impatient;

impl Pace for Impatient {
    fn is_over(&self) -> bool {
        true
    }
}

/// Returns the number of pages of a query, and of the events that they visit.
fn pages(events: &Events, query: Query<'_>) -> (u64, u64) {
    let (mut from, mut visited) = (None, 0);
    for pages in 1.. {
        from = events
            .page(query, from, usize::MAX, &mut |_, _| {
                visited += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        if from.is_none() {
            return (pages, visited);
        }
    }
    unreachable!("a query ends")
}

/// COUNT asks the lists for tags, REQ and negentropy ask the events.
#[test]
fn a_page_of_large_events_has_a_bound_of_bytes_and_ends_when_others_wait() {
    const LARGE: u64 = 40;
    const CONTENT_BYTES: u64 = 100_000;
    /// Work of a page, in postings, and bytes that count as one; by their number 512 events would fit.
    const WORK_MAX: u64 = 4096;
    const BYTES_PER_WORK: u64 = 64;
    let events = open(&Arc::default());
    let content = "x".repeat(CONTENT_BYTES.try_into().unwrap());
    for second in 0..LARGE {
        let (created_at, tags, content) = (Timestamp(second), vec![tag("t", &"a")], content.clone());
        events.accept(&[&UnsignedEvent { created_at, kind: Kind(1), tags, content }.sign(&keys(1))]).unwrap();
    }
    let by_tag = Filter { tags: vec![(Letter::parse("t").unwrap(), vec!["a".to_owned()])], ..Filter::default() };
    for (filter, tags) in [(&by_tag, TagsBy::List), (&by_tag, TagsBy::Event), (&Filter::default(), TagsBy::Event)] {
        let query = Query { tags, ..Query::of(filter) };
        assert_eq!(pages(&events, query), (1, LARGE), "{tags:?}");
        let (count, visited) = pages(&events, Query { work_max: WORK_MAX, ..query });
        println!("{tags:?}: {count} pages");
        // A page that has read its bytes ends with the next event.
        assert!(count >= LARGE * CONTENT_BYTES / (BYTES_PER_WORK * WORK_MAX + CONTENT_BYTES), "{tags:?}: {count}");
        assert_eq!(visited, LARGE);
        let (count, visited) = pages(&events, Query { pace: Some(&Impatient), ..query });
        assert!(count >= LARGE && visited == LARGE, "{tags:?}: one event at a time: {count}, {visited}");
    }
}
