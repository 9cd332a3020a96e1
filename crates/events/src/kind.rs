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

impl Kind {
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
