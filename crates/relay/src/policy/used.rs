//! Events that have authorized a request (NIP-98). Each authorizes one: a ban that somebody recorded must not come back
//! after it was taken back.

use std::collections::HashMap;

use birdhouse_events::EventId;
use parking_lot::Mutex;

use crate::limits::{MANAGEMENT_SECONDS, MANAGEMENT_USED};

/// Ids of the events that were used, each as long as it is valid.
#[derive(Debug, Default)]
pub(crate) struct UsedEvents(Mutex<HashMap<EventId, u64>>);

// === impl UsedEvents ===

impl UsedEvents {
    /// Uses an event of the time `created_at`, at `now`; both are seconds since 1970.
    ///
    /// # Errors
    /// The reason why it authorizes nothing: it was used before, or too many are remembered.
    pub(crate) fn take(&self, id: EventId, created_at: u64, now: u64) -> Result<(), String> {
        let mut used = self.0.lock();
        used.retain(|_, last| *last >= now);
        if used.contains_key(&id) {
            return Err("the event has authorized a request before; sign another one".to_owned());
        }
        if used.len() >= MANAGEMENT_USED {
            return Err(format!("there were {MANAGEMENT_USED} requests in two minutes; try again later"));
        }
        used.insert(id, created_at.saturating_add(MANAGEMENT_SECONDS));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> EventId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(number as u64).to_be_bytes());
        EventId(id)
    }

    #[test]
    fn an_event_is_used_once_and_remembered_as_long_as_it_is_valid() {
        const NOW: u64 = 1_700_000_000;
        let used = UsedEvents::default();
        assert_eq!(used.take(id(0), NOW, NOW), Ok(()));
        // One that is ahead of the clock is valid for twice as long.
        assert_eq!(used.take(id(1), NOW + MANAGEMENT_SECONDS, NOW), Ok(()));
        assert!(used.take(id(0), NOW, NOW + MANAGEMENT_SECONDS).is_err());
        assert!(used.take(id(1), NOW + MANAGEMENT_SECONDS, NOW + 2 * MANAGEMENT_SECONDS).is_err());
        assert_eq!(used.0.lock().len(), 1, "the first is not valid any more");
    }

    #[test]
    fn when_too_many_are_remembered_others_are_refused_until_some_expire() {
        const NOW: u64 = 1_700_000_000;
        let used = UsedEvents::default();
        for number in 0..MANAGEMENT_USED {
            assert_eq!(used.take(id(number), NOW, NOW), Ok(()));
        }
        let refused = used.take(id(MANAGEMENT_USED), NOW, NOW + MANAGEMENT_SECONDS);
        assert!(refused.is_err_and(|why| why.contains("try again later")));
        let later = NOW + MANAGEMENT_SECONDS + 1;
        assert_eq!(used.take(id(MANAGEMENT_USED), later, later), Ok(()));
    }
}
