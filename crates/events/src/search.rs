//! Search for words (NIP-50): events whose text has all words that are asked for, the best first.
//!
//! An index of words, kept by tantivy, holds the events below a number, its *watermark*, which is committed with it. It is behind: it is filled
//! from the log by whoever calls [`Events::index_words`](crate::Events::index_words), not by those who write events. What is above the watermark
//! is looked through, so answers are complete at any time. Whether an event is shown is decided as for any other filter: by the
//! log, and by what is dead, at the moment of the query. The index is no part of what is published: lost or damaged, it is made
//! again.
//!
//! The order is that of BM25, weighed by age: see `rank`.

mod dead_docs;
mod fill;
mod gap;
mod index;
mod look;
mod narrow;
mod rank;
mod text;
mod words;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use crate::event::Event;
use crate::log::Seq;
use index::{Engine, View};
use words::Side;

pub(crate) use text::words_of;

/// Where the index of words is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchPlace {
    /// Nowhere: there is no search.
    Off,
    /// In memory; it is made again when the events are opened.
    Memory,
    /// In a folder of its own.
    Folder(PathBuf),
}

/// Words to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// All of them must be there; ascending, each once. None of them: nothing is found.
    pub(crate) words: Vec<String>,
}

/// How much a search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    /// Everything there is.
    All,
    /// Not everything.
    Some,
    /// Nothing: so many percent of the events are indexed, and too many are left to be looked through.
    Building(u8),
}

/// The index of words, and who may do what with it.
pub(crate) struct SearchIndex {
    pub(crate) place: SearchPlace,
    /// Of who fills it.
    engine: Mutex<Option<Engine>>,
    /// Of who searches; `None` until it is opened.
    view: RwLock<Option<View>>,
    /// Whether a search found it damaged: who fills it makes it again.
    is_damaged: AtomicBool,
}

// === impl Search ===

impl Search {
    /// The words of a query. Pairs of `key:value` are extensions, none of which is known here: they are left out. `None` if there is
    /// nothing else.
    pub fn parse(query: &str) -> Option<Self> {
        let asked: Vec<&str> = query.split_whitespace().filter(|part| !is_extension(part)).collect();
        let mut words: Vec<String> = asked.iter().flat_map(|part| words::words(part, Side::Query)).collect();
        words.sort_unstable();
        words.dedup();
        (!asked.is_empty()).then_some(Self { words })
    }

    /// Whether an event has all words.
    pub fn matches(&self, event: &Event) -> bool {
        words_of(event).is_some_and(|words| self.is_among(&words))
    }

    /// Whether all words are among these.
    pub(crate) fn is_among(&self, words: &[String]) -> bool {
        !self.words.is_empty() && self.words.iter().all(|word| words.contains(word))
    }
}

/// `language:en`, but not `https://example.com`.
fn is_extension(part: &str) -> bool {
    part.split_once(':').is_some_and(|(key, value)| {
        let is_name = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        is_name && !key.is_empty() && !value.is_empty() && !value.starts_with('/')
    })
}

// === impl SearchIndex ===

impl SearchIndex {
    pub(crate) fn new(place: SearchPlace) -> Self {
        Self { place, engine: Mutex::new(None), view: RwLock::new(None), is_damaged: AtomicBool::new(false) }
    }

    fn view(&self) -> Option<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn show(&self, view: Option<View>) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = view;
    }

    fn damage(&self) {
        self.is_damaged.store(true, Ordering::Relaxed);
    }

    fn take_damage(&self) -> bool {
        self.is_damaged.swap(false, Ordering::Relaxed)
    }

    /// Events below it are indexed.
    pub(crate) fn watermark(&self) -> Seq {
        self.view().map_or(Seq(0), |view| view.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(query: &str) -> Option<Vec<String>> {
        Search::parse(query).map(|search| search.words)
    }

    #[test]
    fn extensions_are_left_out_and_other_words_are_not() {
        let some = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words("Best nostr  apps nostr"), some(&["apps", "best", "nostr"]));
        assert_eq!(words("birds language:en include:spam"), some(&["birds"]));
        assert_eq!(words("https://example.com"), some(&["com", "example", "https"]));
        assert_eq!(words("bird: :bird 10:"), some(&["10", "bird"]));
        assert_eq!(words("language:en"), None);
        assert_eq!(words("  "), None);
        assert_eq!(words("🤙"), some(&[]), "which nothing has");
    }
}
