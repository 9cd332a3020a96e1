//! News for front ends in other processes, which they must have at once: that events were published, and ephemeral
//! events, which are in no store.
//!
//! A front end asks for what comes after its offset, and the answer waits until there is something. It finds published
//! events in the store; the feed has their number alone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use birdhouse_events::{Event, Seq};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Ephemeral events that are kept for front ends, and their bytes. A front end that is further behind loses some, as a
/// client may that connects later.
const EPHEMERAL_MAX: usize = 4096;
const EPHEMERAL_BYTES_MAX: usize = 4 << 20;

/// An offset in the feed of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FeedOffset {
    /// Distinguishes this process from earlier ones. Another one's places mean nothing here.
    pub run: u64,
    /// Number of the next event that will be published.
    pub end: u64,
    /// Number of the next ephemeral event.
    pub ephemeral: u64,
}

/// The feed of this process.
#[derive(Debug)]
pub(crate) struct Feed {
    run: u64,
    state: Mutex<State>,
    /// Counts the changes of the state.
    changes: watch::Sender<u64>,
    /// Set by the first question: without front ends nothing is kept for them.
    is_read: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    end: u64,
    /// Number of the first ephemeral event that is kept.
    first: u64,
    ephemeral: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

// === impl Feed ===

impl Feed {
    /// Returns the feed of a process, which this number distinguishes.
    pub(crate) fn new(run: u64, end: Seq) -> Self {
        let state = Mutex::new(State { end: end.0, ..State::default() });
        Self { run, state, changes: watch::Sender::new(0), is_read: AtomicBool::new(false) }
    }

    /// Reports that the events below `end` are published.
    pub(crate) fn published(&self, end: Seq) {
        self.state.lock().end = end.0;
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Returns the number of the next event that will be published: those below are durable.
    pub(crate) fn end(&self) -> Seq {
        Seq(self.state.lock().end)
    }

    /// Waits until events from this number on are published.
    pub(crate) async fn published_beyond(&self, seq: Seq) {
        let mut changes = self.changes.subscribe();
        loop {
            let _ = changes.borrow_and_update();
            if self.end() > seq {
                return;
            }
            // The sender lives as long as the feed.
            let _ = changes.changed().await;
        }
    }

    /// Adds an ephemeral event. Returns false if nobody reads the feed.
    pub(crate) fn add_ephemeral(&self, event: &Event) -> bool {
        if !self.is_read.load(Ordering::Relaxed) {
            return false;
        }
        let mut json = Vec::new();
        event.write_json(&mut json);
        let mut state = self.state.lock();
        state.bytes += json.len();
        state.ephemeral.push_back(json.into());
        while state.ephemeral.len() > EPHEMERAL_MAX || state.bytes > EPHEMERAL_BYTES_MAX {
            let Some(oldest) = state.ephemeral.pop_front() else { break };
            (state.bytes, state.first) = (state.bytes - oldest.len(), state.first + 1);
        }
        drop(state);
        self.changes.send_modify(|changes| *changes += 1);
        true
    }

    /// Returns what comes after an offset, as [`encode`] does; waits for it.
    pub(crate) async fn after(&self, offset: FeedOffset) -> Vec<u8> {
        self.is_read.store(true, Ordering::Relaxed);
        let mut changes = self.changes.subscribe();
        loop {
            let _ = changes.borrow_and_update();
            if let Some(page) = self.page(offset) {
                return page;
            }
            // The sender lives as long as the feed.
            let _ = changes.changed().await;
        }
    }

    fn page(&self, offset: FeedOffset) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let next = state.first + state.ephemeral.len() as u64;
        let now = FeedOffset { run: self.run, end: state.end, ephemeral: next };
        if offset == now {
            return None;
        }
        // Another process's front end begins here.
        let from = if offset.run == self.run { offset.ephemeral } else { next };
        let skipped = usize::try_from(from.saturating_sub(state.first)).unwrap_or(usize::MAX);
        Some(encode(now, state.ephemeral.iter().skip(skipped).map(AsRef::as_ref)))
    }
}

/// Encodes a page of the feed: in the first line the offset after it, then one ephemeral event a line, as JSON.
fn encode<'a>(offset: FeedOffset, events: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut page = serde_json::to_vec(&offset).expect("numbers are JSON");
    for event in events {
        page.push(b'\n');
        page.extend_from_slice(event);
    }
    page
}

/// Decodes a page of the feed; `None` if it is none.
pub(super) fn decode(page: &[u8]) -> Option<(FeedOffset, Vec<Event>)> {
    let mut lines = std::str::from_utf8(page).ok()?.split('\n');
    let offset = serde_json::from_str(lines.next()?).ok()?;
    let events = lines.map(|line| Event::from_json(line).ok());
    Some((offset, events.collect::<Option<_>>()?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
    use tokio::time::timeout;

    use super::*;

    fn event(number: u64) -> Event {
        let unsigned =
            UnsignedEvent { created_at: Timestamp(number), kind: Kind(20_001), tags: Vec::new(), content: "\n".into() };
        unsigned.sign(&Keys::from_secret([1; 32]).unwrap()).event().clone()
    }

    async fn read(feed: &Feed, offset: FeedOffset) -> (FeedOffset, Vec<Event>) {
        decode(&timeout(Duration::from_secs(10), feed.after(offset)).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_reader_gets_each_ephemeral_event_once_and_waits_for_the_next() {
        let feed = Feed::new(7, Seq(3));
        assert!(!feed.add_ephemeral(&event(0)));
        let (offset, events) = read(&feed, FeedOffset::default()).await;
        assert_eq!((offset, events), (FeedOffset { run: 7, end: 3, ephemeral: 0 }, Vec::new()), "nobody read before");
        assert!(timeout(Duration::from_millis(20), feed.after(offset)).await.is_err(), "there is nothing");
        feed.add_ephemeral(&event(1));
        feed.add_ephemeral(&event(2));
        let (next, events) = read(&feed, offset).await;
        assert_eq!((next.ephemeral, events), (2, vec![event(1), event(2)]));
        let waits = feed.after(next);
        let publishes = async {
            tokio::task::yield_now().await;
            feed.published(Seq(4));
        };
        let (page, ()) = tokio::join!(waits, publishes);
        assert_eq!(decode(&page).unwrap(), (FeedOffset { end: 4, ..next }, Vec::new()));
    }

    #[tokio::test]
    async fn a_reader_that_is_far_behind_loses_the_oldest_and_one_of_another_process_all() {
        let feed = Feed::new(7, Seq(0));
        let (offset, _) = read(&feed, FeedOffset::default()).await;
        let count = EPHEMERAL_MAX as u64 + 5;
        assert!((0..count).all(|number| feed.add_ephemeral(&event(number % 3))));
        let (next, events) = read(&feed, offset).await;
        assert_eq!((next.ephemeral, events.len()), (count, EPHEMERAL_MAX));
        let (_, events) = read(&feed, FeedOffset { run: 8, ..offset }).await;
        assert!(events.is_empty());
    }

    #[test]
    fn what_is_no_page_is_refused() {
        assert!(
            [&b""[..], b"{}", b"{\"run\":1,\"end\":1,\"ephemeral\":1}\n{}", b"\xff"]
                .iter()
                .all(|page| decode(page).is_none())
        );
    }
}
