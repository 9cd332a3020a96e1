//! Events that are sent to the peer, each until its OK. Pure: the time is an argument.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use birdhouse_events::EventId;

use crate::limits::{QUEUED_IDS_MAX, UPLOAD_READ, UPLOADS_IN_FLIGHT};
use crate::pauses::Pauses;

/// An event as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) id: EventId,
    pub(crate) json: String,
}

/// Events on their way.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    ids: VecDeque<EventId>,
    /// The same ids: the peer may say twice that it lacks one.
    waiting: HashSet<EventId>,
    /// Read, and not sent yet.
    ready: VecDeque<Outgoing>,
    /// Sent, and not answered.
    in_flight: HashMap<EventId, InFlight>,
    /// Number of the next event that is sent.
    next: u64,
    /// The highest number that was answered.
    answered: Option<u64>,
    pauses: Pauses,
}

/// An event that is sent and not answered.
#[derive(Debug)]
struct InFlight {
    outgoing: Outgoing,
    number: u64,
    since: Duration,
}

/// The outcome of an event that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Accepted,
    Refused,
    /// It is sent again later.
    Later,
    /// It was not sent, or its outcome is known.
    Unasked,
}

impl Upload {
    /// True while more ids may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.ids.len() < QUEUED_IDS_MAX
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.ids.is_empty() && self.ready.is_empty() && self.in_flight.is_empty()
    }

    /// Returns the number of events that are sent and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// True while an answer is owed.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(crate) fn add(&mut self, ids: impl IntoIterator<Item = EventId>) {
        self.ids.extend(ids.into_iter().filter(|id| self.waiting.insert(*id)));
    }

    /// Returns the ids of the events that are to be read now; none while enough are read.
    pub(crate) fn next_reads(&mut self) -> Vec<EventId> {
        if !self.ready.is_empty() || self.in_flight.len() >= UPLOADS_IN_FLIGHT {
            return Vec::new();
        }
        let next: Vec<EventId> = self.ids.drain(..self.ids.len().min(UPLOAD_READ)).collect();
        for id in &next {
            self.waiting.remove(id);
        }
        next
    }

    pub(crate) fn read(&mut self, events: impl IntoIterator<Item = Outgoing>) {
        self.ready.extend(events);
    }

    /// Returns the next event to send, if one may be sent now.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Outgoing> {
        if self.in_flight.len() >= UPLOADS_IN_FLIGHT || self.pause(now).is_some() {
            return None;
        }
        let outgoing = self.ready.pop_front()?;
        Some(self.send(outgoing, now))
    }

    /// Takes events out of those that wait to be sent; returns their ids.
    pub(crate) fn leave_out(&mut self, is_left_out: impl Fn(&EventId) -> bool) -> Vec<EventId> {
        let left_out: Vec<EventId> = self.ready.iter().map(|one| one.id).filter(is_left_out).collect();
        if !left_out.is_empty() {
            self.ready.retain(|one| !left_out.contains(&one.id));
        }
        left_out
    }

    /// Puts an event in flight, and returns it.
    pub(crate) fn send(&mut self, outgoing: Outgoing, now: Duration) -> Outgoing {
        let sent = outgoing.clone();
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(outgoing.id, InFlight { outgoing, number, since: now });
        sent
    }

    /// Returns the events that were sent before a time and are not answered, although one that was sent later is.
    pub(crate) fn passed_over(&self, before: Duration) -> Vec<EventId> {
        let is_passed_over = |sent: &InFlight| sent.since < before && Some(sent.number) < self.answered;
        self.in_flight.iter().filter(|(_, sent)| is_passed_over(sent)).map(|(id, _)| *id).collect()
    }

    /// True if an event was sent after a time and is not answered.
    pub(crate) fn waits_since(&self, time: Duration) -> bool {
        self.in_flight.values().any(|sent| sent.since > time)
    }

    /// Returns the events that are sent and not answered.
    pub(crate) fn unanswered(&self) -> Vec<EventId> {
        self.in_flight.keys().copied().collect()
    }

    /// True if an event is sent and not answered.
    pub(crate) fn is_in_flight(&self, id: &EventId) -> bool {
        self.in_flight.contains_key(id)
    }

    fn answer(&mut self, id: &EventId) -> Option<Outgoing> {
        let InFlight { outgoing, number, .. } = self.in_flight.remove(id)?;
        self.answered = self.answered.max(Some(number));
        Some(outgoing)
    }

    /// Returns the time for which nothing is sent.
    pub(crate) fn pause(&self, now: Duration) -> Option<Duration> {
        if self.ready.is_empty() && self.ids.is_empty() {
            return None;
        }
        self.pauses.left(now)
    }

    /// True while the peer has asked for a pause.
    pub(crate) fn is_pausing(&self, now: Duration) -> bool {
        self.pauses.left(now).is_some()
    }

    /// Takes the peer's outcome.
    pub(crate) fn accepted(&mut self, id: &EventId) -> Sent {
        if self.answer(id).is_none() {
            return Sent::Unasked;
        }
        self.pauses.end();
        Sent::Accepted
    }

    /// Takes the peer's refusal.
    pub(crate) fn refused(&mut self, id: &EventId, reason: &str, now: Duration) -> Sent {
        let Some(outgoing) = self.answer(id) else { return Sent::Unasked };
        if !self.pauses.take(reason, now) {
            return Sent::Refused;
        }
        self.ready.push_back(outgoing);
        Sent::Later
    }

    /// Takes an event back that is in flight.
    pub(crate) fn take_back(&mut self, id: &EventId) -> Option<Outgoing> {
        self.answer(id)
    }

    /// True if nothing waits to be read or sent.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.ids.is_empty() && self.ready.is_empty()
    }

    /// Takes a request of the peer to wait.
    pub(crate) fn slow_down(&mut self, now: Duration) {
        self.pauses.take("rate-limited:", now);
    }

    /// Takes a refusal after which the event is sent again at once, once.
    pub(crate) fn again(&mut self, id: &EventId) -> bool {
        let Some(outgoing) = self.answer(id) else { return false };
        self.ready.push_front(outgoing);
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::limits::{PAUSE_MAX, PAUSES_MAX};

    fn outgoing(number: u8) -> Outgoing {
        Outgoing { id: EventId([number; 32]), json: number.to_string() }
    }

    #[test]
    fn each_event_is_in_flight_until_its_outcome_comes() {
        let mut upload = Upload::default();
        upload.add((0..200).map(|n| EventId([n; 32])));
        assert_eq!(upload.next_reads().len(), UPLOAD_READ);
        upload.read((0..100).map(outgoing));
        assert!(upload.next_reads().is_empty());
        let sent = std::iter::from_fn(|| upload.next(Duration::ZERO)).count();
        assert_eq!(sent, UPLOADS_IN_FLIGHT);
        assert_eq!(upload.accepted(&EventId([0; 32])), Sent::Accepted);
        assert_eq!(upload.accepted(&EventId([0; 32])), Sent::Unasked);
        assert_eq!(upload.refused(&EventId([1; 32]), "blocked: no", Duration::ZERO), Sent::Refused);
        assert_eq!(std::iter::from_fn(|| upload.next(Duration::ZERO)).count(), 2);
        assert!(!upload.is_idle());
    }

    #[test]
    fn an_event_is_passed_over_once_a_later_one_is_answered() {
        let (mut upload, second) = (Upload::default(), Duration::from_secs);
        upload.read([1, 2, 3].map(outgoing));
        for now in 1..=3 {
            assert!(upload.next(second(now)).is_some());
        }
        let id = |number: u8| EventId([number; 32]);
        assert_eq!(upload.accepted(&id(1)), Sent::Accepted);
        assert_eq!(upload.passed_over(second(100)), [], "a slow peer answers in order");
        assert_eq!(upload.accepted(&id(3)), Sent::Accepted);
        assert_eq!((upload.passed_over(second(2)), upload.passed_over(second(3))), (Vec::new(), vec![id(2)]));
        assert!(upload.waits_since(second(1)) && !upload.waits_since(second(2)));
        assert_eq!(upload.take_back(&id(2)), Some(outgoing(2)));
        assert!(upload.is_idle());
    }

    #[test]
    fn a_peer_that_asks_for_less_gets_it_later_and_not_for_ever() {
        let (mut upload, mut now, mut later) = (Upload::default(), Duration::ZERO, 0);
        upload.read([outgoing(1)]);
        loop {
            assert!(upload.next(now).is_some());
            match upload.refused(&EventId([1; 32]), "rate-limited: slow down", now) {
                Sent::Later => later += 1,
                Sent::Refused => break,
                other => panic!("{other:?}"),
            }
            let pause = upload.pause(now).unwrap();
            assert!(upload.next(now).is_none() && pause <= PAUSE_MAX);
            now += pause;
        }
        assert_eq!(later, PAUSES_MAX);
        assert!(upload.is_idle());
    }
}
