//! Events as [NIP-01] defines them.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

mod accepted;
mod address;
mod deletion;
mod event_limits;
pub mod hex;
mod kind;
mod mistake;
mod position;
mod rejection;
mod relay_url;
mod retention;
#[cfg(test)]
pub(crate) mod samples;
mod seq;
mod tag;

mod canonical;
mod escape;
mod json;
mod sign;
mod tag_values;
mod verified;

pub use self::accepted::{Accepted, DeletedBy};
pub use self::address::Address;
pub use self::deletion::{Deletion, Vanish};
pub(crate) use self::escape::{Controls, is_simple, write_string};
pub use self::event_limits::{Admitted, EventLimits};
pub use self::json::Malformed;
pub(crate) use self::json::{Hex, write_to_content, write_to_end, write_to_tags};
pub use self::kind::{Kind, KindClass};
pub(crate) use self::mistake::{Form, mistake};
pub use self::position::Position;
pub use self::rejection::{Reason, Rejection};
pub use self::relay_url::RelayUrl;
pub(crate) use self::retention::Facts;
pub use self::retention::{Amount, Judged, Retention, RetentionRule, Sweep};
pub use self::seq::Seq;
pub use self::sign::{Keys, UnsignedEvent};
pub use self::tag::{Letter, Letters, Tag};
pub use self::verified::VerifiedEvent;

use std::cmp::Ordering;
use std::fmt;

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
#[path = "id_tests.rs"]
mod tests;
