//! Filters as NIP-01 defines them: what is asked for, as a value.

use crate::event::{Event, EventId, Pubkey, Timestamp};
use crate::kind::Kind;
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
    /// For each letter the values of which an event's tags must have one. Letters ascend.
    pub tags: Vec<(Letter, Vec<String>)>,
    /// Not older, inclusive.
    pub since: Option<Timestamp>,
    /// Not newer, inclusive.
    pub until: Option<Timestamp>,
    /// How many stored events at most, the newest.
    pub limit: Option<usize>,
    /// Words to look for (NIP-50).
    pub search: Option<String>,
}

impl Filter {
    /// Whether an event fulfils every condition but `limit` and `search`.
    pub fn matches(&self, event: &Event) -> bool {
        fn holds<T: Ord>(list: Option<&Vec<T>>, value: &T) -> bool {
            list.is_none_or(|list| list.binary_search(value).is_ok())
        }
        let has_tag = |(letter, values): &(Letter, Vec<String>)| {
            let mut tags = event.indexed_tags();
            tags.any(|(other, value)| {
                other == *letter && values.binary_search_by(|one| one.as_str().cmp(value)).is_ok()
            })
        };
        holds(self.ids.as_ref(), &event.id)
            && holds(self.authors.as_ref(), &event.pubkey)
            && holds(self.kinds.as_ref(), &event.kind)
            && self.since.is_none_or(|since| since <= event.created_at)
            && self.until.is_none_or(|until| event.created_at <= until)
            && self.tags.iter().all(has_tag)
    }
}
