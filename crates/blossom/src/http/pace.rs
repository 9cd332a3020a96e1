//! The speed of an upload: one that is too slow ends, and one that is too fast is read more slowly.

use std::time::Duration;

use crate::limits::Limits;

/// The bounds of an upload's speed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    rate_min: u64,
    rate_max: Option<u64>,
    grace: Duration,
}

/// Consequence of an upload's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    GoOn,
    /// Nothing is read meanwhile.
    Wait(Duration),
    TooSlow,
}

impl Pace {
    pub(super) fn of(limits: &Limits) -> Self {
        Self { rate_min: limits.upload_rate_min, rate_max: limits.upload_rate_max, grace: limits.upload_timeout }
    }

    /// Returns the consequence for an upload, by its bytes and the time since its beginning.
    pub(super) fn step(&self, bytes: u64, since: Duration) -> Step {
        let seconds = since.as_secs();
        if since > self.grace && bytes < self.rate_min.saturating_mul(seconds) {
            return Step::TooSlow;
        }
        let Some(rate) = self.rate_max.filter(|rate| *rate > 0) else { return Step::GoOn };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let due = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        match due.checked_sub(since) {
            Some(wait) if !wait.is_zero() => Step::Wait(wait),
            _ => Step::GoOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_keeps_between_two_speeds() {
        let pace = Pace { rate_min: 100, rate_max: Some(1000), grace: Duration::from_secs(10) };
        let step = |bytes, seconds| pace.step(bytes, Duration::from_secs(seconds));
        assert_eq!([step(0, 10), step(1099, 11), step(1100, 11)], [Step::GoOn, Step::TooSlow, Step::GoOn]);
        assert_eq!([step(2000, 1), step(2000, 2)], [Step::Wait(Duration::from_secs(1)), Step::GoOn]);
        let unbounded = Pace { rate_max: None, ..pace };
        assert_eq!(unbounded.step(u64::MAX, Duration::ZERO), Step::GoOn);
        assert_eq!(pace.step(u64::MAX, Duration::ZERO), Step::Wait(Duration::from_nanos(u64::MAX)));
    }
}
