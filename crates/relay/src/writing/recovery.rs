//! Opens the events again after a failed write, with growing pauses, while queries are answered.
//!
//! After a failed write other events get the numbers of its events. So each `since_seq` is lowered to the first of
//! them, and the events that the store has all the same are passed on: none is lost, and one whose write had failed may
//! come twice.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::{Events, Seq};
use tracing::{info, warn};

use crate::fronts::Feed;
use crate::live::Hub;
use crate::worker::{Retry, Worker};
use crate::writing::ingest::Depot;

/// Interval of looks at the writer.
const PAUSE: Duration = Duration::from_secs(1);
/// Time without a failure after which the pauses are short again.
const WELL: Duration = Duration::from_mins(5);

/// Starts the thread.
pub(crate) fn start(depot: Arc<Depot>) -> Worker {
    Worker::start("recovery", move |wait| run(&depot, wait))
}

/// Looks until `wait` returns false.
fn run(depot: &Depot, wait: &dyn Fn(Duration) -> bool) {
    let (mut retry, mut failed) = (Retry::default(), Instant::now());
    while wait(PAUSE) {
        if depot.events.failure().is_none() {
            if failed.elapsed() > WELL {
                retry = Retry::default();
            }
            continue;
        }
        failed = Instant::now();
        if !wait(retry.pause()) {
            return;
        }
        match reopen(&depot.events, &depot.hub, &depot.feed) {
            Ok(()) => info!("opened the relay's events again; it stores events"),
            Err(error) => warn!(%error, "failed to open the relay's events again; trying again"),
        }
    }
}

/// Opens the events again. Subscriptions get those that are found again, although their write had failed: some for the
/// second time, for they may have had them before it failed.
pub(crate) fn reopen(events: &Events, hub: &Hub, feed: &Feed) -> birdhouse_events::Result<()> {
    events.reopen_and_notify(|found_again: Range<Seq>| {
        hub.number_again_from(found_again.start);
        let seqs: Vec<Seq> = (found_again.start.0..found_again.end.0).map(Seq).collect();
        events.visit(&seqs, &mut |seq, packed| {
            if let Some(event) = packed.to_event() {
                hub.publish_live(&event, Some(seq));
            }
            ControlFlow::Continue(())
        })?;
        feed.published(found_again.end);
        Ok(())
    })?;
    // Vanish requests that the failure interrupted.
    while events.vanish()? {}
    Ok(())
}
