//! Pages of events, newest first, of a peer that has no negentropy: each goes on where the one before ended. Pure.

use std::collections::{HashMap, HashSet};

use birdhouse_events::EventId;
use birdhouse_relay::DatedId;
use serde::Deserialize;

use crate::limits::{PAGE_BYTES_MAX, PAGE_EVENTS, PAGE_EVENTS_MAX};
use crate::windows::Window;

/// The events of a page so far.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    window: Window,
    /// Ids of the second at which the page before ended: they come again.
    known: HashSet<EventId>,
    events: HashMap<EventId, Came>,
    bytes: usize,
    count: usize,
}

/// An event that came, with its JSON while there is room.
#[derive(Debug)]
struct Came {
    created_at: u64,
    json: Option<String>,
}

/// The part of an event that is read here.
#[derive(Debug, Deserialize)]
struct Head {
    id: String,
    created_at: u64,
}

/// An event of a page that was not in the page before.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) id: EventId,
    /// Its JSON, unless it was passed on.
    pub(crate) json: Option<String>,
}

/// The page that follows.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) window: Window,
    /// Ids that will come again.
    pub(crate) known: HashSet<EventId>,
}

/// A page that is complete.
#[derive(Debug)]
pub(crate) struct Complete {
    /// All events of the peer in this window are known; `None` if nothing came that was new.
    pub(crate) covered: Option<Window>,
    /// All ids of the page, and those of the second at which the page before ended.
    pub(crate) ids: HashSet<EventId>,
    pub(crate) events: Vec<New>,
    /// The next page; `None` at the end.
    pub(crate) next: Option<Next>,
    /// A second has more events than a page, so some of them may be missing.
    pub(crate) crowded: Option<u64>,
    /// The page ends within a second of which it has nothing new: if there is anything older, that second is crowded.
    pub(crate) stuck: Option<u64>,
}

/// Returns the id and the time of an event; `None` if it has none that a relay stores.
pub(crate) fn dated(json: &str) -> Option<DatedId> {
    let Head { id, created_at } = serde_json::from_str(json).ok()?;
    u32::try_from(created_at).ok()?;
    Some(DatedId { created_at, id: EventId::parse(&id)? })
}

impl Page {
    pub(crate) fn new(name: String, window: Window, known: HashSet<EventId>) -> Self {
        Self { name, window, known, events: HashMap::new(), bytes: 0, count: 0 }
    }

    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// Returns the same page, to be asked for again.
    pub(crate) fn into_next(self) -> Next {
        Next { window: self.window, known: self.known }
    }

    /// Adds an event. Returns its JSON if there is no room for it until the page is complete.
    ///
    /// # Errors
    /// The reason why the peer is not to be trusted with more.
    pub(crate) fn add(&mut self, json: String) -> Result<Option<String>, String> {
        self.count += 1;
        if self.count > PAGE_EVENTS_MAX {
            return Err("it sends more events than it was asked for".into());
        }
        let Some(DatedId { created_at, id }) = dated(&json) else { return Ok(None) };
        let is_within = created_at >= self.window.since && self.window.until.is_none_or(|until| created_at <= until);
        if !is_within {
            return Ok(None);
        }
        self.bytes += json.len();
        let is_kept = self.bytes <= PAGE_BYTES_MAX;
        let (json, passed_on) = if is_kept { (Some(json), None) } else { (None, Some(json)) };
        self.events.insert(id, Came { created_at, json });
        Ok(passed_on)
    }

    /// Ends the page.
    pub(crate) fn complete(self) -> Complete {
        let Self { window, known, events, .. } = self;
        let ids: HashSet<EventId> = events.keys().chain(&known).copied().collect();
        let Some(oldest) = events.values().map(|came| came.created_at).min() else {
            // What is left has no event of the peer.
            return Complete { covered: Some(window), ids, events: Vec::new(), next: None, crowded: None, stuck: None };
        };
        let is_one_second = events.values().all(|came| came.created_at == oldest);
        let is_new = events.keys().any(|id| !known.contains(id));
        let crowded = (is_one_second && events.len() >= PAGE_EVENTS).then_some(oldest);
        let before = |second: u64| {
            let until = second.checked_sub(1).filter(|until| *until >= window.since)?;
            Some(Next { window: Window { since: window.since, until: Some(until) }, known: HashSet::new() })
        };
        // All ids that are known of the last second: a peer may send some of them by turns.
        let mut again: HashSet<EventId> =
            events.iter().filter(|(_, came)| came.created_at == oldest).map(|(id, _)| *id).collect();
        if window.until == Some(oldest) {
            again.extend(&known);
        }
        // Where nothing is new, or one second fills the page, that second is over.
        let crowded = crowded.or((again.len() > PAGE_EVENTS_MAX).then_some(oldest));
        let is_over = !is_new || crowded.is_some();
        let (covered, next) = if is_over {
            (Window { since: oldest, until: window.until }, before(oldest))
        } else {
            let older = Window { since: window.since, until: Some(oldest) };
            let next = Some(Next { window: older, known: again });
            (Window { since: oldest + 1, until: window.until }, next)
        };
        let covered = covered.until.is_none_or(|until| covered.since <= until).then_some(covered);
        let events = events.into_iter().filter(|(id, _)| !known.contains(id));
        let events = events.map(|(id, Came { json, .. })| New { id, json }).collect();
        Complete { covered, ids, events, next, crowded, stuck: (!is_new).then_some(oldest) }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn json(number: usize, second: u64) -> String {
        format!(r#"{{"id":"{number:064x}","created_at":{second},"tags":[]}}"#)
    }

    proptest! {
        /// A relay that answers newest first, of which a page has at most `most` events; its seconds have fewer.
        #[test]
        fn pages_have_every_event_once_and_every_second_is_covered_once(
            mut seconds in prop::collection::vec(0_u64..40, 0..120),
            since in 0_u64..20,
            most in 13_usize..30,
        ) {
            seconds.sort_unstable_by(|one, other| other.cmp(one));
            let mut of_second = std::collections::HashMap::new();
            seconds.retain(|second| {
                let count = of_second.entry(*second).or_insert(0);
                *count += 1;
                *count < 12
            });
            let (mut next, mut found, mut covered) =
                (Some(Next { window: Window { since, until: None }, known: HashSet::new() }), Vec::new(), Vec::new());
            let mut rounds = 0;
            while let Some(Next { window, known }) = next {
                rounds += 1;
                prop_assert!(rounds < 500);
                let mut page = Page::new("p".into(), window, known);
                let within = seconds.iter().enumerate().filter(|(_, second)| {
                    **second >= window.since && window.until.is_none_or(|until| **second <= until)
                });
                for (number, second) in within.take(most) {
                    prop_assert_eq!(page.add(json(number, *second)).unwrap(), None);
                }
                let complete = page.complete();
                prop_assert_eq!(complete.crowded, None);
                found.extend(complete.events.into_iter().map(|new| new.id));
                covered.extend(complete.covered);
                next = complete.next;
            }
            let expected = seconds.iter().filter(|second| **second >= since).count();
            prop_assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), expected);
            prop_assert_eq!(found.len(), expected);
            for pair in covered.windows(2) {
                prop_assert_eq!(pair[1].until, pair[0].since.checked_sub(1));
            }
            prop_assert_eq!(covered.last().map(|window| window.since), Some(since));
        }
    }

    #[test]
    fn a_second_that_fills_a_page_is_named_and_passed() {
        let mut page = Page::new("p".into(), Window { since: 0, until: Some(9) }, HashSet::new());
        for number in 0..PAGE_EVENTS {
            page.add(json(number, 7)).unwrap();
        }
        let complete = page.complete();
        assert_eq!((complete.crowded, complete.next.unwrap().window), (Some(7), Window { since: 0, until: Some(6) }));
    }

    #[test]
    fn a_peer_that_sends_two_events_of_a_second_by_turns_is_done_with_it() {
        let mut next = Next { window: Window { since: 0, until: None }, known: HashSet::new() };
        for number in [0, 1, 0] {
            let mut page = Page::new("p".into(), next.window, next.known);
            page.add(json(number, 7)).unwrap();
            next = page.complete().next.unwrap();
        }
        assert_eq!(next.window.until, Some(6));
    }

    #[test]
    fn an_event_of_a_time_that_no_relay_stores_is_none() {
        assert_eq!(dated(&json(1, u64::MAX)), None);
        assert!(dated(&json(1, u64::from(u32::MAX))).is_some());
    }

    #[test]
    fn a_peer_that_sends_without_end_is_left() {
        let mut page = Page::new("p".into(), Window { since: 0, until: None }, HashSet::new());
        let refused = (0..=PAGE_EVENTS_MAX).find(|number| page.add(json(*number, 7)).is_err());
        assert_eq!(refused, Some(PAGE_EVENTS_MAX));
    }
}
