//! Kinds of events, and how a relay stores them ([NIP-01]).
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

/// Storage rule for the events of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindClass {
    /// All events are stored.
    Regular,
    /// The latest event of an author is stored.
    Replaceable,
    /// No event is stored; events go to subscribers only.
    Ephemeral,
    /// The latest event of an author for each `d` tag is stored.
    Addressable,
}

// === impl Kind ===

impl Kind {
    /// Profile of the author, as JSON (NIP-01).
    pub const METADATA: Self = Self(0);
    /// Direct message that only its recipient can read (NIP-04).
    pub const DIRECT_MESSAGE: Self = Self(4);
    /// Request to delete other events (NIP-09).
    pub const DELETION: Self = Self(5);
    /// Repost of a note (NIP-18).
    pub const REPOST: Self = Self(6);
    /// Repost of an event of any kind (NIP-18).
    pub const GENERIC_REPOST: Self = Self(16);
    /// Request to delete everything of its author (NIP-62).
    pub const VANISH: Self = Self(62);
    /// Gift wrap: a message that only its recipient can open (NIP-59).
    pub const GIFT_WRAP: Self = Self(1059);
    /// Ephemeral gift wrap, which is not stored.
    pub const EPHEMERAL_GIFT_WRAP: Self = Self(21_059);
    /// Authentication of a client, sent in `AUTH` only (NIP-42).
    pub const CLIENT_AUTH: Self = Self(22_242);

    /// Returns the storage rule of this kind.
    pub fn class(self) -> KindClass {
        match self.0 {
            0 | 3 | 10_000..20_000 => KindClass::Replaceable,
            20_000..30_000 => KindClass::Ephemeral,
            30_000..40_000 => KindClass::Addressable,
            _ => KindClass::Regular,
        }
    }

    /// Returns true if deletion requests apply to events of this kind: to all but requests (NIP-09).
    pub(crate) fn is_deletable(self) -> bool {
        !matches!(self, Self::DELETION | Self::VANISH)
    }
}
