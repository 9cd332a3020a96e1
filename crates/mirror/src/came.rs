//! Ids of events that came from a URL lately, so that none of them is sent back to it. Those of all streams from that
//! URL are kept together.
//!
//! A peer sends an event that goes to it to its subscriptions, ours among them, maybe before it is durable there. That
//! is no proof that the peer has it: the outcome is.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use birdhouse_events::EventId;
use parking_lot::Mutex;

use crate::limits::{CAME_IDS_MAX, SENT_IDS_MAX};

/// The last ids, [`CAME_IDS_MAX`] at most. One that was forgotten is sent, which the peer answers as a duplicate.
#[derive(Debug)]
pub(crate) struct Came {
    ids: Mutex<BothWays>,
    /// Number of ids that are kept: none where nothing is sent to the URL.
    most: AtomicUsize,
    /// True once a stream has events come from the URL.
    comes: AtomicBool,
}

#[derive(Debug, Default)]
struct BothWays {
    came: Ids,
    /// Those that were sent to the URL last, [`SENT_IDS_MAX`] at most. They count as none that came from it.
    sent: Ids,
}

/// Ids in the order in which they were added.
#[derive(Debug, Default)]
struct Ids {
    all: HashSet<EventId>,
    order: VecDeque<EventId>,
}

impl Came {
    /// Keeps no ids until [`Self::keep`].
    pub(crate) fn new() -> Self {
        Self { ids: Mutex::default(), most: AtomicUsize::new(0), comes: AtomicBool::new(false) }
    }

    /// Notes that a stream has events come from the URL.
    pub(crate) fn begin(&self) {
        self.comes.store(true, Ordering::Relaxed);
    }

    /// True if events come from the URL, on whichever stream, or have come.
    pub(crate) fn has_begun(&self) -> bool {
        self.comes.load(Ordering::Relaxed)
    }

    /// Keeps ids from now on: events are sent to the URL.
    pub(crate) fn keep(&self) {
        self.most.store(CAME_IDS_MAX, Ordering::Relaxed);
    }

    /// Adds an id, before its event is stored.
    pub(crate) fn add(&self, id: EventId) {
        let most = self.most.load(Ordering::Relaxed);
        let BothWays { came, sent } = &mut *self.ids.lock();
        if most > 0 && !sent.all.contains(&id) {
            came.add(id, most);
        }
    }

    /// Notes that an event is sent to the URL.
    pub(crate) fn sent(&self, id: EventId) {
        self.ids.lock().sent.add(id, SENT_IDS_MAX);
    }

    /// Notes that the peer has not kept an event that was sent: if it comes later, the peer has it from elsewhere.
    pub(crate) fn not_kept(&self, id: &EventId) {
        self.ids.lock().sent.remove(id);
    }

    pub(crate) fn has(&self, id: &EventId) -> bool {
        self.ids.lock().came.all.contains(id)
    }
}

impl Ids {
    fn add(&mut self, id: EventId, most: usize) {
        if !self.all.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > most
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    fn remove(&mut self, id: &EventId) {
        if self.all.remove(id) {
            self.order.retain(|one| one != id);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn id(number: usize) -> EventId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&u64::try_from(number).unwrap().to_be_bytes());
        EventId(id)
    }

    #[test]
    fn the_last_ids_are_kept() {
        let came = Came::new();
        came.add(id(0));
        assert!(!came.has(&id(0)));
        came.keep();
        for number in (0..CAME_IDS_MAX + 10).chain([CAME_IDS_MAX]) {
            came.add(id(number));
        }
        assert_eq!([0, 9, 10, CAME_IDS_MAX + 9].map(|number| came.has(&id(number))), [false, false, true, true]);
        assert_eq!(came.ids.lock().came.all.len(), CAME_IDS_MAX);
    }

    #[test]
    fn what_was_sent_has_not_come() {
        let came = Came::new();
        came.keep();
        for number in 0..=SENT_IDS_MAX {
            came.sent(id(number));
        }
        let ids = [0, 1, SENT_IDS_MAX, SENT_IDS_MAX + 1].map(id);
        for id in ids {
            came.add(id);
        }
        assert_eq!(ids.map(|id| came.has(&id)), [true, false, false, true], "the first was forgotten");
        came.not_kept(&ids[1]);
        came.add(ids[1]);
        assert!(came.has(&ids[1]));
    }
}
