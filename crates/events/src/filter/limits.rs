//! Limits on the size of filters.

/// Limits on one filter. A larger filter is refused with a reason that names the limit; nothing is cut silently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterLimits {
    /// Ids, authors, kinds and values of tags, all together.
    pub values_max: usize,
    /// Conditions on tags: one for each `#` letter, and one for each value of an `&` letter.
    pub tag_conditions_max: usize,
    /// Bytes of one value of a tag; at least those of [`EventLimits`](crate::EventLimits), so that every event is
    /// found.
    pub tag_value_bytes_max: usize,
    /// Bytes of `search`.
    pub search_bytes_max: usize,
    /// Treatment of unknown keys.
    pub unknown_keys: UnknownKeys,
}

/// Treatment of filters with keys that NIP-01, NIP-50 and NIP-91 do not define. (A condition on tags with longer names
/// is always refused: without it, the filter would ask for everything.)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownKeys {
    /// Unknown keys are ignored, as most relays do: many clients send keys of their own.
    #[default]
    Ignored,
    /// The filter is refused, as NIP-01 requires.
    Unsupported,
}

impl Default for FilterLimits {
    /// Room for two feeds of 10 000 authors, and for the values of events.
    fn default() -> Self {
        Self {
            values_max: 20_000,
            tag_conditions_max: 32,
            tag_value_bytes_max: 8192,
            search_bytes_max: 256,
            unknown_keys: UnknownKeys::Ignored,
        }
    }
}
