//! Counts of the calls to the node: for whoever watches the server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::http::Lane;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    asked: AtomicU64,
    failures: AtomicU64,
    time_us: AtomicU64,
}

/// The calls until now. A batch is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCounts {
    /// All.
    pub calls: u64,
    /// Those that were not answered, or not as by a node that is well. What Core refuses is answered.
    pub failures: u64,
    /// Time until the answers, long polls left out.
    pub time: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    Failed,
}

impl Calls {
    pub(crate) fn count(&self, end: End, time: Duration, lane: Lane) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if end == End::Failed {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        if lane == Lane::Bounded {
            self.time_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> CallCounts {
        CallCounts {
            calls: self.asked.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            time: Duration::from_micros(self.time_us.load(Ordering::Relaxed)),
        }
    }
}
