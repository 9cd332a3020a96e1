//! The profile of an index.

/// Optional tables of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// With txids, 32 bytes a transaction: a history answer reads no transaction.
    #[default]
    Full,
    /// Without txids: queries hash them from the node's block files.
    Lean,
}
