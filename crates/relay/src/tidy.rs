//! Tidying beside everything else: a thread that merges what was sealed, and adds lists that an older index did not have.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_events::Events;
use tracing::{error, info};

use crate::worker::Worker;

/// How long it waits when there is nothing to do.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the thread.
pub(crate) fn start(events: Arc<Events>) -> Worker {
    Worker::start("tidy", move |wait| run(&events, wait))
}

/// `wait` says whether to go on.
fn run(events: &Events, wait: &dyn Fn(Duration) -> bool) {
    let mut unindexed = events.unindexed_events();
    if unindexed > 0 {
        info!(events = unindexed, "adding lists to the index; answers are complete meanwhile");
    }
    let mut pause = Duration::ZERO;
    while wait(pause) {
        pause = match events.compact() {
            Ok(true) => Duration::ZERO,
            Ok(false) => PAUSE,
            Err(error) => {
                error!(%error, "the index of events cannot be tidied: make room or mend the disk, then start again");
                return;
            }
        };
        if unindexed > 0 {
            unindexed = events.unindexed_events();
            info!(events = unindexed, "events whose lists are still to be added");
        }
    }
}
