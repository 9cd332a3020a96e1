//! `blockchain.transaction.*`.

use birdhouse_chain::source::{Node, NodeError};
use birdhouse_chain::{Height, Snapshot};
use bitcoin::Txid;
use serde_json::Value;
use tracing::warn;

use crate::error::RpcError;
use crate::request::PackageDetail;
use crate::response::{Answer, PackageError};

/// `blockchain.transaction.get` of a confirmed transaction; `None` if no block holds it.
pub(crate) fn raw(at: &Snapshot, txid: Txid) -> Result<Option<Answer>, RpcError> {
    Ok(at.transaction(txid)?.map(|transaction| Answer::Bytes(transaction.raw)))
}

/// `blockchain.transaction.get` of a transaction that no block holds.
pub(crate) fn unconfirmed(node: Option<&dyn Node>, txid: Txid) -> Result<Answer, RpcError> {
    let node = node.ok_or_else(RpcError::no_such_transaction)?;
    Ok(Answer::Text(node.mempool_transaction(txid)?))
}

/// `blockchain.transaction.get` with `verbose`: Core's own JSON. Core has no index of transactions, so it
/// is told the block.
pub(crate) fn verbose(at: &Snapshot, node: &dyn Node, txid: Txid) -> Result<Answer, RpcError> {
    let block = at.transaction_block(txid)?.map(|block| block.hash);
    Ok(Answer::Core(node.transaction_verbose(txid, block)?))
}

/// `blockchain.transaction.get_merkle`.
pub(crate) fn merkle(at: &Snapshot, txid: Txid, height: Height) -> Result<Answer, RpcError> {
    let branch = at
        .merkle(txid, height)?
        .ok_or_else(|| RpcError::bad_request(format!("tx {txid} not in block at height {height}")))?;
    Ok(Answer::Merkle { branch, height })
}

/// `blockchain.transaction.id_from_pos`.
pub(crate) fn txid_at(at: &Snapshot, height: Height, position: u32) -> Result<Answer, RpcError> {
    match at.transaction_at(height, position)? {
        Some((txid, _)) => Ok(Answer::Txid(txid)),
        None => Err(nothing_at(height, position)),
    }
}

/// `blockchain.transaction.id_from_pos` with `merkle`.
pub(crate) fn merkle_at(at: &Snapshot, height: Height, position: u32) -> Result<Answer, RpcError> {
    match at.transaction_at(height, position)? {
        Some((txid, branch)) => Ok(Answer::TxidMerkle { txid, branch }),
        None => Err(nothing_at(height, position)),
    }
}

fn nothing_at(height: Height, position: u32) -> RpcError {
    RpcError::bad_request(format!("no tx at position {position} in block at height {height}"))
}

/// `blockchain.transaction.broadcast`.
pub(crate) fn broadcast(node: &dyn Node, raw: &str) -> Result<Answer, RpcError> {
    match node.broadcast(raw) {
        Ok(txid) => Ok(Answer::Txid(txid)),
        Err(NodeError::Rejected { message, .. }) => Err(RpcError::broadcast_refused(&message, raw)),
        Err(error) => Err(error.into()),
    }
}

/// `blockchain.transaction.broadcast_package`.
pub(crate) fn broadcast_package(node: &dyn Node, raws: &[String], detail: PackageDetail) -> Result<Answer, RpcError> {
    let result = match node.submit_package(raws) {
        Ok(result) => result,
        Err(NodeError::Rejected { message, .. }) => {
            return Err(RpcError::broadcast_refused(&message, &raws.join(", ")));
        }
        Err(error) => return Err(error.into()),
    };
    match detail {
        PackageDetail::Verbose => Ok(Answer::Core(result)),
        PackageDetail::Summary => package_summary(&result).ok_or_else(|| {
            warn!("submitpackage answered in an unknown shape");
            RpcError::internal()
        }),
    }
}

/// Core's `package_msg` is "success" only if every transaction was taken.
fn package_summary(result: &Value) -> Option<Answer> {
    let success = result.get("package_msg")?.as_str()? == "success";
    let text = |value: &Value, name| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let transactions = result.get("tx-results")?.as_object()?;
    let errors = transactions
        .values()
        .filter_map(|value| {
            let error = text(value, "error")?;
            Some(PackageError { txid: text(value, "txid").unwrap_or_default(), error })
        })
        .collect();
    Some(Answer::Package { success, errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_summed_up_from_cores_results() {
        let result = serde_json::json!({
            "package_msg": "transaction failed",
            "tx-results": {
                "w1": { "txid": "t1", "vsize": 100 },
                "w2": { "txid": "t2", "error": "min relay fee not met" },
            },
            "replaced-transactions": [],
        });
        let Some(Answer::Package { success, errors }) = package_summary(&result) else {
            panic!("the shape is Core's");
        };
        assert!(!success);
        assert_eq!(errors, [PackageError { txid: "t2".into(), error: "min relay fee not met".into() }]);
        assert!(package_summary(&serde_json::json!({ "package_msg": "success" })).is_none());
    }
}
