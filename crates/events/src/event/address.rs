//! Addresses of replaceable and addressable events, and which of two versions at an address is the latest ([NIP-01]).
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

use std::cmp::Reverse;
use std::fmt;

use crate::event::kind::{Kind, KindClass};
use crate::event::{Event, Pubkey};

/// Kind, author and, for addressable events, `d` tag: the part that all versions of an event share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    kind: Kind,
    author: Pubkey,
    /// Empty for replaceable events.
    d: String,
}

// === impl Address ===

impl Address {
    /// Parses an `a` tag's value: `kind:pubkey:d`, with a final colon if there is no `d`. Returns `None` for an address
    /// that no event can have: another class of kind, or a `d` of a replaceable event.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        let (author, d) = rest.split_once(':')?;
        let number = kind.parse().ok().filter(|number: &u16| number.to_string() == kind)?;
        let kind = Kind(number);
        let fits = match kind.class() {
            KindClass::Addressable => true,
            KindClass::Replaceable => d.is_empty(),
            KindClass::Regular | KindClass::Ephemeral => false,
        };
        fits.then_some(Self { kind, author: Pubkey::parse(author)?, d: d.to_owned() })
    }

    /// Returns the kind of the event.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the author, who alone can publish new versions.
    pub fn author(&self) -> Pubkey {
        self.author
    }

    /// Returns the `d` tag, which tells the author's events of a kind apart; empty for replaceable events.
    pub fn d(&self) -> &str {
        &self.d
    }
}

/// Formats the address as the value of an `a` tag.
impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.kind.0, self.author, self.d)
    }
}

// === impl Event ===

impl Event {
    /// Returns the event's address, or `None` for events that have only one version.
    pub fn address(&self) -> Option<Address> {
        let d = match self.kind.class() {
            KindClass::Replaceable => "",
            KindClass::Addressable => self.d(),
            KindClass::Regular | KindClass::Ephemeral => return None,
        };
        Some(Address { kind: self.kind, author: self.pubkey, d: d.to_owned() })
    }

    /// Returns true if this version is later than the other one at its address: newer, or as new with a lower id.
    pub fn supersedes(&self, other: &Self) -> bool {
        (self.created_at, Reverse(self.id)) > (other.created_at, Reverse(other.id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::samples::{event, keys};
    use crate::event::{EventId, Timestamp};

    #[test]
    fn classes_of_kinds_are_those_of_nip_01() {
        for (kind, class) in [
            (0, KindClass::Replaceable),
            (1, KindClass::Regular),
            (3, KindClass::Replaceable),
            (41, KindClass::Regular),
            (999, KindClass::Regular),
            (9_999, KindClass::Regular),
            (10_000, KindClass::Replaceable),
            (19_999, KindClass::Replaceable),
            (20_000, KindClass::Ephemeral),
            (29_999, KindClass::Ephemeral),
            (30_000, KindClass::Addressable),
            (39_999, KindClass::Addressable),
            (40_000, KindClass::Regular),
            (65_535, KindClass::Regular),
        ] {
            assert_eq!(Kind(kind).class(), class, "{kind}");
        }
    }

    #[test]
    fn address_of_an_addressable_event_has_its_first_d_tag() {
        let d = |tags: &[&[&str]]| event(30_023, 1, tags, "").address().expect("addressable").d;
        assert_eq!(d(&[&["e", "x"], &["d", "first:colon"], &["d", "second"]]), "first:colon");
        let without: [&[&[&str]]; 5] = [&[], &[&["d"]], &[&["d", ""]], &[&["d"], &["d", "later"]], &[&["D", "x"]]];
        for none in without {
            assert_eq!(d(none), "", "{none:?}");
        }
    }

    #[test]
    fn address_of_a_replaceable_event_has_no_d() {
        assert_eq!(event(10_002, 1, &[&["d", "x"]], "").address().expect("replaceable").d(), "");
        assert_eq!(event(1, 1, &[&["d", "x"]], "").address(), None);
        assert_eq!(event(20_001, 1, &[&["d", "x"]], "").address(), None);
    }

    #[test]
    fn address_is_read_as_a_tag_has_it() {
        let author = keys(1).pubkey();
        for good in [format!("30023:{author}:a:b"), format!("30023:{author}:"), format!("10002:{author}:")] {
            assert_eq!(Address::parse(&good).expect(&good).to_string(), good);
        }
        let upper = author.to_string().to_uppercase();
        for bad in [
            format!("10002:{author}"),
            format!("10002:{author}:x"),
            format!("1:{author}:"),
            format!("5:{author}:"),
            format!("20001:{author}:"),
            format!("95559:{author}:"),
            format!(":{author}:"),
            format!("+30023:{author}:"),
            format!("030023:{author}:"),
            format!("30023:{upper}:"),
            "30023::".to_owned(),
            String::new(),
        ] {
            assert_eq!(Address::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn replaceable_event_with_equal_time_keeps_lowest_id() {
        let version = |created_at, id| Event {
            created_at: Timestamp(created_at),
            id: EventId([id; 32]),
            ..event(0, 0, &[], "").into_event()
        };
        assert!(version(5, 9).supersedes(&version(4, 1)));
        assert!(version(5, 1).supersedes(&version(5, 2)));
        assert!(!version(5, 2).supersedes(&version(5, 1)));
        assert!(!version(4, 1).supersedes(&version(5, 9)));
        assert!(!version(5, 1).supersedes(&version(5, 1)));
    }

    proptest! {
        /// Of two different versions, exactly one wins, in either order of arrival.
        #[test]
        fn one_of_two_versions_supersedes_the_other(times in any::<[u64; 2]>(), ids in any::<[[u8; 32]; 2]>()) {
            let base = event(0, 0, &[], "").into_event();
            let [one, other] = [0, 1].map(|side| {
                Event { created_at: Timestamp(times[side]), id: EventId(ids[side]), ..base.clone() }
            });
            let differ = (one.created_at, one.id) != (other.created_at, other.id);
            prop_assert_eq!(one.supersedes(&other) != other.supersedes(&one), differ);
        }
    }
}
