//! Event -> the words by which a search finds it. Pure.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::event::{Event, Kind};
use crate::text::tokens::{Side, words};

/// Kinds whose content is text for people, ascending: profiles, notes, chat, threads, pictures, videos, messages of
/// channels, comments, live chat, issues, torrents, highlights, articles, live events, listings, wiki pages, calendar
/// events, communities.
pub(crate) const TEXT_KINDS: [Kind; 22] = [
    Kind::METADATA,
    Kind(1),
    Kind(9),
    Kind(11),
    Kind(20),
    Kind(21),
    Kind(22),
    Kind(40),
    Kind(41),
    Kind(42),
    Kind(1111),
    Kind(1311),
    Kind(1621),
    Kind(2003),
    Kind(9802),
    Kind(30_023),
    Kind(30_311),
    Kind(30_402),
    Kind(30_818),
    Kind(31_922),
    Kind(31_923),
    Kind(34_550),
];
/// Tags whose values are text, too.
const TEXT_TAGS: [&str; 4] = ["title", "subject", "summary", "name"];
/// Separator of two texts.
const BETWEEN: &str = "\n";
/// Fields of a profile that are text for people. A profile is a JSON object (NIP-01, NIP-24).
const PROFILE_FIELDS: [&str; 4] = ["name", "display_name", "about", "nip05"];

impl Kind {
    /// Returns true if a search finds events of this kind.
    pub(crate) fn is_text(self) -> bool {
        TEXT_KINDS.binary_search(&self).is_ok()
    }
}

/// Returns the words of an event; `None` if no search finds its kind.
pub(crate) fn words_of(event: &Event) -> Option<Vec<String>> {
    text_of(event).map(|text| words(&text, Side::Event))
}

/// Returns the text of an event for people, in parts that no word spans; `None` if no search finds its kind.
pub(crate) fn text_of(event: &Event) -> Option<Cow<'_, str>> {
    if !event.kind.is_text() {
        return None;
    }
    if event.kind == Kind::METADATA {
        let profile: Map<String, Value> = serde_json::from_str(&event.content).unwrap_or_default();
        let texts = PROFILE_FIELDS.iter().filter_map(|field| profile.get(*field)?.as_str());
        return Some(texts.collect::<Vec<_>>().join(BETWEEN).into());
    }
    let mut text = Cow::Borrowed(&*event.content);
    for value in TEXT_TAGS.iter().flat_map(|name| event.values(name)) {
        let text = text.to_mut();
        text.push_str(BETWEEN);
        text.push_str(value);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::samples::event;

    #[test]
    fn profiles_are_found_by_what_they_say_articles_by_their_title_and_reactions_not_at_all() {
        assert!(TEXT_KINDS.is_sorted());
        let profile = event(0, 1, &[], r#"{"name":"Alice","about":"Likes birds","picture":"https://x.org/y.png"}"#);
        assert_eq!(words_of(&profile).expect("text"), ["alice", "likes", "birds"]);
        assert_eq!(words_of(&event(0, 1, &[], "no JSON")), Some(Vec::new()));
        let article = event(30_023, 1, &[&["title", "On owls"], &["t", "birds"]], "Text");
        assert_eq!(words_of(&article).expect("text"), ["text", "on", "owls"]);
        assert_eq!(words_of(&event(7, 1, &[], "owls")), None);
    }
}
