//! Tracks whether recent inline reads blocked on the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time without inline reads on the runtime's threads after one blocked. On a machine whose file cache is cold, each
/// such thread then blocks for at most one read a second.
const PAUSE: Duration = Duration::from_secs(1);

/// The last stall of the disk, for the whole server.
#[derive(Debug)]
pub struct DiskStall {
    since: Instant,
    /// The end of the pause, in microseconds after `since`.
    until_us: AtomicU64,
}

impl DiskStall {
    /// Returns the state before any stall.
    pub fn new(now: Instant) -> Self {
        Self { since: now, until_us: AtomicU64::new(0) }
    }

    /// Records that a read blocked on the disk.
    pub fn record(&self, now: Instant) {
        self.until_us.store(self.us(now + PAUSE), Ordering::Relaxed);
    }

    /// Returns `true` for one second after a stall.
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
    fn stall_is_remembered_for_the_pause() {
        let start = Instant::now();
        let stall = DiskStall::new(start);
        assert!(!stall.is_recent(start));
        let stalled = start + Duration::from_secs(5);
        stall.record(stalled);
        assert!(stall.is_recent(stalled));
        assert!(stall.is_recent(stalled + PAUSE.mul_f64(0.99)));
        assert!(!stall.is_recent(stalled + PAUSE));
    }
}
