//! Fee rates, and the blocks that miners would make of the mempool now.
//!
//! `projection` and what it is made of, `recommended`, `family` and `retarget` are pure; `projections`, `block_fees`
//! and `replacement_tree` read the index, the first two once for all who ask. This file has the node's own figures: its
//! estimates for all targets, and the lowest rate of its mempool.
//!
//! The rate of one transaction comes from its cluster in the snapshot of the answer, so it is never older than that.

mod ancestors;
pub mod bench;
mod block_fees;
pub mod family;
mod linearize;
mod members;
mod min_cut;
mod projection;
mod projections;
mod recommended;
mod replacement_tree;
mod retarget;

pub(crate) use self::block_fees::KnownBlockFees;
pub use self::block_fees::{BlockFees, quotient};
pub(crate) use self::projection::BLOCKS_MAX;
pub use self::projection::{Place, ProjectedBlock};
pub use self::projections::Projection;
pub(crate) use self::projections::Projections;
pub use self::recommended::{RateStep, Rates};
pub(crate) use self::replacement_tree::{newest, tree_of};
pub use self::retarget::Estimate;
pub(crate) use self::retarget::{Retarget, Rule};

use std::collections::BTreeMap;
use std::time::Duration;

use birdhouse_chain::source::{Node, NodeError};
use birdhouse_chain::{NodeValue, NodeValues};
use bitcoin::BlockHash;

use crate::wire::Failure;

/// Confirmation targets in blocks.
const TARGETS: [u16; 28] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 144, 504, 1008];
/// Time for which the estimates stay valid at one tip.
const FRESH: Duration = Duration::from_mins(1);
/// Time for which the lowest fee rate stays valid.
const FRESH_MINIMUM: Duration = Duration::from_secs(5);
/// sat/vB in one BTC/kvB.
const SAT_VB: f64 = 100_000.0;

/// Fee rates in sat/vB by confirmation target.
pub(crate) type Estimates = BTreeMap<u16, f64>;

/// The part that the node may have in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeUse {
    /// Its figures that are known. It may be asked later.
    NotYet,
    /// It may be asked: the question has a turn.
    Turn,
    /// None: no turn came in time, because it is silent to those who have one.
    Silent,
}

/// The last figures.
#[derive(Debug)]
pub(crate) struct Fees {
    estimates: NodeValues<(), Estimates>,
    minimum: NodeValues<(), f64>,
}

impl Default for Fees {
    fn default() -> Self {
        Self { estimates: NodeValues::new(FRESH), minimum: NodeValues::new(FRESH_MINIMUM) }
    }
}

impl Fees {
    /// Returns the estimates at the tip; targets that the node has no estimate for are left out.
    pub(crate) fn estimates(
        &self,
        tip: BlockHash,
        node: &dyn Node,
        node_use: NodeUse,
    ) -> Result<NodeValue<Estimates>, Failure> {
        get(&self.estimates, Some(tip), node_use, || estimates(node))
    }

    /// Returns the lowest fee rate of the node's mempool in sat/vB.
    pub(crate) fn minimum(&self, node: &dyn Node, node_use: NodeUse) -> Result<NodeValue<f64>, Failure> {
        get(&self.minimum, None, node_use, || {
            let info = node.mempool_info()?;
            recommended::minimum(info.get()).ok_or_else(|| NodeError::unavailable("getmempoolinfo has another shape"))
        })
    }
}

/// Returns a value that is known, or one that the node is asked for in its turn.
fn get<V: Clone>(
    values: &NodeValues<(), V>,
    tip: Option<BlockHash>,
    node_use: NodeUse,
    ask: impl FnOnce() -> Result<V, NodeError>,
) -> Result<NodeValue<V>, Failure> {
    if let Some(known) = values.known(&(), tip) {
        return Ok(known);
    }
    let found = match node_use {
        NodeUse::NotYet => return Err(Failure::Unasked),
        NodeUse::Turn => values.get(&(), tip, ask),
        NodeUse::Silent => values.get(&(), tip, || Err(NodeError::unavailable("the node answers nobody in time"))),
    };
    Ok(found?)
}

fn estimates(node: &dyn Node) -> Result<Estimates, NodeError> {
    let mut estimates = Estimates::new();
    for target in TARGETS {
        if let Some(rate) = node.estimate_fee(target, None)? {
            estimates.insert(target, rate * SAT_VB);
        }
    }
    Ok(estimates)
}
