//! Memory of the full-text index while it takes in many large events: after a restart, or when it is built again. A
//! program of its own, because other tests would share its memory.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use birdhouse_events::{EventLimits, Events, EventsOptions, Keys, Kind, SearchStorage, Timestamp, UnsignedEvent};
use birdhouse_store::{SegmentOptions, SegmentStore};

/// Events of the largest content, 12 MB of them: their tokens would be ten times as much.
const EVENTS: u64 = 48;
const CONTENT_BYTES: usize = 256 * 1024;
/// Bound on the growth of private memory: the segment that is being written and a merge, 32 MiB each, what waits for
/// them, and what the allocator keeps.
const GROWTH_BYTES_MAX: u64 = 96 << 20;

/// Returns the private memory of this process, in bytes; file pages are not part of it.
fn private_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Returns text of words that other events do not have.
fn text(number: u64) -> String {
    let mut text = String::with_capacity(CONTENT_BYTES + 16);
    let mut word = number << 32;
    while text.len() < CONTENT_BYTES - 8 {
        word += 1;
        let mixed = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        write!(text, "{mixed:x} ").unwrap();
    }
    text
}

#[test]
fn large_events_are_indexed_in_bounded_memory() {
    assert_eq!(EventLimits::default().content_bytes_max, CONTENT_BYTES);
    let folder = tempfile::tempdir().unwrap();
    let store = SegmentStore::open(folder.path(), birdhouse_events::TABLES, SegmentOptions::default()).unwrap();
    let search = SearchStorage::Folder(folder.path().join("search"));
    let events = Events::open(Arc::new(store), [1; 16], EventsOptions { search, ..EventsOptions::default() }).unwrap();
    let keys = Keys::from_secret([1; 32]).unwrap();
    for number in 0..EVENTS {
        let (created_at, content) = (Timestamp(1_700_000_000 + number), text(number));
        events.accept(&[&UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys)]).unwrap();
    }
    let (before, is_over) = (private_bytes(), AtomicBool::new(false));
    let peak = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = 0;
            while !is_over.load(Ordering::Relaxed) {
                peak = peak.max(private_bytes());
                thread::sleep(Duration::from_millis(1));
            }
            peak
        });
        while events.index_words(2048).unwrap() > 0 {}
        events.commit_words().unwrap();
        is_over.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    assert_eq!(events.words_watermark(), events.end());
    let grown = peak.saturating_sub(before);
    println!("{} MB beyond {} MB while {EVENTS} events are indexed", grown >> 20, before >> 20);
    assert!(grown < GROWTH_BYTES_MAX, "{} MB", grown >> 20);
}
