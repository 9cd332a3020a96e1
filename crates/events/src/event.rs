//! Events as [NIP-01] defines them.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

pub(crate) mod canonical;
pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod sign;
mod tag_values;
pub(crate) mod verified;

use std::cmp::Ordering;
use std::fmt;

use crate::hex;
use crate::kind::Kind;
use crate::tag::{Letter, Tag};

/// SHA-256 of an event's canonical serialisation (NIP-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventId(pub [u8; 32]);

/// X coordinate of an author's public key ([BIP 340]).
///
/// [BIP 340]: https://github.com/bitcoin/bips/blob/master/bip-0340.mediawiki
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pubkey(pub [u8; 32]);

/// Schnorr signature (BIP 340).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

/// Seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// A Nostr event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Hash of the other fields but the signature.
    pub id: EventId,
    /// Public key of the author.
    pub pubkey: Pubkey,
    /// Time of creation, by the author's clock.
    pub created_at: Timestamp,
    /// Type of the content.
    pub kind: Kind,
    /// Tags, in the order that was signed.
    pub tags: Vec<Tag>,
    /// Arbitrary text.
    pub content: String,
    /// Signature of the id by the author.
    pub sig: Signature,
}

/// Orders a type by its bytes, compared as numbers: a third of the time, and feeds name thousands of authors.
macro_rules! ordered {
    ($name:ident) => {
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                numbers(&self.0).cmp(&numbers(&other.0))
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
    };
}

ordered!(EventId);
ordered!(Pubkey);

fn numbers(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_be_bytes(words[index]))
}

// === impl Event ===

impl Event {
    /// Returns the tags by which events are found: those with a name of one letter, with their first value.
    pub fn indexed_tags(&self) -> impl Iterator<Item = (Letter, &str)> {
        self.tags.iter().filter_map(Tag::indexed)
    }

    /// Returns the first `d` tag's value, which tells an author's addressable events of a kind apart; empty without
    /// one.
    pub fn d(&self) -> &str {
        let d = self.tags.iter().find(|tag| tag.name() == Some("d"));
        d.and_then(Tag::value).unwrap_or_default()
    }
}

// === impl EventId, Pubkey, Timestamp ===

impl EventId {
    /// Parses 64 lowercase hex digits.
    pub fn parse(digits: &str) -> Option<Self> {
        hex::parse(digits).map(Self)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::string(&self.0))
    }
}

impl Pubkey {
    /// Parses 64 lowercase hex digits.
    pub fn parse(digits: &str) -> Option<Self> {
        hex::parse(digits).map(Self)
    }
}

impl fmt::Display for Pubkey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::string(&self.0))
    }
}

impl Timestamp {
    /// Latest time that an event may carry: keys hold 32 bits of it.
    pub const CREATED_AT_MAX: Self = Self(u32::MAX as u64);

    /// Returns the seconds in 32 bits, as on disk. Times beyond that, which no stored event has, become the maximum.
    pub(crate) fn to_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
#[path = "event/id_tests.rs"]
mod tests;
