//! Compaction in the background: a thread that merges segments, and adds lists that an older index did not have.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_events::Events;
use tracing::{error, info};

use crate::worker::Worker;

/// Time between two checks when there is nothing to do.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the thread.
pub(crate) fn start(events: Arc<Events>) -> Worker {
    Worker::start("compaction", move |wait| run(&events, wait))
}

/// Compacts until `wait` returns false.
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
                error!(%error, "failed to compact the index of events; make room or replace the disk, then restart");
                return;
            }
        };
        if unindexed > 0 {
            unindexed = events.unindexed_events();
            info!(events = unindexed, "adding lists to the index");
        }
    }
}
