//! Texts that nobody else may read: wiped when dropped, printed as dots.

use std::fmt;

use zeroize::Zeroizing;

/// A secret text.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(Zeroizing<String>);

impl Secret {
    pub(super) fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    /// Returns the text, for the wire alone.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"…\"")
    }
}
