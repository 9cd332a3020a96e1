//! Settings of the engine.

/// Settings of the engine that an operator may change.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// Bytes of rows that are written and not yet flushed; up to three times as much while a flush is under way.
    pub memtable_bytes: usize,
    /// Bytes at which a run goes on in a new segment.
    pub segment_bytes: u64,
    /// Bytes of blocks that are kept in memory, of all tables together.
    pub cache_bytes: u64,
}

impl Default for SegmentOptions {
    fn default() -> Self {
        Self { memtable_bytes: 32 << 20, segment_bytes: 256 << 20, cache_bytes: 64 << 20 }
    }
}
