//! The node's figures about fees: every wallet asks for the same ones.

use std::time::Duration;

use birdhouse_chain::NodeValues;

use crate::protocol::Fees;
use crate::request::FeeQuery;

/// Time for which an answer of the node is valid at its tip. The mempool's own minimum moves within a block.
const FRESH: Duration = Duration::from_secs(5);

/// The figures by query.
pub(crate) type KnownFees = NodeValues<FeeQuery, Fees>;

/// Returns no figures yet.
pub(super) fn none_known() -> KnownFees {
    NodeValues::new(FRESH)
}
