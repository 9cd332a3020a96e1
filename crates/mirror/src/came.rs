//! Ids of events that came from a URL lately, so that none of them is sent back to it. Those of all streams from that
//! URL are kept together.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use birdhouse_events::EventId;
use parking_lot::Mutex;

use crate::limits::CAME_IDS_MAX;

/// The last ids, [`CAME_IDS_MAX`] at most. One that was forgotten is sent, which the peer answers as a duplicate.
#[derive(Debug)]
pub(crate) struct Came {
    ids: Mutex<Ids>,
    /// Number of ids that are kept: none where nothing is sent to the URL.
    most: AtomicUsize,
    /// True once a stream has events come from the URL.
    comes: AtomicBool,
}

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
        if most == 0 {
            return;
        }
        let mut ids = self.ids.lock();
        if !ids.all.insert(id) {
            return;
        }
        ids.order.push_back(id);
        if ids.order.len() > most
            && let Some(oldest) = ids.order.pop_front()
        {
            ids.all.remove(&oldest);
        }
    }

    pub(crate) fn has(&self, id: &EventId) -> bool {
        self.ids.lock().all.contains(id)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_last_ids_are_kept() {
        let id = |number: usize| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&u64::try_from(number).unwrap().to_be_bytes());
            EventId(id)
        };
        let came = Came::new();
        came.add(id(0));
        assert!(!came.has(&id(0)));
        came.keep();
        for number in (0..CAME_IDS_MAX + 10).chain([CAME_IDS_MAX]) {
            came.add(id(number));
        }
        assert_eq!([0, 9, 10, CAME_IDS_MAX + 9].map(|number| came.has(&id(number))), [false, false, true, true]);
        assert_eq!(came.ids.lock().all.len(), CAME_IDS_MAX);
    }
}
