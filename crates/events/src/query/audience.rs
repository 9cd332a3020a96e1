//! Read access to events: only author and recipients may read a private message ([NIP-04], [NIP-59]), whatever a filter
//! asks for.
//!
//! The content of such a message is encrypted, its sender and recipients are not. A private event that the audience may
//! not read takes no row of a page and is not counted.
//!
//! [NIP-04]: https://github.com/nostr-protocol/nips/blob/master/04.md
//! [NIP-59]: https://github.com/nostr-protocol/nips/blob/master/59.md

use crate::event::{Event, EventId, Kind, Pubkey};
use crate::filter::Filter;
use crate::log::Packed;

/// Readers that an answer is for.
#[derive(Debug, Clone, Copy)]
pub enum Audience<'a> {
    /// The operator, who may read everything.
    Operator,
    /// A client that has authenticated with these keys (NIP-42). Without keys, it reads public events only.
    Authenticated(&'a [Pubkey]),
}

/// Stored events that are in no answer to a client, by a decision of the operator that can be taken back.
pub trait Hide: std::fmt::Debug + Sync {
    /// Returns true if the event of this id and author is hidden.
    fn hides(&self, id: &EventId, author: &Pubkey) -> bool;
}

// === impl Kind, Event, Filter ===

impl Kind {
    /// Returns true if only author and recipients may read events of this kind.
    pub fn is_private(self) -> bool {
        matches!(self, Self::DIRECT_MESSAGE | Self::GIFT_WRAP | Self::EPHEMERAL_GIFT_WRAP)
    }
}

impl Event {
    /// Returns the author and the keys that `p` tags name; `None` if everyone may read the event.
    pub fn readers(&self) -> Option<Vec<Pubkey>> {
        let people = || std::iter::once(self.pubkey).chain(self.values("p").filter_map(Pubkey::parse));
        self.kind.is_private().then(|| people().collect())
    }
}

impl Filter {
    /// Returns true if a private event that this audience may not read can match. It depends on the filter alone: an
    /// answer that depended on the events would tell of them.
    pub fn may_be_withheld(&self, audience: Audience<'_>) -> bool {
        let Audience::Authenticated(people) = audience else { return false };
        let may_be_private = match &self.kinds {
            Some(kinds) => kinds.iter().any(|kind| kind.is_private()),
            // No search finds them.
            None => self.search.is_none(),
        };
        let is_one = |key: &Pubkey| people.contains(key);
        let are_own = self.authors.as_ref().is_some_and(|authors| authors.iter().all(is_one));
        let are_for_own = self.tags.iter().any(|(letter, values)| {
            letter.byte() == b'p' && values.iter().all(|value| Pubkey::parse(value).is_some_and(|key| is_one(&key)))
        });
        may_be_private && !are_own && !are_for_own
    }

    /// Returns true if every event that matches is private.
    pub fn is_private(&self) -> bool {
        self.kinds.as_ref().is_some_and(|kinds| !kinds.is_empty() && kinds.iter().all(|kind| kind.is_private()))
    }
}

// === impl Audience ===

impl Audience<'_> {
    /// Returns true if an event for these readers (`None`: everyone) may go to this audience.
    pub fn is_among(self, readers: Option<&[Pubkey]>) -> bool {
        match (self, readers) {
            (Self::Authenticated(people), Some(readers)) => people.iter().any(|person| readers.contains(person)),
            _ => true,
        }
    }

    /// Returns true if the audience may read an event; `None` if its bytes are damaged.
    pub(super) fn may_read(self, event: Packed<'_>) -> Option<bool> {
        match self {
            Self::Authenticated(people) if event.kind().is_private() => {
                Some(people.contains(&event.pubkey()) || event.names_one_of(people)?)
            }
            Self::Operator | Self::Authenticated(_) => Some(true),
        }
    }
}

/// Returns true if an event is neither hidden nor for others; `None` if its bytes are damaged.
pub(crate) fn shows(audience: Audience<'_>, hidden: Option<&dyn Hide>, event: Packed<'_>) -> Option<bool> {
    let is_hidden = hidden.is_some_and(|hidden| hidden.hides(&event.id(), &event.pubkey()));
    Some(!is_hidden && audience.may_read(event)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::samples::{keys, signed_by};
    use crate::filter::FilterLimits;
    use crate::log::encode;

    fn may_read(event: &Event, people: &[Pubkey]) -> Option<bool> {
        let mut bytes = Vec::new();
        encode(event, &mut bytes);
        Audience::Authenticated(people).may_read(Packed::parse(EventId([0; 32]), &bytes).expect("an event"))
    }

    #[test]
    fn private_messages_are_for_their_author_and_recipients_packed_or_not() {
        let people: Vec<Pubkey> = (1..=4).map(|author| keys(author).pubkey()).collect();
        let [second, third] = [1, 2].map(|index| people[index].to_string());
        let tags: &[&[&str]] = &[&["p", &second], &["e", &third], &[], &["p"], &["p", "no key"], &["p", "x", &third]];
        for (kind, is_private) in [(4, true), (1059, true), (21_059, true), (1, false), (13, false), (14, false)] {
            let event = signed_by(1, kind, 1000, tags, "");
            let readers = event.readers();
            assert_eq!(readers, is_private.then(|| people[..2].to_vec()), "{kind}");
            for person in &people {
                let is_reader = readers.as_ref().is_none_or(|readers| readers.contains(person));
                assert_eq!(may_read(&event, &[*person]), Some(is_reader), "{kind} {person}");
            }
            assert_eq!(may_read(&event, &[]), Some(!is_private));
            assert_eq!(may_read(&event, &people[1..]), Some(true), "one of several is enough");
        }
    }

    #[test]
    fn private_events_are_withheld_unless_all_that_can_match_are_by_or_for_the_reader() {
        let [own, other] = [1, 2].map(|author| keys(author).pubkey());
        let filter = |json: &str| Filter::from_json(json, &FilterLimits::default()).expect("a filter");
        let private = r#""kinds":[1,4]"#;
        for (json, is_withheld) in [
            ("{}".to_owned(), true),
            (format!("{{{private}}}"), true),
            (r#"{"kinds":[1,7]}"#.to_owned(), false),
            (r#"{"search":"owl"}"#.to_owned(), false),
            (format!(r#"{{{private},"authors":["{own}"]}}"#), false),
            (format!(r#"{{{private},"authors":["{own}","{other}"]}}"#), true),
            (format!(r##"{{{private},"#p":["{own}"]}}"##), false),
            (format!(r##"{{{private},"authors":["{other}"],"#p":["{own}"]}}"##), false),
            (format!(r##"{{{private},"#p":["{own}","{other}"]}}"##), true),
            (format!(r##"{{{private},"#e":["{own}"]}}"##), true),
        ] {
            let filter = filter(&json);
            assert_eq!(filter.may_be_withheld(Audience::Authenticated(&[own])), is_withheld, "{json}");
            assert!(!filter.may_be_withheld(Audience::Operator), "{json}");
            let is_private = json != r#"{"kinds":[1,7]}"# && json != r#"{"search":"owl"}"#;
            assert_eq!(filter.may_be_withheld(Audience::Authenticated(&[])), is_private, "{json}");
        }
    }

    #[test]
    fn a_filter_is_private_when_all_its_kinds_are() {
        let filter = |kinds: Option<&[u16]>| Filter {
            kinds: kinds.map(|kinds| kinds.iter().copied().map(Kind).collect()),
            ..Filter::default()
        };
        assert!(filter(Some(&[4])).is_private() && filter(Some(&[4, 1059, 21_059])).is_private());
        assert!(![None, Some(&[][..]), Some(&[1, 4]), Some(&[13])].into_iter().any(|kinds| filter(kinds).is_private()));
    }
}
