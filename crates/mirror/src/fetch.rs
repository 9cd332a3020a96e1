//! Events that are fetched from the peer by their ids. Pure.

use std::collections::{HashMap, HashSet, VecDeque};

use birdhouse_events::EventId;

use crate::limits::{FETCH_ATTEMPTS, FETCH_IDS, FETCHES_OPEN, QUEUED_IDS_MAX};

/// Ids that wait, and requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    waiting: VecDeque<(EventId, u8)>,
    /// All ids that wait or are in flight: the peer may name one twice.
    queued: HashSet<EventId>,
    open: HashMap<String, HashMap<EventId, u8>>,
    last: u64,
    /// Ids that the peer named and did not send.
    pub(crate) withheld: u64,
}

/// A request for events.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Name of the subscription.
    pub(crate) name: String,
    pub(crate) ids: Vec<EventId>,
}

/// A decision on an event that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// It was asked for.
    AsAsked,
    /// It was not.
    Unasked,
}

impl Fetch {
    /// True while more ids may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < QUEUED_IDS_MAX
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queued.is_empty()
    }

    /// True while an answer is owed.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.open.is_empty()
    }

    pub(crate) fn add(&mut self, ids: impl IntoIterator<Item = EventId>) {
        for id in ids {
            if self.queued.insert(id) {
                self.waiting.push_back((id, 1));
            }
        }
    }

    /// Returns the next request, if one may be sent.
    pub(crate) fn next(&mut self) -> Option<Request> {
        if self.open.len() >= FETCHES_OPEN || self.waiting.is_empty() {
            return None;
        }
        let some: HashMap<EventId, u8> = self.waiting.drain(..self.waiting.len().min(FETCH_IDS)).collect();
        self.last += 1;
        let (name, ids) = (format!("f{}", self.last), some.keys().copied().collect());
        self.open.insert(name.clone(), some);
        Some(Request { name, ids })
    }

    pub(crate) fn came(&mut self, name: &str, id: &EventId) -> Came {
        match self.open.get_mut(name).and_then(|asked| asked.remove(id)) {
            Some(_) => {
                self.queued.remove(id);
                Came::AsAsked
            }
            None => Came::Unasked,
        }
    }

    /// Ends a request. Events that did not come are asked for again, some times. Returns false if there is none of this
    /// name.
    pub(crate) fn ended(&mut self, name: &str) -> bool {
        let Some(left) = self.open.remove(name) else { return false };
        for (id, attempts) in left {
            if attempts < FETCH_ATTEMPTS {
                self.waiting.push_back((id, attempts + 1));
            } else {
                self.queued.remove(&id);
                self.withheld += 1;
            }
        }
        true
    }

    /// Ends a request that the peer refused; it counts as no attempt. Returns false if there is none of this name.
    pub(crate) fn refused(&mut self, name: &str) -> bool {
        let Some(left) = self.open.remove(name) else { return false };
        self.waiting.extend(left);
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn id(number: u32) -> EventId {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&number.to_be_bytes());
        EventId(id)
    }

    #[test]
    fn what_the_peer_leaves_out_is_asked_for_again_and_then_given_up() {
        let mut fetch = Fetch::default();
        fetch.add((0..10).map(id).chain((0..10).map(id)));
        let request = fetch.next().unwrap();
        assert_eq!((request.ids.len(), fetch.next()), (10, None));
        assert_eq!(fetch.came(&request.name, &id(3)), Came::AsAsked);
        assert_eq!(fetch.came(&request.name, &id(3)), Came::Unasked);
        assert_eq!(fetch.came("other", &id(4)), Came::Unasked);
        assert!(fetch.ended(&request.name) && !fetch.ended(&request.name));
        let request = fetch.next().unwrap();
        assert_eq!(request.ids.len(), 9);
        assert!(fetch.refused(&request.name) && !fetch.is_idle());
        let request = fetch.next().unwrap();
        assert!(fetch.ended(&request.name) && fetch.is_idle());
        assert_eq!(fetch.withheld, 9);
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let mut fetch = Fetch::default();
        fetch.add((0..u32::try_from(QUEUED_IDS_MAX).unwrap()).map(id));
        assert!(!fetch.has_room());
        let sizes: Vec<usize> = std::iter::from_fn(|| fetch.next()).map(|request| request.ids.len()).collect();
        assert_eq!(sizes, [FETCH_IDS; FETCHES_OPEN]);
    }
}
