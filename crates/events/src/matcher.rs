//! Matching of new events against live subscriptions.
//!
//! A filter is entered under each value of its rarest field: ids, else a tag, else authors, else kinds, else none. An
//! event looks up its own id, tags, author and kind, so its cost follows the number of matches, not of subscriptions.
//!
//! Removing a subscription is immediate. Its entries are removed later, once there are as many stale entries as live
//! ones: the entries of a feed with 10 000 authors are spread among those of everyone else who follows these authors.
//!
//! Invariant: an event matches exactly the subscriptions with a filter that matches it and whose search words it
//! contains, each once.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::event::{Event, EventId, Kind, Letter, Pubkey};
use crate::filter::Filter;
use crate::text::words_of;

/// Live subscriptions with keys `K`.
#[derive(Debug)]
pub struct Matcher<K> {
    subscriptions: HashMap<K, Subscription>,
    by_field: HashMap<Field, Vec<Entry<K>>, RandomState>,
    /// Number of all entries, and of entries of removed subscriptions.
    entries: usize,
    stale: usize,
    /// Number of the next subscription, which tells subscriptions of one key apart.
    next: u64,
}

#[derive(Debug)]
struct Subscription {
    number: u64,
    filters: Arc<[Filter]>,
    entries: usize,
}

/// Entry of a filter: its subscription, and its index there.
#[derive(Debug)]
struct Entry<K> {
    key: K,
    number: u64,
    filter_index: usize,
}

/// Stale entries that are not worth a pass.
const STALE_MIN: usize = 64;

/// Field of an event under which a filter is entered.
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
        Self { subscriptions: HashMap::new(), by_field: HashMap::default(), entries: 0, stale: 0, next: 0 }
    }
}

impl<K: Copy + Eq + Hash> Matcher<K> {
    /// Adds a subscription, or replaces the one with the same key.
    pub fn insert(&mut self, key: K, filters: Arc<[Filter]>) {
        self.remove(key);
        let (number, before) = (self.next, self.entries);
        self.next += 1;
        for (filter_index, filter) in filters.iter().enumerate() {
            for field in fields(filter) {
                self.by_field.entry(field).or_default().push(Entry { key, number, filter_index });
                self.entries += 1;
            }
        }
        let entries = self.entries - before;
        self.subscriptions.insert(key, Subscription { number, filters, entries });
    }

    /// Removes a subscription.
    pub fn remove(&mut self, key: K) {
        let Some(Subscription { entries, .. }) = self.subscriptions.remove(&key) else { return };
        self.stale += entries;
        if self.stale > STALE_MIN.max(self.entries / 2) {
            let subscriptions = &self.subscriptions;
            let is_open = |entry: &Entry<K>| {
                subscriptions.get(&entry.key).is_some_and(|subscription| subscription.number == entry.number)
            };
            self.by_field.retain(|_, entries| {
                entries.retain(is_open);
                !entries.is_empty()
            });
            (self.entries, self.stale) = (self.entries - self.stale, 0);
        }
    }

    /// Returns the keys of the subscriptions that match an event, each once.
    pub fn matches(&self, event: &Event) -> Vec<K> {
        let tags = event.indexed_tags().map(|(letter, value)| Field::Tag(letter, value.to_owned()));
        let fields = [Field::Id(event.id), Field::Author(event.pubkey), Field::Kind(event.kind), Field::Any];
        let (mut found, words) = (HashSet::new(), OnceCell::new());
        for entry in fields.into_iter().chain(tags).filter_map(|field| self.by_field.get(&field)).flatten() {
            let subscription = self.subscriptions.get(&entry.key).filter(|one| one.number == entry.number);
            if let Some(Subscription { filters, .. }) = subscription
                && !found.contains(&entry.key)
                && is_match(&filters[entry.filter_index], event, &words)
            {
                found.insert(entry.key);
            }
        }
        found.into_iter().collect()
    }

    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Returns true if there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }
}

/// Returns true if an event fulfils a filter and contains its search words. `words` caches the event's words for all
/// filters.
fn is_match(filter: &Filter, event: &Event, words: &OnceCell<Option<Vec<String>>>) -> bool {
    filter.matches(event)
        && filter.search.as_ref().is_none_or(|search| {
            words.get_or_init(|| words_of(event)).as_ref().is_some_and(|words| search.is_among(words))
        })
}

/// Returns the fields under which a filter is entered; none if it matches nothing.
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
