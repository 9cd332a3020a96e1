//! Whether the disk must be expected to be waited for, as reads show that are done where their requests arrive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long no read is done on a thread of the runtime after one has waited there: of each second, on a machine whose
/// disk has to be asked for everything, every such thread waits for one read at most.
const PAUSE: Duration = Duration::from_secs(1);

/// What the whole server remembers of it.
#[derive(Debug)]
pub struct DiskStall {
    since: Instant,
    /// When reads may be tried again, in microseconds after `since`.
    until_us: AtomicU64,
}

impl DiskStall {
    /// Nothing has waited yet.
    pub fn new(now: Instant) -> Self {
        Self { since: now, until_us: AtomicU64::new(0) }
    }

    /// A read has waited.
    pub fn record(&self, now: Instant) {
        self.until_us.store(self.us(now + PAUSE), Ordering::Relaxed);
    }

    /// Whether one waited a short time ago.
    pub fn is_recent(&self, now: Instant) -> bool {
        self.us(now) < self.until_us.load(Ordering::Relaxed)
    }

    fn us(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.since).as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_remembered_for_a_while() {
        let start = Instant::now();
        let stall = DiskStall::new(start);
        assert!(!stall.is_recent(start));
        let waited = start + Duration::from_secs(5);
        stall.record(waited);
        assert!(stall.is_recent(waited));
        assert!(stall.is_recent(waited + PAUSE.mul_f64(0.99)));
        assert!(!stall.is_recent(waited + PAUSE));
    }
}
