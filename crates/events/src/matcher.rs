//! Which subscriptions a new event belongs to.
//!
//! A filter is entered under each value of its rarest field: ids, else a tag, else authors, else kinds, else under nothing. An
//! event looks up its own id, tags, author and kind, so its cost follows what it matches and not how many listen.
//!
//! Invariant: an event meets exactly the subscriptions of which a filter matches it, each once.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::event::{Event, EventId, Pubkey};
use crate::filter::Filter;
use crate::kind::Kind;
use crate::tag::Letter;

/// Subscriptions, each called `K`.
#[derive(Debug)]
pub struct Matcher<K> {
    filters: HashMap<K, Arc<[Filter]>>,
    waiting: HashMap<Field, Vec<(K, usize)>>,
}

/// Where a filter waits for events.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Field {
    Id(EventId),
    Tag(Letter, String),
    Author(Pubkey),
    Kind(Kind),
    Any,
}

impl<K: Copy + Eq + Hash> Default for Matcher<K> {
    fn default() -> Self {
        Self { filters: HashMap::new(), waiting: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> Matcher<K> {
    /// Enters a subscription, in the place of one that was called the same.
    pub fn insert(&mut self, key: K, filters: Arc<[Filter]>) {
        self.remove(key);
        for (place, filter) in filters.iter().enumerate() {
            for field in fields(filter) {
                self.waiting.entry(field).or_default().push((key, place));
            }
        }
        self.filters.insert(key, filters);
    }

    /// Ends a subscription.
    pub fn remove(&mut self, key: K) {
        let Some(filters) = self.filters.remove(&key) else { return };
        for field in filters.iter().flat_map(fields) {
            if let Some(waiting) = self.waiting.get_mut(&field) {
                waiting.retain(|(other, _)| *other != key);
                if waiting.is_empty() {
                    self.waiting.remove(&field);
                }
            }
        }
    }

    /// The subscriptions that an event belongs to, each once.
    pub fn matches(&self, event: &Event) -> Vec<K> {
        let tags = event.indexed_tags().map(|(letter, value)| Field::Tag(letter, value.to_owned()));
        let fields = [Field::Id(event.id), Field::Author(event.pubkey), Field::Kind(event.kind), Field::Any];
        let mut found = HashSet::new();
        for (key, place) in fields.into_iter().chain(tags).filter_map(|field| self.waiting.get(&field)).flatten() {
            if !found.contains(key) && self.filters[key][*place].matches(event) {
                found.insert(*key);
            }
        }
        found.into_iter().collect()
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }
}

/// The fields under which a filter waits: none if nothing can match it.
fn fields(filter: &Filter) -> Vec<Field> {
    if let Some(ids) = &filter.ids {
        return ids.iter().copied().map(Field::Id).collect();
    }
    if let Some((letter, values)) = filter.tags.iter().min_by_key(|(_, values)| values.len()) {
        return values.iter().map(|value| Field::Tag(*letter, value.clone())).collect();
    }
    if let Some(authors) = &filter.authors {
        return authors.iter().copied().map(Field::Author).collect();
    }
    match &filter.kinds {
        Some(kinds) => kinds.iter().copied().map(Field::Kind).collect(),
        None => vec![Field::Any],
    }
}
