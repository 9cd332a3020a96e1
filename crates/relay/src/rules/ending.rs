//! A thread that ends the rules whose time is over.
//!
//! Rejected: comparing the time at each look-up. It would read a clock for every event and every connection, and the
//! end of a ban would have no entry in the audit log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::{RuleBook, Rules};
use crate::clock::now;
use crate::worker::{Heartbeat, Retry, Worker};

/// Interval of looks at the clock.
const PAUSE: Duration = Duration::from_secs(1);

/// The thread. Dropping it ends the thread.
pub struct Ending {
    _worker: Worker,
}

impl Ending {
    /// Ends what is over now, then starts the thread. Waits for the disk.
    pub fn start(book: &Arc<RuleBook>) -> Self {
        Self::reporting(book, Heartbeat::new(Instant::now()))
    }

    /// Does as [`Self::start`], and reports failures.
    pub(crate) fn reporting(book: &Arc<RuleBook>, beat: Heartbeat) -> Self {
        let mut retry = Retry::default();
        let first = end(book, &mut retry, &beat);
        let book = Arc::clone(book);
        Self { _worker: Worker::start("rules", move |wait| run(&book, first, retry, &beat, wait)) }
    }
}

/// Looks until `wait` returns false.
fn run(book: &RuleBook, mut pause: Duration, mut retry: Retry, beat: &Heartbeat, wait: &dyn Fn(Duration) -> bool) {
    let (mut seen, mut earliest) = (None::<Arc<Rules>>, None);
    while wait(pause) {
        let rules = book.current();
        if !seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &rules)) {
            earliest = rules.earliest_end();
            seen = Some(rules);
        }
        let is_due = earliest.is_some_and(|until| until < now().into());
        pause = if is_due {
            end(book, &mut retry, beat)
        } else {
            beat.report(None);
            PAUSE
        };
    }
}

/// Ends some of what is over; returns the pause until the next attempt.
fn end(book: &RuleBook, retry: &mut Retry, beat: &Heartbeat) -> Duration {
    let ended = book.end_due(now().into());
    beat.report(ended.as_ref().err().map(ToString::to_string));
    match ended {
        Ok(0) => PAUSE,
        Ok(rules) => {
            info!(rules, "ended rules whose time is over");
            *retry = Retry::default();
            Duration::ZERO
        }
        Err(error) => {
            warn!(%error, "failed to end rules whose time is over; trying again");
            retry.pause()
        }
    }
}
