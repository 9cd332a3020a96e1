//! Fees: the node's figures, in BTC/kvB, and the fee rates that the mempool pays.

use birdhouse_chain::Snapshot;
use birdhouse_chain::source::{Node, NodeError, SourceError, SourceErrorKind};
use serde::Deserialize;

use crate::error::RpcError;
use crate::protocol::{Answer, Fees, MempoolFees};
use crate::request::{FeeMode, FeeQuery};
use crate::service::{KnownFees, View};

/// Transactions in the answer to `mempool.recent`, at most.
const RECENT: usize = 10;

/// Returns the known answer to a query.
pub(crate) fn known(fees: &KnownFees, view: &View, query: FeeQuery) -> Option<Answer> {
    fees.known(&query, view.tip_hash()).map(|known| Answer::Fees(known.value))
}

/// `blockchain.estimatefee`, `blockchain.relayfee` and `mempool.get_info`. While the node is silent, its last answer.
pub(crate) fn ask(fees: &KnownFees, view: &View, node: &dyn Node, query: FeeQuery) -> Result<Answer, RpcError> {
    let asked = fees.get(&query, view.tip_hash(), || {
        Ok(match query {
            FeeQuery::EstimateFee { blocks, mode } => Fees::One(node.estimate_fee(blocks, mode.map(FeeMode::into))?),
            FeeQuery::RelayFee => Fees::One(Some(node.relay_fee()?)),
            FeeQuery::MempoolInfo => Fees::Mempool(mempool(node)?),
        })
    });
    Ok(Answer::Fees(asked?.value))
}

fn mempool(node: &dyn Node) -> Result<MempoolFees, NodeError> {
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
        serde_json::from_str(info.get()).map_err(|error| NodeError::Unavailable(unreadable(&error)))?;
    Ok(MempoolFees { mempool_min, relay_min, increment })
}

fn unreadable(error: &serde_json::Error) -> SourceError {
    SourceError { message: format!("failed to read getmempoolinfo: {error}"), kind: SourceErrorKind::Permanent }
}

/// `mempool.get_fee_histogram`.
pub(crate) fn histogram(at: &Snapshot) -> Answer {
    Answer::FeeHistogram(at.mempool().fee_histogram())
}

/// `mempool.recent`.
pub(crate) fn recent(at: &Snapshot) -> Answer {
    Answer::Recent(at.mempool().recent(RECENT))
}
