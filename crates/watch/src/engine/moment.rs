//! The snapshot of an update.

use birdhouse_chain::Snapshot;
use bitcoin::Network;

/// The snapshot of an update, and what the update means for all watches.
pub(super) struct Moment<'a> {
    pub(super) at: &'a Snapshot,
    pub(super) now: u64,
    pub(super) network: Network,
    pub(super) dropped_after_s: u64,
    pub(super) is_backlog: bool,
    pub(super) has_new_tip: bool,
    /// True if the block that was announced last is not in the chain.
    pub(super) is_reorg: bool,
}
