//! Pauses between attempts to read what cannot be read. Pure.

/// Seconds before the second attempt; each pause is twice as long as the one before.
const FIRST_S: u64 = 5;
/// The longest pause, in seconds.
const LONGEST_S: u64 = 60;

/// The pause after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    /// Time of the attempt, in seconds since 1970.
    failed_at: u64,
    pause_s: u64,
}

impl Retry {
    /// The pause after an attempt that failed, `before` being that before it.
    pub(super) fn after(before: Option<Self>, now: u64) -> Self {
        let pause_s = before.map_or(FIRST_S, |before| (before.pause_s * 2).min(LONGEST_S));
        Self { failed_at: now, pause_s }
    }

    /// True once the pause is over.
    pub(super) fn is_due(self, now: u64) -> bool {
        self.left_s(now) == 0
    }

    /// The seconds that are left. A clock that was set back ends the pause.
    pub(super) fn left_s(self, now: u64) -> u64 {
        now.checked_sub(self.failed_at).map_or(0, |waited| self.pause_s.saturating_sub(waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let (mut retry, mut now, mut pauses) = (Retry::after(None, 100), 100, Vec::new());
        for _ in 0..6 {
            let pause = retry.left_s(now);
            assert!(!retry.is_due(now + pause - 1) && retry.is_due(now + pause));
            pauses.push(pause);
            now += pause;
            retry = Retry::after(Some(retry), now);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60]);
    }

    #[test]
    fn a_clock_that_is_set_back_ends_a_pause() {
        assert!(Retry::after(None, 100).is_due(99));
    }
}
