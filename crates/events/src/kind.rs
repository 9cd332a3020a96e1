//! Kinds of events, and how a relay keeps them (NIP-01).

/// A kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

/// How a relay keeps events of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindClass {
    /// All of them.
    Regular,
    /// The latest of an author.
    Replaceable,
    /// None: they are only told.
    Ephemeral,
    /// The latest of an author for each `d` tag.
    Addressable,
}

// === impl Kind ===

impl Kind {
    /// What its author says of itself, as JSON (NIP-01).
    pub const METADATA: Self = Self(0);
    /// A message whose content its recipient alone can read (NIP-04).
    pub const DIRECT_MESSAGE: Self = Self(4);
    /// Asks for the deletion of other events (NIP-09).
    pub const DELETION: Self = Self(5);
    /// Shows another event, a note (NIP-18).
    pub const REPOST: Self = Self(6);
    /// Shows another event of any kind (NIP-18).
    pub const GENERIC_REPOST: Self = Self(16);
    /// Asks a relay to forget its author (NIP-62).
    pub const VANISH: Self = Self(62);
    /// A message that its recipient alone can open (NIP-59).
    pub const GIFT_WRAP: Self = Self(1059);
    /// The same, not kept.
    pub const EPHEMERAL_GIFT_WRAP: Self = Self(21_059);
    /// Says who a client is; travels in `AUTH` only (NIP-42).
    pub const CLIENT_AUTH: Self = Self(22_242);

    /// How events of this kind are kept.
    pub fn class(self) -> KindClass {
        match self.0 {
            0 | 3 | 10_000..20_000 => KindClass::Replaceable,
            20_000..30_000 => KindClass::Ephemeral,
            30_000..40_000 => KindClass::Addressable,
            _ => KindClass::Regular,
        }
    }
}
