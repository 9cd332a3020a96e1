//! Counts of the calls to the node, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::http::Lane;

/// Counters of calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    asked: AtomicU64,
    failures: AtomicU64,
    time_us: AtomicU64,
}

/// Figures on the calls so far. A batch counts as one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCounts {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls without an answer, or with HTTP status 401, 403 or 503. A refusal by Core counts as an answer.
    pub failures: u64,
    /// The sum of the times until the answers, without long polls.
    pub time: Duration,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    Failed,
}

impl Calls {
    /// Counts a call that took `time`.
    pub(crate) fn count(&self, end: End, time: Duration, lane: Lane) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if end == End::Failed {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        if lane == Lane::Bounded {
            self.time_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Returns the figures so far.
    pub(crate) fn counts(&self) -> CallCounts {
        CallCounts {
            calls: self.asked.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            time: Duration::from_micros(self.time_us.load(Ordering::Relaxed)),
        }
    }
}
