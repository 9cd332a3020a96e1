//! Which subscriptions a new event belongs to.
//!
//! A filter is entered under each value of its rarest field: ids, else a tag, else authors, else kinds, else under nothing. An
//! event looks up its own id, tags, author and kind, so its cost follows what it matches and not how many listen.
//!
//! A subscription is ended at once, and its entries later, when there are as many ended as others: those of a feed of 10 000 authors
//! lie among those of everybody else who follows them.
//!
//! Invariant: an event meets exactly the subscriptions of which a filter matches it and asks for no word that it lacks, each once.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use foldhash::quality::RandomState;

use crate::event::{Event, EventId, Pubkey};
use crate::filter::Filter;
use crate::kind::Kind;
use crate::search::words_of;
use crate::tag::Letter;

/// Subscriptions, each called `K`.
#[derive(Debug)]
pub struct Matcher<K> {
    subscriptions: HashMap<K, Subscription>,
    waiting: HashMap<Field, Vec<Entry<K>>, RandomState>,
    /// All entries, and those of subscriptions that are ended.
    entries: usize,
    ended: usize,
    /// Tells subscriptions of one name apart.
    next: u64,
}

#[derive(Debug)]
struct Subscription {
    number: u64,
    filters: Arc<[Filter]>,
    entries: usize,
}

/// A filter that waits: whose it is, and which.
#[derive(Debug)]
struct Entry<K> {
    key: K,
    number: u64,
    place: usize,
}

/// Entries of ended subscriptions that are not worth a look.
const ENDED_MIN: usize = 64;

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
        Self { subscriptions: HashMap::new(), waiting: HashMap::default(), entries: 0, ended: 0, next: 0 }
    }
}

impl<K: Copy + Eq + Hash> Matcher<K> {
    /// Enters a subscription, in the place of one that was called the same.
    pub fn insert(&mut self, key: K, filters: Arc<[Filter]>) {
        self.remove(key);
        let (number, before) = (self.next, self.entries);
        self.next += 1;
        for (place, filter) in filters.iter().enumerate() {
            for field in fields(filter) {
                self.waiting.entry(field).or_default().push(Entry { key, number, place });
                self.entries += 1;
            }
        }
        let entries = self.entries - before;
        self.subscriptions.insert(key, Subscription { number, filters, entries });
    }

    /// Ends a subscription.
    pub fn remove(&mut self, key: K) {
        let Some(Subscription { entries, .. }) = self.subscriptions.remove(&key) else { return };
        self.ended += entries;
        if self.ended > ENDED_MIN.max(self.entries / 2) {
            let subscriptions = &self.subscriptions;
            let is_open = |entry: &Entry<K>| {
                subscriptions.get(&entry.key).is_some_and(|subscription| subscription.number == entry.number)
            };
            self.waiting.retain(|_, waiting| {
                waiting.retain(is_open);
                !waiting.is_empty()
            });
            (self.entries, self.ended) = (self.entries - self.ended, 0);
        }
    }

    /// The subscriptions that an event belongs to, each once.
    pub fn matches(&self, event: &Event) -> Vec<K> {
        let tags = event.indexed_tags().map(|(letter, value)| Field::Tag(letter, value.to_owned()));
        let fields = [Field::Id(event.id), Field::Author(event.pubkey), Field::Kind(event.kind), Field::Any];
        let (mut found, words) = (HashSet::new(), OnceCell::new());
        for entry in fields.into_iter().chain(tags).filter_map(|field| self.waiting.get(&field)).flatten() {
            let subscription = self.subscriptions.get(&entry.key).filter(|one| one.number == entry.number);
            if let Some(Subscription { filters, .. }) = subscription
                && !found.contains(&entry.key)
                && is_match(&filters[entry.place], event, &words)
            {
                found.insert(entry.key);
            }
        }
        found.into_iter().collect()
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }
}

/// Whether an event fulfils a filter, and has the words it asks for; these are looked at once for all filters.
fn is_match(filter: &Filter, event: &Event, words: &OnceCell<Option<Vec<String>>>) -> bool {
    filter.matches(event)
        && filter.search.as_ref().is_none_or(|search| {
            words.get_or_init(|| words_of(event)).as_ref().is_some_and(|words| search.is_among(words))
        })
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
