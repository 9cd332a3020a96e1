//! Fees: what the node says, in BTC/kvB, and what the mempool pays.

use std::time::Instant;

use birdhouse_chain::Snapshot;
use birdhouse_chain::source::Node;
use serde::Deserialize;

use crate::error::RpcError;
use crate::fee_cache::{FeeCache, Fees, Question};
use crate::request::{FeeMode, Request};
use crate::response::{Answer, MempoolFees};
use crate::service::View;

/// Transactions in the answer to `mempool.recent`, at most.
const RECENT: usize = 10;

/// What a request asks of the node, if it is one of these.
pub(crate) fn question(request: &Request) -> Option<Question> {
    match request {
        Request::EstimateFee { blocks, mode } => Some(Question::Estimate { blocks: *blocks, mode: *mode }),
        Request::RelayFee => Some(Question::Relay),
        Request::MempoolInfo => Some(Question::Mempool),
        _ => None,
    }
}

/// The answer to a question that was asked not long ago.
pub(crate) fn known(cache: &FeeCache, view: &View, question: Question) -> Option<Answer> {
    cache.get(question, view.tip_hash(), Instant::now()).map(Answer::from)
}

/// `blockchain.estimatefee`, `blockchain.relayfee` and `mempool.get_info`.
pub(crate) fn ask(cache: &FeeCache, view: &View, node: &dyn Node, question: Question) -> Result<Answer, RpcError> {
    // Others who waited for their turn with the same question need not ask it again.
    if let Some(answer) = known(cache, view, question) {
        return Ok(answer);
    }
    let fees = match question {
        Question::Estimate { blocks, mode } => Fees::One(node.estimate_fee(blocks, mode.map(FeeMode::name))?),
        Question::Relay => Fees::One(Some(node.relay_fee()?)),
        Question::Mempool => Fees::Mempool(mempool(node)?),
    };
    cache.put(question, view.tip_hash(), fees, Instant::now());
    Ok(fees.into())
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
