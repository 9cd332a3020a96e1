//! How large a filter may be.

/// Bounds of one filter. A larger one is refused, with a reason that names the bound; nothing is cut silently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterLimits {
    /// Ids, authors, kinds and values of tags, all together.
    pub values_max: usize,
    /// Conditions on tags: one for each `#` letter, and one for each value of an `&` letter.
    pub tag_conditions_max: usize,
    /// Bytes of one value of a tag.
    pub tag_value_bytes_max: usize,
    /// Bytes of `search`.
    pub search_bytes_max: usize,
    /// What becomes of a filter that says more than is understood.
    pub unknown_keys: UnknownKeys,
}

/// What becomes of a filter with keys that NIP-01, 50 and 91 do not know. (A condition on tags of longer names is always
/// refused: without it the filter would ask for everything.)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownKeys {
    /// They are skipped, as most relays do: many clients send keys of their own.
    #[default]
    Ignored,
    /// The filter is refused, as NIP-01 has it.
    Unsupported,
}

impl Default for FilterLimits {
    /// Room for a feed of 10 000 authors twice over, and for values as long as names in practice are.
    fn default() -> Self {
        Self {
            values_max: 20_000,
            tag_conditions_max: 32,
            tag_value_bytes_max: 1024,
            search_bytes_max: 256,
            unknown_keys: UnknownKeys::Ignored,
        }
    }
}
