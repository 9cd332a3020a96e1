//! The snapshot of an update.

use birdhouse_chain::Snapshot;
use birdhouse_chain::source::BlockId;
use bitcoin::Network;

use super::retry::Retry;

/// The scripts that an update reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Touched,
    All,
}

/// The snapshot of an update, and what the update means for all watches.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) at: &'a Snapshot,
    pub(super) now: u64,
    pub(super) network: Network,
    pub(super) dropped_after_s: u64,
    pub(super) scope: Scope,
    pub(super) is_backlog: bool,
    pub(super) has_new_tip: bool,
    /// True if the block that was announced last is not in the chain.
    pub(super) is_reorg: bool,
}

impl Moment<'_> {
    /// True while what failed is left alone: until the pause is over, but for a look at everything.
    pub(super) fn is_too_early_for(&self, retry: Option<Retry>) -> bool {
        self.scope == Scope::Touched && retry.is_some_and(|retry| !retry.is_due(self.now))
    }

    /// The same snapshot for a watch of which this block was announced last.
    pub(super) fn since(&self, announced: BlockId) -> Self {
        let is_reorg = self.at.block_hash(announced.height) != Some(announced.hash);
        Self { is_backlog: true, has_new_tip: true, is_reorg, ..*self }
    }
}
