//! `blockchain.transaction.*`: broadcast of transactions, and the node's test of them.

use std::collections::BTreeMap;

use birdhouse_chain::Index;
use birdhouse_chain::source::{Node, NodeError};
use bitcoin::Txid;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::methods::transactions::admit;
use crate::protocol::{Acceptance, Answer, PackageError};
use crate::request::PackageDetail;

/// `blockchain.transaction.broadcast`.
pub(crate) fn transaction(index: &Index, node: &dyn Node, raw: &str) -> Result<Answer, RpcError> {
    match node.broadcast(raw) {
        Ok(txid) => {
            admit(index, node, txid);
            Ok(Answer::Txid(txid))
        }
        Err(NodeError::Rejected { message, .. }) => Err(RpcError::broadcast_refused(&message, raw)),
        Err(error) => Err(error.into()),
    }
}

/// `blockchain.transaction.broadcast_package`.
pub(crate) fn package(
    index: &Index,
    node: &dyn Node,
    raws: &[String],
    detail: PackageDetail,
) -> Result<Answer, RpcError> {
    let result = match node.submit_package(raws) {
        Ok(result) => result,
        Err(NodeError::Rejected { message, .. }) => return Err(RpcError::package_refused(&message)),
        Err(error) => return Err(error.into()),
    };
    for txid in accepted(&result) {
        admit(index, node, txid);
    }
    match detail {
        PackageDetail::Verbose => Ok(Answer::Core(result)),
        PackageDetail::Summary => package_summary(&result).ok_or_else(|| RpcError::unknown_shape("submitpackage")),
    }
}

/// The answer of Core's `submitpackage`.
#[derive(Deserialize)]
struct Package {
    package_msg: String,
    #[serde(rename = "tx-results")]
    results: BTreeMap<String, Outcome>,
}

/// Core's answer about one transaction of a package.
#[derive(Deserialize)]
struct Outcome {
    txid: String,
    error: Option<String>,
}

/// Returns the ids of the transactions that the node has accepted.
fn accepted(result: &RawValue) -> Vec<Txid> {
    let package: Option<Package> = serde_json::from_str(result.get()).ok();
    let outcomes = package.into_iter().flat_map(|package| package.results.into_values());
    outcomes.filter(|outcome| outcome.error.is_none()).filter_map(|outcome| outcome.txid.parse().ok()).collect()
}

/// Sums up the answer of `submitpackage`. Core's `package_msg` is "success" only if it accepted every transaction.
fn package_summary(result: &RawValue) -> Option<Answer> {
    let package: Package = serde_json::from_str(result.get()).ok()?;
    let errors = package.results.into_values();
    let errors = errors.filter_map(|Outcome { txid, error }| Some(PackageError { txid, error: error? }));
    Some(Answer::Package { success: package.package_msg == "success", errors: errors.collect() })
}

/// `blockchain.transaction.testmempoolaccept`.
pub(crate) fn test(node: &dyn Node, raws: &[String]) -> Result<Answer, RpcError> {
    let result = node.test_mempool_accept(raws)?;
    acceptances(&result).map(Answer::Acceptances).ok_or_else(|| RpcError::unknown_shape("testmempoolaccept"))
}

/// Parses the answer of `testmempoolaccept`. Core has three members for a reason; the first one here says most.
fn acceptances(result: &RawValue) -> Option<Vec<Acceptance>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Outcome {
        txid: String,
        wtxid: String,
        allowed: Option<bool>,
        package_error: Option<String>,
        reject_details: Option<String>,
        reject_reason: Option<String>,
    }
    let outcomes: Vec<Outcome> = serde_json::from_str(result.get()).ok()?;
    let acceptance = |outcome: Outcome| Acceptance {
        txid: outcome.txid,
        wtxid: outcome.wtxid,
        allowed: outcome.allowed,
        reason: outcome.package_error.or(outcome.reject_details).or(outcome.reject_reason),
    };
    Some(outcomes.into_iter().map(acceptance).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn raw(json: &serde_json::Value) -> Box<RawValue> {
        RawValue::from_string(json.to_string()).unwrap()
    }

    #[test]
    fn a_package_is_summed_up_from_cores_results() {
        let result = json!({
            "package_msg": "transaction failed",
            "tx-results": {
                "w1": { "txid": "t1", "vsize": 100 },
                "w2": { "txid": "t2", "error": "min relay fee not met" },
            },
            "replaced-transactions": [],
        });
        let Some(Answer::Package { success, errors }) = package_summary(&raw(&result)) else {
            panic!("the shape is Core's");
        };
        assert!(!success);
        assert_eq!(errors, [PackageError { txid: "t2".into(), error: "min relay fee not met".into() }]);
        assert!(package_summary(&raw(&json!({ "package_msg": "success" }))).is_none());
    }

    #[test]
    fn acceptance_tells_cores_widest_reason() {
        let result = json!([
            { "txid": "t1", "wtxid": "w1", "allowed": true, "vsize": 100, "fees": { "base": 0.00001 } },
            { "txid": "t2", "wtxid": "w2", "allowed": false, "reject-reason": "r", "reject-details": "details" },
            { "txid": "t3", "wtxid": "w3", "package-error": "package" },
            { "txid": "t4", "wtxid": "w4" },
        ]);
        let acceptances = acceptances(&raw(&result)).unwrap();
        let reasons: Vec<_> = acceptances.iter().map(|one| (one.allowed, one.reason.as_deref())).collect();
        assert_eq!(
            reasons,
            [(Some(true), None), (Some(false), Some("details")), (None, Some("package")), (None, None)]
        );
        assert_eq!((acceptances[1].txid.as_str(), acceptances[1].wtxid.as_str()), ("t2", "w2"));
    }
}
