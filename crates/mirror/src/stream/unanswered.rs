//! Events that the peer has not answered, and when each of them is given up. Pure: the time is an argument.
//!
//! A failure counts as a proof against an event if the peer has answered another event since the failure before: then
//! it is neither away nor out of order.

use std::collections::HashMap;
use std::time::Duration;

use birdhouse_events::EventId;

use crate::limits::{UNANSWERED_ATTEMPTS, UNANSWERED_KEPT, UNANSWERED_PAUSE, UNANSWERED_PAUSE_MAX, UNANSWERED_PROOFS};

/// Events without an answer, over all connections to a URL.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    of: HashMap<EventId, Failures>,
    /// Time of the last outcome of any event.
    answered: Duration,
}

/// Failures of one event.
#[derive(Debug, Clone, Copy)]
struct Failures {
    /// Attempts that failed by this event alone.
    attempts: u32,
    /// Those of them after which the peer had answered another event.
    proofs: u32,
    /// Time of the last failure.
    last: Duration,
    company: Company,
}

/// Events beside which another one is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Company {
    /// It was passed over, and the connection went on.
    Any,
    /// It may have ended a connection: alone it shows that.
    None,
}

/// The time from which an event may be sent again, and its company.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) at: Duration,
    pub(super) company: Company,
}

/// The next step with an event that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is sent again later.
    Again,
    /// It is given up.
    SetAside,
}

impl Unanswered {
    /// Notes the outcome of an event.
    pub(super) fn answered(&mut self, id: &EventId, now: Duration) {
        self.of.remove(id);
        self.answered = now;
    }

    /// Notes that the peer has an event.
    pub(super) fn forget(&mut self, id: &EventId) {
        self.of.remove(id);
    }

    /// Notes events that were under way together when the connection ended, by one of them or by none. Beyond
    /// [`UNANSWERED_KEPT`] those go whose last failure is the oldest: events that were deleted, replaced or expired
    /// meanwhile are never sent again.
    pub(super) fn suspect(&mut self, ids: &[EventId], now: Duration) {
        for id in ids {
            if self.of.len() >= UNANSWERED_KEPT && !self.of.contains_key(id) {
                let oldest = self.of.iter().min_by_key(|(_, failures)| failures.last).map(|(id, _)| *id);
                oldest.and_then(|oldest| self.of.remove(&oldest));
            }
            self.of.entry(*id).or_insert(Failures { attempts: 0, proofs: 0, last: now, company: Company::None });
        }
    }

    /// Notes a failure of an attempt that no other event can have caused.
    pub(super) fn failed(&mut self, id: &EventId, company: Company, now: Duration) -> Fate {
        self.suspect(&[*id], now);
        let Some(failures) = self.of.get_mut(id) else { return Fate::Again };
        failures.attempts += 1;
        failures.proofs += u32::from(self.answered > failures.last);
        (failures.last, failures.company) = (now, company);
        let is_proved = failures.proofs >= UNANSWERED_PROOFS;
        if !is_proved && (failures.proofs == 0 || failures.attempts < UNANSWERED_ATTEMPTS) {
            return Fate::Again;
        }
        self.of.remove(id);
        Fate::SetAside
    }

    /// Returns the number of attempts that failed by an event alone.
    pub(super) fn attempts(&self, id: &EventId) -> u32 {
        self.of.get(id).map_or(0, |failures| failures.attempts)
    }

    /// Returns the next turn of an event; `None` if it is sent as others are.
    pub(super) fn turn(&self, id: &EventId) -> Option<Turn> {
        let failures = self.of.get(id)?;
        let doubled = |before: u32| UNANSWERED_PAUSE.saturating_mul(1_u32.checked_shl(before).unwrap_or(u32::MAX));
        let pause = failures.attempts.checked_sub(1).map_or(Duration::ZERO, doubled);
        Some(Turn { at: failures.last + pause.min(UNANSWERED_PAUSE_MAX), company: failures.company })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const WRONG: EventId = EventId([1; 32]);
    const OTHER: EventId = EventId([2; 32]);

    fn due(unanswered: &Unanswered, id: &EventId) -> Option<Duration> {
        unanswered.turn(id).map(|turn| turn.at)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_event_is_given_up_after_two_failures_between_which_others_were_answered() {
        let mut unanswered = Unanswered::default();
        unanswered.suspect(&[WRONG, OTHER], seconds(1));
        assert_eq!(due(&unanswered, &OTHER), Some(seconds(1)), "it is sent again at once");
        unanswered.answered(&OTHER, seconds(2));
        assert_eq!(due(&unanswered, &OTHER), None);
        assert_eq!(unanswered.failed(&WRONG, Company::None, seconds(3)), Fate::Again);
        assert_eq!(due(&unanswered, &WRONG), Some(seconds(8)));
        assert_eq!(unanswered.failed(&WRONG, Company::None, seconds(8)), Fate::Again, "nothing else was answered");
        assert_eq!(due(&unanswered, &WRONG), Some(seconds(18)));
        unanswered.answered(&OTHER, seconds(9));
        assert_eq!(unanswered.failed(&WRONG, Company::None, seconds(18)), Fate::SetAside);
        assert_eq!(due(&unanswered, &WRONG), None);
    }

    #[test]
    fn a_first_failure_proves_nothing_and_a_peer_that_answers_nothing_has_no_event_given_up() {
        let mut unanswered = Unanswered::default();
        unanswered.answered(&OTHER, seconds(1));
        let mut now = seconds(2);
        for _ in 0..1000 {
            assert_eq!(unanswered.failed(&WRONG, Company::None, now), Fate::Again);
            let due = due(&unanswered, &WRONG).unwrap();
            assert!(due.saturating_sub(now) <= UNANSWERED_PAUSE_MAX);
            now = due;
        }
    }

    #[test]
    fn attempts_are_bounded_once_another_event_was_answered() {
        let mut unanswered = Unanswered::default();
        unanswered.failed(&WRONG, Company::None, seconds(1));
        unanswered.answered(&OTHER, seconds(2));
        let attempts = (2..100)
            .find(|attempt| unanswered.failed(&WRONG, Company::None, seconds(*attempt * 1000)) == Fate::SetAside);
        assert_eq!(attempts, Some(UNANSWERED_ATTEMPTS.into()));
    }

    fn id(number: usize) -> EventId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_be_bytes());
        EventId(id)
    }

    #[test]
    fn events_that_never_come_back_keep_none_from_being_given_up() {
        let mut unanswered = Unanswered::default();
        unanswered.suspect(&(0..UNANSWERED_KEPT).map(id).collect::<Vec<_>>(), seconds(1));
        let fates = (1..=3).map(|attempt| {
            unanswered.answered(&OTHER, seconds(2 * attempt));
            unanswered.failed(&WRONG, Company::None, seconds(2 * attempt + 1))
        });
        assert_eq!(fates.collect::<Vec<_>>(), [Fate::Again, Fate::Again, Fate::SetAside]);
    }

    #[test]
    fn suspects_are_bounded() {
        let mut unanswered = Unanswered::default();
        unanswered.suspect(&(0..2 * UNANSWERED_KEPT).map(id).collect::<Vec<_>>(), seconds(1));
        assert_eq!(unanswered.of.len(), UNANSWERED_KEPT);
        assert_eq!(unanswered.failed(&id(2 * UNANSWERED_KEPT), Company::Any, seconds(2)), Fate::Again);
    }
}
