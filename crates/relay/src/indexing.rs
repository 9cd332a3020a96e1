//! Fills the index of words (NIP-50), behind those who publish, in a thread of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::Events;
use tracing::{info, warn};

use crate::worker::Worker;

/// Events that are indexed at a stretch; then the thread rests as long as it worked, so that it takes half a core at most.
const PIECE_EVENTS: u64 = 2048;
/// Events after which the index is committed, and at the latest so long after an event came. Searches look through those between.
const COMMIT_EVENTS: u64 = 50_000;
const COMMIT_EVERY: Duration = Duration::from_secs(5);
/// How long it waits when there is nothing to do.
const PAUSE: Duration = Duration::from_secs(1);
/// And after a failure.
const FAILED_PAUSE: Duration = Duration::from_secs(30);
/// Fewer events that are not indexed are not worth a message.
const TOLD_EVENTS: u64 = 50_000;

/// Starts the thread, if there is something to search.
pub(crate) fn start(events: Arc<Events>) -> Option<Worker> {
    events.has_search().then(|| Worker::start("words", move |wait| run(&events, wait)))
}

/// `wait` says whether to go on.
fn run(events: &Events, wait: &dyn Fn(Duration) -> bool) {
    let (mut committed, mut uncommitted, mut is_told) = (Instant::now(), 0, false);
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
        pause = match left {
            Ok(left) => {
                if left >= TOLD_EVENTS && !is_told || left == 0 && is_told {
                    is_told = left > 0;
                    info!(events = left, "events whose words are still to be indexed");
                }
                if left == 0 { PAUSE } else { began.elapsed() }
            }
            Err(error) => {
                warn!(%error, "words cannot be indexed; trying again");
                FAILED_PAUSE
            }
        };
    }
}
