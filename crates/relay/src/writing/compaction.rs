//! Compaction in the background: a thread that deletes what has expired or is not kept, merges segments, adds lists
//! that an older index did not have, and gives back the space of events that are gone. It rests after each piece of
//! work, so it takes half of a processor at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::{Error, Events};
use tracing::{error, info};

use crate::clock::now;
use crate::worker::{Heartbeat, Retry, Worker};
use crate::writing::retaining::Retaining;

/// Time between two checks when there is nothing to do.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest rest after a piece of work, which rests as long as it took.
const REST_MAX: Duration = Duration::from_secs(1);

/// Starts the thread.
pub(crate) fn start(events: Arc<Events>, mut retaining: Retaining, beat: Heartbeat) -> Worker {
    Worker::start("compaction", move |wait| run(&events, &mut retaining, &beat, wait))
}

/// Compacts until `wait` returns false.
fn run(events: &Events, retaining: &mut Retaining, beat: &Heartbeat, wait: &dyn Fn(Duration) -> bool) {
    let mut unindexed = events.unindexed_events();
    if unindexed > 0 {
        info!(events = unindexed, "adding lists to the index; answers are complete meanwhile");
    }
    let (mut pause, mut retry) = (Duration::ZERO, Retry::default());
    while wait(pause) {
        let began = Instant::now();
        let compacted = match step(events, retaining, &|| wait(Duration::ZERO)) {
            Err(Error::Stopped) => return,
            compacted => compacted,
        };
        beat.report(compacted.as_ref().err().map(ToString::to_string));
        pause = match compacted {
            Ok(is_more) => {
                retry = Retry::default();
                if is_more { began.elapsed().min(REST_MAX) } else { PAUSE }
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

/// Deletes some events that have expired or are not kept, and does a piece of compaction. Returns true if there may be
/// more.
fn step(events: &Events, retaining: &mut Retaining, go_on: &dyn Fn() -> bool) -> Result<bool, Error> {
    let has_expired = events.expire(now())?;
    let is_swept = retaining.step(events, now(), Instant::now());
    // A damaged event that cannot be judged stops nothing else.
    let has_compacted = events.compact_while(go_on)?;
    Ok(is_swept? || has_compacted || has_expired)
}
