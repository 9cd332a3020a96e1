//! State of appending by way of records on disk, between two packs.

use crate::build::BuildOptions;
use crate::merging::SpoolCounts;

/// Bounds, and what earlier attempts have met.
#[derive(Debug, Default)]
pub(super) struct SpoolState {
    /// The bounds of the last build, once there was one.
    pub(super) options: Option<BuildOptions>,
    /// Blocks below this height are appended in other ways: one of them cannot be spooled, or spooling them failed.
    pub(super) from: u32,
    /// The height after the last block that was read for a pack.
    pub(super) reached: u32,
    /// Set once the log has a warning that spooling failed.
    pub(super) has_failed: bool,
    pub(super) counts: SpoolCounts,
}
