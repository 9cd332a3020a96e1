//! Filters as NIP-01 defines them: what is asked for, as a value.

mod json;
mod limits;
mod wire;

pub use limits::{FilterLimits, UnknownKeys};

use crate::event::{Event, EventId, Pubkey, Timestamp};
use crate::kind::Kind;
use crate::search::Search;
use crate::tag::Letter;

/// All conditions that are there must hold; of a list one value must. Lists are sorted, without repetition; an empty one
/// matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names of events.
    pub ids: Option<Vec<EventId>>,
    /// Authors.
    pub authors: Option<Vec<Pubkey>>,
    /// Kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Conditions on tags: a letter, and the values of which an event's tags of that name must have one. Ascending; a letter
    /// comes more than once where several values are needed together (NIP-91).
    pub tags: Vec<(Letter, Vec<String>)>,
    /// Not older, inclusive.
    pub since: Option<Timestamp>,
    /// Not newer, inclusive.
    pub until: Option<Timestamp>,
    /// How many stored events at most, the newest.
    pub limit: Option<usize>,
    /// Words to look for (NIP-50).
    pub search: Option<Search>,
}

// === impl Filter ===

impl Filter {
    /// Matches nothing.
    pub fn nothing() -> Self {
        Self { ids: Some(Vec::new()), ..Self::default() }
    }

    /// Whether an event fulfils every condition but `limit` and `search`. What fails most events comes first.
    pub fn matches(&self, event: &Event) -> bool {
        self.matches_head(&event.id, &event.pubkey, event.created_at, event.kind)
            && self.tags.iter().all(|(letter, values)| has_tag(event, *letter, values))
    }

    /// Whether an event that has these fulfils every condition but those on tags.
    pub(crate) fn matches_head(&self, id: &EventId, pubkey: &Pubkey, created_at: Timestamp, kind: Kind) -> bool {
        is_in(self.kinds.as_ref(), &kind)
            && self.since.is_none_or(|since| since <= created_at)
            && self.until.is_none_or(|until| created_at <= until)
            && is_in(self.authors.as_ref(), pubkey)
            && is_in(self.ids.as_ref(), id)
    }
}

/// Whether a list that ascends has the value; no list has every value.
fn is_in<T: Ord>(list: Option<&Vec<T>>, value: &T) -> bool {
    list.is_none_or(|list| list.binary_search(value).is_ok())
}

fn has_tag(event: &Event, letter: Letter, values: &[String]) -> bool {
    let mut tags = event.indexed_tags().filter(|(other, _)| *other == letter);
    tags.any(|(_, value)| values.binary_search_by(|one| one.as_str().cmp(value)).is_ok())
}

#[cfg(test)]
#[path = "filter/match_tests.rs"]
mod tests;
