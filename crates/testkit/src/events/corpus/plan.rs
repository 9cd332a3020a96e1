//! Size and seed of a corpus.

/// Size and seed of a corpus.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The seed: the same plan gives the same corpus.
    pub seed: u64,
    /// Number of events.
    pub events: u64,
}
