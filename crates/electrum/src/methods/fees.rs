//! Fees: what the node says, in BTC/kvB.

use birdhouse_chain::source::Node;
use tracing::warn;

use crate::error::RpcError;
use crate::request::FeeMode;
use crate::response::Answer;

/// `blockchain.estimatefee`.
pub(crate) fn estimate(node: &dyn Node, blocks: u16, mode: Option<FeeMode>) -> Result<Answer, RpcError> {
    Ok(Answer::Fee(node.estimate_fee(blocks, mode.map(FeeMode::name))?))
}

/// `blockchain.relayfee`.
pub(crate) fn relay(node: &dyn Node) -> Result<Answer, RpcError> {
    Ok(Answer::Fee(Some(node.relay_fee()?)))
}

/// `mempool.get_info`.
pub(crate) fn mempool_info(node: &dyn Node) -> Result<Answer, RpcError> {
    let info = node.mempool_info()?;
    let fee = |name: &'static str| {
        info.get(name).and_then(serde_json::Value::as_f64).ok_or_else(|| {
            warn!(member = name, "getmempoolinfo lacks a fee");
            RpcError::internal()
        })
    };
    Ok(Answer::MempoolInfo {
        mempool_min: fee("mempoolminfee")?,
        relay_min: fee("minrelaytxfee")?,
        relay_increment: fee("incrementalrelayfee")?,
    })
}
