//! The profile of an index.

use std::fmt;

/// Optional tables of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// With txids, 32 bytes a transaction: a history answer reads no transaction.
    #[default]
    Full,
    /// Without txids: queries hash them from the node's block files.
    Lean,
}

/// Writes the name that the setting has.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Lean => "lean",
        })
    }
}
