//! Memory of the events store under events with as many tags as fit into a message, while they arrive and after a
//! restart. A program of its own, because other tests would share its memory.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use birdhouse_events::{Events, EventsOptions, Filter, Keys, Kind, Letter, Query, Tag, Timestamp, UnsignedEvent};
use birdhouse_store::{SegmentOptions, SegmentStore};

const EVENTS: u64 = 300;
const TAGS: u64 = 9_990;
/// Bound on the growth of private memory. The memtable has 32 MiB of it; the rest is one batch, and what the allocator
/// keeps.
const GROWTH_BYTES_MAX: u64 = 128 << 20;

/// Returns the private memory of this process, in bytes; file pages are not part of it.
fn private_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn open(folder: &std::path::Path) -> Events {
    let store = SegmentStore::open(folder, birdhouse_events::TABLES, SegmentOptions::default()).unwrap();
    Events::open(Arc::new(store), [1; 16], EventsOptions::default()).unwrap()
}

fn count(events: &Events, value: String) -> u64 {
    let filter = Filter { tags: vec![(Letter::parse("t").unwrap(), vec![value])], ..Filter::default() };
    events.explain(Query::of(&filter), 10).unwrap().cost.rows
}

#[test]
fn events_with_thousands_of_tags_take_bounded_memory_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let events = open(folder.path());
    let keys = Keys::from_secret([1; 32]).unwrap();
    let before = private_bytes();
    let mut peak = 0;
    for number in 0..EVENTS {
        let tags = (0..TAGS).map(|tag| Tag(vec!["t".to_owned(), format!("{:010}", number * TAGS + tag)])).collect();
        let (created_at, content) = (Timestamp(1_700_000_000 + number), String::new());
        let event = UnsignedEvent { created_at, kind: Kind(1), tags, content }.sign(&keys);
        events.accept(&[&event]).unwrap();
        peak = peak.max(private_bytes());
    }
    let grown = peak.saturating_sub(before);
    println!("{} MB after {EVENTS} events of {TAGS} tags", grown >> 20);
    assert!(grown < GROWTH_BYTES_MAX, "{} MB", grown >> 20);
    drop(events);
    let events = open(folder.path());
    let grown = private_bytes().saturating_sub(before);
    println!("{} MB after a restart", grown >> 20);
    assert!(grown < GROWTH_BYTES_MAX, "{} MB", grown >> 20);
    for number in [0, TAGS * EVENTS / 2, TAGS * EVENTS - 1] {
        assert_eq!(count(&events, format!("{number:010}")), 1, "{number}");
    }
}
