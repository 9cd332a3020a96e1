//! Core's fee estimates for all targets, cached for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use birdhouse_chain::source::{Node, NodeError};
use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::failure::Failure;
use crate::recommended;

/// Confirmation targets in blocks.
const TARGETS: [u16; 28] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 144, 504, 1008];
/// Time for which an answer stays valid at one tip.
const FRESH: Duration = Duration::from_mins(1);
/// Time for which the lowest fee rate stays valid.
const FRESH_MINIMUM: Duration = Duration::from_secs(5);
/// sat/vB in one BTC/kvB.
const SAT_VB: f64 = 100_000.0;

/// Fee rates in sat/vB by confirmation target.
pub(crate) type Estimates = BTreeMap<u16, f64>;

/// The lowest fee rate of the node's mempool, cached for a while.
#[derive(Debug, Default)]
pub(crate) struct MinimumRate {
    last: Mutex<Option<(Instant, f64)>>,
}

impl MinimumRate {
    /// Returns the rate in sat/vB.
    pub(crate) fn get<'a>(&self, node: impl FnOnce() -> Result<&'a dyn Node, Failure>) -> Result<f64, Failure> {
        let mut last = self.last.lock();
        if let Some((at, rate)) = *last
            && at.elapsed() < FRESH_MINIMUM
        {
            return Ok(rate);
        }
        let info = node()?.mempool_info()?;
        let rate = recommended::minimum(info.get()).ok_or_else(Failure::internal)?;
        *last = Some((Instant::now(), rate));
        Ok(rate)
    }
}

/// The last estimates.
#[derive(Debug, Default)]
pub(crate) struct FeeEstimates {
    last: Mutex<Option<(BlockHash, Instant, Estimates)>>,
}

impl FeeEstimates {
    /// Returns the estimates at a tip; targets that the node has no estimate for are left out.
    pub(crate) fn get<'a>(
        &self,
        node: impl FnOnce() -> Result<&'a dyn Node, Failure>,
        tip: BlockHash,
    ) -> Result<Estimates, Failure> {
        // Those who come meanwhile wait for the same answer.
        let mut last = self.last.lock();
        if let Some((known, at, estimates)) = &*last
            && *known == tip
            && at.elapsed() < FRESH
        {
            return Ok(estimates.clone());
        }
        let estimates = ask(node()?)?;
        *last = Some((tip, Instant::now(), estimates.clone()));
        Ok(estimates)
    }
}

fn ask(node: &dyn Node) -> Result<Estimates, NodeError> {
    let mut estimates = Estimates::new();
    for target in TARGETS {
        if let Some(rate) = node.estimate_fee(target, None)? {
            estimates.insert(target, rate * SAT_VB);
        }
    }
    Ok(estimates)
}
