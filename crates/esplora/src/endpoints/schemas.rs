//! Forms of answers for `/openapi.json`, as [JSON Schema](https://json-schema.org/draft/2020-12/schema).

use serde_json::{Value, json};

use super::{Media, Route};

/// The named forms.
const NAMED: &str = include_str!("schemas.json");

/// Returns the named forms.
pub(super) fn named() -> Value {
    serde_json::from_str(NAMED).expect("a test reads it")
}

/// Returns the form of an endpoint's answer.
pub(super) fn of_answer(route: &Route) -> Value {
    match route.media {
        Media::Text if route.path == "/blocks/tip/height" => reference("Height"),
        Media::Text | Media::Events | Media::WebSocket => json!({ "type": "string" }),
        Media::Bytes => json!({ "type": "string", "format": "binary" }),
        Media::Json => of_json(route.path),
    }
}

/// Returns the form of a part of a path.
pub(super) fn of_part(name: &str) -> Value {
    match name {
        "txid" | "hash" | "scripthash" => reference("Hash"),
        "height" | "index" | "vout" | "time" => json!({ "type": "integer", "minimum": 0 }),
        _ => json!({ "type": "string" }),
    }
}

fn of_json(path: &str) -> Value {
    let path = path.trim_start_matches("/internal");
    match path {
        "/tx/{txid}" => reference("Transaction"),
        "/tx/{txid}/status" => reference("Status"),
        "/tx/{txid}/merkle-proof" => reference("MerkleProof"),
        "/tx/{txid}/outspend/{vout}" => reference("Outspend"),
        "/tx/{txid}/outspends" | "/txs/outspends/by-outpoint" => list(&reference("Outspend")),
        "/txs/outspends" | "/txs/outspends/by-txid" => list(&list(&reference("Outspend"))),
        "/block/{hash}" | "/v1/block/{hash}" => reference("Block"),
        "/block/{hash}/status" => reference("BlockStatus"),
        "/blocks" | "/blocks/{height}" | "/v1/blocks" | "/v1/blocks/{height}" => list(&reference("Block")),
        "/v1/mining/blocks/timestamp/{time}" => reference("BlockAtTime"),
        "/mempool" => reference("Mempool"),
        "/mempool/recent" => list(&reference("RecentTransaction")),
        "/fee-estimates" => reference("FeeEstimates"),
        "/v1/fees/recommended" | "/v1/fees/precise" => reference("Fees"),
        "/v1/fees/mempool-blocks" => list(&reference("ProjectedBlock")),
        "/address/{address}" | "/scripthash/{scripthash}" => reference("ScriptStats"),
        "/txs/package" => reference("SubmittedPackage"),
        "/txs/test" => list(&reference("TestedTransaction")),
        "/v1/difficulty-adjustment" => reference("DifficultyAdjustment"),
        "/v1/validate-address/{address}" => reference("ValidatedAddress"),
        "/v1/cpfp/{txid}" => reference("Relatives"),
        "/v1/statistics/{span}" => list(&reference("MempoolRecord")),
        "/v1/tx/{txid}/rbf" => reference("Versions"),
        "/v1/replacements" | "/v1/fullrbf/replacements" => list(&reference("Version")),
        "/v1/transaction-times" => list(&reference("Time")),
        "/blindbit/info" => reference("BlindBitInfo"),
        "/blindbit/tweaks/{height}" => reference("BlockTweaks"),
        "/blindbit/compute-index/{height}" => reference("BlockComputeIndex"),
        "/openapi.json" => reference("OpenApi"),
        "/v1/prices" | "/v1/mining/pools" | "/address-prefix/{prefix}" => reference("Never"),
        _ if path.contains("/txs/summary") => list(&reference("BalanceChange")),
        _ if path.ends_with("/utxo") => list(&reference("Unspent")),
        _ if path.contains("/txids") => list(&reference("Hash")),
        _ if path.contains("/txs") => list(&reference("Transaction")),
        _ => unreachable!("a test asks for the form of every endpoint"),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn list(of: &Value) -> Value {
    json!({ "type": "array", "items": of })
}
