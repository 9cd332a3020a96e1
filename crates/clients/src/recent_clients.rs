//! Clients that have asked lately. One alone may keep every processor busy; one among others may not.
//!
//! Two threads of one client on two processors cost everyone else milliseconds, so a client has half of the processors
//! while others ask.

use std::time::{Duration, Instant};

use crate::fair::ClientId;

/// Time for which a client counts after it has asked for a turn.
pub(crate) const RECENT: Duration = Duration::from_secs(1);

/// The last requests of two different clients for turns.
#[derive(Debug, Default)]
pub(crate) struct RecentClients {
    last: Option<(ClientId, Instant)>,
    /// The last request of another client than that one.
    other: Option<Instant>,
}

impl RecentClients {
    /// Notes that a client asks for a turn.
    pub(crate) fn asked(&mut self, client: ClientId, now: Instant) {
        if let Some((last, at)) = self.last
            && last != client
        {
            self.other = Some(at);
        }
        self.last = Some((client, now));
    }

    /// Returns `true` if two clients or more have asked in the last second.
    pub(crate) fn are_several(&self, now: Instant) -> bool {
        let is_recent = |at| now.saturating_duration_since(at) < RECENT;
        self.other.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_among_others_for_a_second_after_another_has_asked() {
        let (start, mut recent) = (Instant::now(), RecentClients::default());
        let after = |ms| start + Duration::from_millis(ms);
        let [one, other] = [1, 2].map(ClientId::Connection);
        recent.asked(one, after(0));
        recent.asked(one, after(100));
        assert!(!recent.are_several(after(100)));
        recent.asked(other, after(500));
        assert!(recent.are_several(after(500)));
        (600..2000).step_by(100).for_each(|at| recent.asked(one, after(at)));
        assert!(recent.are_several(after(1499)) && !recent.are_several(after(1500)));
        recent.asked(other, after(2000));
        assert!(recent.are_several(after(2000)));
    }
}
