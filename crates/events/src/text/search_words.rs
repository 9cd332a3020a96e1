//! Words of a search ([NIP-50]), as part of a filter.
//!
//! [NIP-50]: https://github.com/nostr-protocol/nips/blob/master/50.md

use crate::event::Event;
use crate::text::tokens::{Side, words};
use crate::text::words::words_of;

/// Words that an event must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// All of these must occur; ascending, each once. An empty list matches nothing.
    pub(crate) words: Vec<String>,
}

// === impl Search ===

impl Search {
    /// Parses a query. Drops `key:value` pairs: they are extensions, of which none is supported. Returns `None` if
    /// nothing else remains.
    pub fn parse(query: &str) -> Option<Self> {
        let asked: Vec<&str> = query.split_whitespace().filter(|part| !is_extension(part)).collect();
        let mut words: Vec<String> = asked.iter().flat_map(|part| words(part, Side::Query)).collect();
        words.sort_unstable();
        words.dedup();
        (!asked.is_empty()).then_some(Self { words })
    }

    /// Returns true if an event contains all words.
    pub fn matches(&self, event: &Event) -> bool {
        words_of(event).is_some_and(|words| self.is_among(&words))
    }

    /// Returns true if all words are among these.
    pub(crate) fn is_among(&self, words: &[String]) -> bool {
        !self.words.is_empty() && self.words.iter().all(|word| words.contains(word))
    }
}

/// Returns true for `language:en`, but not for `https://example.com`.
fn is_extension(part: &str) -> bool {
    part.split_once(':').is_some_and(|(key, value)| {
        let is_name = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        is_name && !key.is_empty() && !value.is_empty() && !value.starts_with('/')
    })
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
