//! Pauses between the attempts of a stream to connect, each twice as long as the one before, and up to a quarter longer
//! by chance: peers that ended together come back one by one. Pure: chance is an argument.

use std::time::Duration;

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the pause after another failure.
    pub(super) fn next(&mut self, chance: u32) -> Duration {
        let pause = BACKOFF_MIN.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        (pause + pause.mul_f64(f64::from(chance) / f64::from(u32::MAX) / 4.0)).min(BACKOFF_MAX)
    }

    /// Makes the next pause the first one.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the number of failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_anew() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..12).map(|_| backoff.next(0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        let last = (0..100).map(|_| backoff.next(u32::MAX)).max();
        assert_eq!(last, Some(BACKOFF_MAX));
        backoff.reset();
        assert_eq!(backoff.next(u32::MAX).as_millis(), 1250);
    }
}
