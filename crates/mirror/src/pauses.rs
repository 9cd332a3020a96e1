//! Pauses for which the peer asks (`rate-limited:`), each twice as long as the one before. Pure: the time is an
//! argument.

use std::time::Duration;

use crate::limits::{PAUSE, PAUSE_MAX, PAUSES_MAX};

/// Pauses in a row.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    count: u32,
    until: Option<Duration>,
}

impl Pauses {
    /// Returns the rest of the pause; `None` if there is none.
    pub(crate) fn left(&self, now: Duration) -> Option<Duration> {
        self.until.and_then(|until| until.checked_sub(now)).filter(|left| !left.is_zero())
    }

    /// Takes the reason of a refusal. Returns true if it asks for a pause, which has begun then, and there were not too
    /// many in a row.
    pub(crate) fn take(&mut self, reason: &str, now: Duration) -> bool {
        if !reason.starts_with("rate-limited:") || self.count >= PAUSES_MAX {
            return false;
        }
        // What was sent together is refused together, which is one pause.
        if self.left(now).is_none() {
            let pause = PAUSE.saturating_mul(1 << self.count).min(PAUSE_MAX);
            self.until = Some(now + pause);
            self.count += 1;
        }
        true
    }

    /// Notes that the peer has taken something: the next pause is the first one again.
    pub(crate) fn end(&mut self) {
        self.count = 0;
    }
}
