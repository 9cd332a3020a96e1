//! Tags: lists of strings, of which the first names the tag.

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tag(pub Vec<String>);

/// The name of a tag that filters can ask for: `a` to `z`, `A` to `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letter(u8);

impl Tag {
    /// What the tag is called.
    pub fn name(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Its first value.
    pub fn value(&self) -> Option<&str> {
        self.0.get(1).map(String::as_str)
    }

    /// Letter and first value, of a tag by which events are found (NIP-01).
    pub fn indexed(&self) -> Option<(Letter, &str)> {
        Some((Letter::parse(self.name()?)?, self.value()?))
    }
}

impl Letter {
    /// A name of one letter.
    pub fn parse(name: &str) -> Option<Self> {
        match name.as_bytes() {
            [letter] if letter.is_ascii_alphabetic() => Some(Self(*letter)),
            _ => None,
        }
    }

    /// In ASCII.
    pub fn byte(self) -> u8 {
        self.0
    }
}
