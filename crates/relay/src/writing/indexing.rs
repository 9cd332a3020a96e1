//! Fills the full-text index (NIP-50) in a background thread, behind the events that are published.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::Events;
use tracing::{info, warn};

use crate::worker::{Heartbeat, Worker};

/// Events that are indexed at a stretch; then the thread rests as long as it worked, so it takes half a core at most.
const PIECE_EVENTS: u64 = 2048;
/// Events after which the index is committed.
const COMMIT_EVENTS: u64 = 50_000;
/// Longest time from an event to its commit. Searches scan the events that are not committed.
const COMMIT_EVERY: Duration = Duration::from_secs(5);
/// Time between two checks when there is nothing to do.
const PAUSE: Duration = Duration::from_secs(1);
/// Time until the next attempt after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(30);
/// A smaller backlog is not worth a message.
const REPORTED_EVENTS: u64 = 50_000;

/// Starts the thread, if there is something to search.
pub(crate) fn start(events: Arc<Events>, beat: Heartbeat) -> Option<Worker> {
    events.has_search().then(|| Worker::start("words", move |wait| run(&events, &beat, wait)))
}

/// Indexes until `wait` returns false.
fn run(events: &Events, beat: &Heartbeat, wait: &dyn Fn(Duration) -> bool) {
    let (mut committed, mut uncommitted, mut is_reported) = (Instant::now(), 0, false);
    let mut pause = Duration::ZERO;
    while wait(pause) {
        let began = Instant::now();
        let is_late = uncommitted >= COMMIT_EVENTS || began.duration_since(committed) >= COMMIT_EVERY;
        let left = events.index_words(PIECE_EVENTS).and_then(|left| {
            uncommitted += PIECE_EVENTS;
            if is_late {
                events.commit_words()?;
                (committed, uncommitted) = (Instant::now(), 0);
            }
            Ok(left)
        });
        beat.report(left.as_ref().err().map(ToString::to_string));
        pause = match left {
            Ok(left) => {
                if left >= REPORTED_EVENTS && !is_reported || left == 0 && is_reported {
                    is_reported = left > 0;
                    info!(events = left, "indexing words of events");
                }
                if left == 0 { PAUSE } else { began.elapsed() }
            }
            Err(error) => {
                warn!(%error, "failed to index words; trying again");
                FAILED_PAUSE
            }
        };
    }
}
