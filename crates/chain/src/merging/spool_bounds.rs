//! Bounds of blocks that are appended by way of records on disk.

use crate::build::{RECORDS_PER_SCRIPT, Record};
use crate::merging::FILTERED_SCRIPTS_MAX;

/// Bounds of one pack whose records lie on disk until it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolBounds {
    /// Bytes of records and txids after which no more blocks are read.
    pub bytes_max: u64,
    /// Bytes for which there must be room at least. Where there is less, blocks are appended within memory.
    pub bytes_min: u64,
    /// Blocks whose hashes the node is asked for at once.
    pub asked_blocks: u32,
    /// Spent outputs of earlier blocks that wait in memory until they are looked up.
    pub spends_held: usize,
    /// Funding transactions of these that are looked up at once.
    pub looked_up: usize,
}

impl SpoolBounds {
    /// The bounds of a server: some eight million transactions a pack, 30 MB of spent outputs that wait.
    pub const DEFAULT: Self =
        Self { bytes_max: 3 << 29, bytes_min: 64 << 20, asked_blocks: 1024, spends_held: 1 << 18, looked_up: 1 << 16 };
}

/// The largest pack has filters, so that a lookup seldom reads it in vain.
const _: () =
    assert!(SpoolBounds::DEFAULT.bytes_max <= FILTERED_SCRIPTS_MAX * RECORDS_PER_SCRIPT * size_of::<Record>() as u64);

/// Packs by way of records on disk, since an index was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// Those for which blocks were read.
    pub begun: u64,
    /// Those that were published.
    pub published: u64,
}
