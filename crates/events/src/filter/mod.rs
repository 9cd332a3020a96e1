//! Filters as [NIP-01] defines them: the conditions of a query, as a value.
//!
//! A filter that can match nothing is a value of its own; one that is too large is refused, never cut.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

mod hll;

mod json;
mod limits;
mod wire;

pub use self::hll::Hll;
pub use self::limits::{FilterLimits, UnknownKeys};

use crate::event::{Event, EventId, Kind, Letter, Pubkey, Timestamp};
use crate::text::Search;

/// Conditions on events. An event must fulfil every condition that is present, by one value of its list. Lists are
/// sorted and without duplicates; an empty list matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Ids of events.
    pub ids: Option<Vec<EventId>>,
    /// Authors.
    pub authors: Option<Vec<Pubkey>>,
    /// Kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Conditions on tags: the event has a tag of that letter with one of the values. Ascending. A letter occurs more
    /// than once where several values are needed together (NIP-91).
    pub tags: Vec<(Letter, Vec<String>)>,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, inclusive.
    pub until: Option<Timestamp>,
    /// Maximum number of stored events, the newest.
    pub limit: Option<usize>,
    /// Words that the event contains (NIP-50).
    pub search: Option<Search>,
}

// === impl Filter ===

impl Filter {
    /// Returns a filter that matches nothing.
    pub fn nothing() -> Self {
        Self { ids: Some(Vec::new()), ..Self::default() }
    }

    /// Returns the number of its values, and one for the filter itself. A value of a tag counts once more for each 64
    /// bytes, so that this is a measure of memory.
    pub fn weight(&self) -> usize {
        let len = |list: Option<usize>| list.unwrap_or(0);
        let values = self.tags.iter().flat_map(|(_, values)| values);
        1 + len(self.ids.as_ref().map(Vec::len))
            + len(self.authors.as_ref().map(Vec::len))
            + len(self.kinds.as_ref().map(Vec::len))
            + values.map(|value| 1 + value.len() / 64).sum::<usize>()
    }

    /// Returns true if an event fulfils every condition but `limit` and `search`. The conditions that exclude most
    /// events come first.
    pub fn matches(&self, event: &Event) -> bool {
        self.matches_head(&event.id, &event.pubkey, event.created_at, event.kind)
            && self.tags.iter().all(|(letter, values)| has_tag(event, *letter, values))
    }

    /// Returns true if an event with these fields fulfils every condition but those on tags.
    pub(crate) fn matches_head(&self, id: &EventId, pubkey: &Pubkey, created_at: Timestamp, kind: Kind) -> bool {
        is_in(self.kinds.as_ref(), &kind)
            && self.since.is_none_or(|since| since <= created_at)
            && self.until.is_none_or(|until| created_at <= until)
            && is_in(self.authors.as_ref(), pubkey)
            && is_in(self.ids.as_ref(), id)
    }
}

/// Returns true if the ascending list contains the value. An absent list contains every value.
fn is_in<T: Ord>(list: Option<&Vec<T>>, value: &T) -> bool {
    list.is_none_or(|list| list.binary_search(value).is_ok())
}

fn has_tag(event: &Event, letter: Letter, values: &[String]) -> bool {
    let mut tags = event.indexed_tags().filter(|(other, _)| *other == letter);
    tags.any(|(_, value)| values.binary_search_by(|one| one.as_str().cmp(value)).is_ok())
}

#[cfg(test)]
#[path = "match_tests.rs"]
mod tests;
