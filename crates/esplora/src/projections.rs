//! The projected blocks of the last mempool that was asked about.

use std::sync::Arc;

use birdhouse_chain::Snapshot;
use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::projection::{ProjectedBlock, candidates, project};

/// Projected blocks of one state of the mempool.
type Known = (State, Arc<Vec<ProjectedBlock>>);

/// The projection of the last mempool that was asked about.
#[derive(Debug, Default)]
pub(crate) struct Projections {
    last: Mutex<Option<Known>>,
}

/// Differs, with all likelihood, between any two mempools that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    tip: BlockHash,
    transactions: usize,
    vsize: u64,
    fees: u64,
}

impl Projections {
    /// Returns the blocks that miners would make of a snapshot's mempool.
    pub(crate) fn of(&self, at: &Snapshot) -> Arc<Vec<ProjectedBlock>> {
        let mempool = at.mempool();
        let state =
            State { tip: at.tip().hash, transactions: mempool.len(), vsize: mempool.vsize(), fees: mempool.fees() };
        // Those who come meanwhile wait for the same projection.
        let mut last = self.last.lock();
        if let Some((known, blocks)) = &*last
            && *known == state
        {
            return Arc::clone(blocks);
        }
        let blocks = Arc::new(project(&candidates(mempool)));
        *last = Some((state, Arc::clone(&blocks)));
        blocks
    }
}
