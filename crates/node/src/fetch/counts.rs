//! Counts of the blocks that were brought back, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of fetched blocks.
#[derive(Debug, Default)]
pub struct FetchCounters {
    blocks: AtomicU64,
    failures: AtomicU64,
    kept_bytes: AtomicU64,
}

/// Figures on the fetched blocks so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchCounts {
    /// Blocks that a peer of the node has sent.
    pub blocks: u64,
    /// Blocks that none has sent.
    pub failures: u64,
    /// Bytes of the old transactions that are kept on disk. 0 until one is wanted.
    pub kept_bytes: u64,
}

impl FetchCounters {
    pub(super) fn count_block(&self) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_kept_bytes(&self, bytes: u64) {
        self.kept_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the figures so far.
    pub fn counts(&self) -> FetchCounts {
        FetchCounts {
            blocks: self.blocks.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            kept_bytes: self.kept_bytes.load(Ordering::Relaxed),
        }
    }
}
