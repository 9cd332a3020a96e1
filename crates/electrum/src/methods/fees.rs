//! Fees: the node's figures, in BTC/kvB, and the fee rates that the mempool pays.

use std::time::Instant;

use birdhouse_chain::Snapshot;
use birdhouse_chain::source::Node;
use serde::Deserialize;

use crate::answer::{Answer, Fees, MempoolFees};
use crate::error::RpcError;
use crate::fee_cache::FeeCache;
use crate::request::{FeeMode, FeeQuery};
use crate::service::View;

/// Transactions in the answer to `mempool.recent`, at most.
const RECENT: usize = 10;

/// Returns the cached answer to a query.
pub(crate) fn known(cache: &FeeCache, view: &View, query: FeeQuery) -> Option<Answer> {
    cache.get(query, view.tip_hash(), Instant::now()).map(Answer::Fees)
}

/// `blockchain.estimatefee`, `blockchain.relayfee` and `mempool.get_info`.
pub(crate) fn ask(cache: &FeeCache, view: &View, node: &dyn Node, query: FeeQuery) -> Result<Answer, RpcError> {
    // Another client may have got the answer while this one waited for its turn.
    if let Some(answer) = known(cache, view, query) {
        return Ok(answer);
    }
    let fees = match query {
        FeeQuery::EstimateFee { blocks, mode } => Fees::One(node.estimate_fee(blocks, mode.map(FeeMode::into))?),
        FeeQuery::RelayFee => Fees::One(Some(node.relay_fee()?)),
        FeeQuery::MempoolInfo => Fees::Mempool(mempool(node)?),
    };
    cache.put(query, view.tip_hash(), fees, Instant::now());
    Ok(Answer::Fees(fees))
}

fn mempool(node: &dyn Node) -> Result<MempoolFees, RpcError> {
    #[derive(Deserialize)]
    struct Info {
        #[serde(rename = "mempoolminfee")]
        mempool_min: f64,
        #[serde(rename = "minrelaytxfee")]
        relay_min: f64,
        #[serde(rename = "incrementalrelayfee")]
        increment: f64,
    }
    let info = node.mempool_info()?;
    let Info { mempool_min, relay_min, increment } =
        serde_json::from_str(info.get()).map_err(|_| RpcError::unknown_shape("getmempoolinfo"))?;
    Ok(MempoolFees { mempool_min, relay_min, increment })
}

/// `mempool.get_fee_histogram`.
pub(crate) fn histogram(at: &Snapshot) -> Answer {
    Answer::FeeHistogram(at.mempool().fee_histogram())
}

/// `mempool.recent`.
pub(crate) fn recent(at: &Snapshot) -> Answer {
    Answer::Recent(at.mempool().recent(RECENT))
}
