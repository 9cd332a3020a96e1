//! Tags: lists of strings, of which the first is the tag's name.

use std::fmt;

/// Tag of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tag(pub Vec<String>);

/// Name of a tag that filters can ask for: `a` to `z`, `A` to `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letter(u8);

/// Set of letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letters(u64);

impl Tag {
    /// Returns the tag's name.
    pub fn name(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Returns the first value.
    pub fn value(&self) -> Option<&str> {
        self.0.get(1).map(String::as_str)
    }

    /// Returns letter and first value of a tag by which events are found (NIP-01).
    pub fn indexed(&self) -> Option<(Letter, &str)> {
        Some((Letter::parse(self.name()?)?, self.value()?))
    }
}

impl Letter {
    /// Parses a name of one letter.
    pub fn parse(name: &str) -> Option<Self> {
        match name.as_bytes() {
            [letter] if letter.is_ascii_alphabetic() => Some(Self(*letter)),
            _ => None,
        }
    }

    /// Returns the letter in ASCII.
    pub fn byte(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        char::from(self.0).fmt(f)
    }
}

// === impl Letters ===

impl Letters {
    /// All 52 letters.
    pub const ALL: Self = Self((1 << 52) - 1);

    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        (bits & !Self::ALL.0 == 0).then_some(Self(bits))
    }

    pub(crate) fn contains(self, letter: Letter) -> bool {
        !Self(self.0 & Self::from(letter).0).is_empty()
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the letters that are not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Letter> for Letters {
    fn from(Letter(byte): Letter) -> Self {
        Self(1 << if byte.is_ascii_lowercase() { byte - b'a' } else { byte - b'A' + 26 })
    }
}

impl FromIterator<Letter> for Letters {
    fn from_iter<T: IntoIterator<Item = Letter>>(letters: T) -> Self {
        letters.into_iter().map(Self::from).fold(Self::NONE, Self::union)
    }
}
