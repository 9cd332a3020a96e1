//! Spenders of outputs.

use birdhouse_chain::Snapshot;
use bitcoin::OutPoint;

use crate::views::transaction::Spending;

/// Returns the spender, if a few reads find it. Among the transactions of a long script it is found on request only.
pub(super) fn spending(at: &Snapshot, outpoint: OutPoint) -> Spending {
    match at.within_budget(|at| at.spender_of(outpoint)) {
        Ok(Some(Some(spender))) => Spending::By(spender.txid, spender.vin),
        Ok(Some(None)) => Spending::Unspent,
        Ok(None) | Err(_) => Spending::OnRequest,
    }
}
