//! Compaction in the background: a thread that merges segments, and adds lists that an older index did not have.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_events::Events;
use tracing::{error, info};

use crate::worker::{Heartbeat, Retry, Worker};

/// Time between two checks when there is nothing to do.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the thread.
pub(crate) fn start(events: Arc<Events>, beat: Heartbeat) -> Worker {
    Worker::start("compaction", move |wait| run(&events, &beat, wait))
}

/// Compacts until `wait` returns false.
fn run(events: &Events, beat: &Heartbeat, wait: &dyn Fn(Duration) -> bool) {
    let mut unindexed = events.unindexed_events();
    if unindexed > 0 {
        info!(events = unindexed, "adding lists to the index; answers are complete meanwhile");
    }
    let (mut pause, mut retry) = (Duration::ZERO, Retry::default());
    while wait(pause) {
        let compacted = events.compact();
        beat.report(compacted.as_ref().err().map(ToString::to_string));
        pause = match compacted {
            Ok(is_more) => {
                retry = Retry::default();
                if is_more { Duration::ZERO } else { PAUSE }
            }
            Err(error) => {
                error!(%error, "failed to compact the index of events; trying again");
                retry.pause()
            }
        };
        if unindexed > 0 {
            unindexed = events.unindexed_events();
            info!(events = unindexed, "adding lists to the index");
        }
    }
}
