//! Opens the events again after a failed write, with growing pauses, while queries are answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::Events;
use tracing::{info, warn};

use crate::worker::{Retry, Worker};

/// Interval of looks at the writer.
const PAUSE: Duration = Duration::from_secs(1);
/// Time without a failure after which the pauses are short again.
const WELL: Duration = Duration::from_mins(5);

/// Starts the thread.
pub(crate) fn start(events: Arc<Events>) -> Worker {
    Worker::start("recovery", move |wait| run(&events, wait))
}

/// Looks until `wait` returns false.
fn run(events: &Events, wait: &dyn Fn(Duration) -> bool) {
    let (mut retry, mut failed) = (Retry::default(), Instant::now());
    while wait(PAUSE) {
        if events.failure().is_none() {
            if failed.elapsed() > WELL {
                retry = Retry::default();
            }
            continue;
        }
        failed = Instant::now();
        if !wait(retry.pause()) {
            return;
        }
        match reopen(events) {
            Ok(()) => info!("opened the relay's events again; it stores events"),
            Err(error) => warn!(%error, "failed to open the relay's events again; trying again"),
        }
    }
}

fn reopen(events: &Events) -> birdhouse_events::Result<()> {
    events.reopen()?;
    // Vanish requests that the failure interrupted.
    while events.vanish()? {}
    Ok(())
}
