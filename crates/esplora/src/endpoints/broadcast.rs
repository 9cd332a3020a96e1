//! `POST /tx`, `/broadcast`, `/txs/package` and `/txs/test`: what the node is given.

use birdhouse_chain::source::NodeError;
use bitcoin::hex::FromHex as _;
use serde_json::json;

use super::{Media, Route};
use crate::limits::PACKAGE;
use crate::wire::{Answer, Cache, Failure, Reply};
use crate::work::{Lane, Question};

/// Digits of a transaction of a package: at least 60 bytes, and standard.
const DIGITS: std::ops::Range<usize> = 120..800_000;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/tx", Lane::Node, post, "Broadcasts a transaction in hexadecimal; returns its id.").with(Media::Text),
    Route::get("/broadcast", Lane::Node, broadcast, "Broadcasts the transaction `?tx=`; returns its id.")
        .with(Media::Text),
    Route::post("/txs/package", Lane::Node, package, "Broadcasts a package; returns Core's answer."),
    Route::post("/txs/test", Lane::Node, test, "Core's test of transactions."),
];

fn post(question: &Question<'_>) -> Answer {
    let hex = std::str::from_utf8(&question.params.body).map_err(|_| Failure::bad_request("Invalid hex string"))?;
    send(question, hex.trim())
}

fn broadcast(question: &Question<'_>) -> Answer {
    let hex = question.params.query("tx").ok_or_else(|| Failure::bad_request("Missing tx"))?;
    send(question, &hex)
}

fn send(question: &Question<'_>, hex: &str) -> Answer {
    match question.broadcast(hex)? {
        Ok(txid) => Reply::text(txid.to_string(), Cache::NONE),
        // mempool's pages cut the text out of "message", and clients look for the code.
        Err(NodeError::Rejected { code, message }) => Err(Failure::bad_request(format!(
            "sendrawtransaction RPC error: {}",
            json!({ "code": code, "message": message })
        ))),
        Err(error) => Err(error.into()),
    }
}

fn package(question: &Question<'_>) -> Answer {
    let transactions = transactions(question)?;
    let answer = question.node()?.submit_package(&transactions);
    Reply::json(question.room, &answer.map_err(|error| refused("submitpackage", error))?, Cache::SHORT)
}

fn test(question: &Question<'_>) -> Answer {
    let transactions = transactions(question)?;
    let answer = question.node()?.test_mempool_accept(&transactions);
    Reply::json(question.room, &answer.map_err(|error| refused("testmempoolaccept", error))?, Cache::SHORT)
}

fn refused(method: &str, error: NodeError) -> Failure {
    match error {
        NodeError::Rejected { code, message } => {
            Failure::bad_request(format!("{method} RPC error: {}", json!({ "code": code, "message": message })))
        }
        error @ NodeError::Unavailable(_) => error.into(),
    }
}

/// The transactions of the body, checked as far as it needs no node.
fn transactions(question: &Question<'_>) -> Result<Vec<String>, Failure> {
    let transactions: Vec<String> = question.params.json()?;
    if transactions.len() > PACKAGE {
        return Err(Failure::bad_request(format!("Exceeded maximum of {PACKAGE} transactions")));
    }
    for (item, hex) in transactions.iter().enumerate() {
        if !DIGITS.contains(&hex.len()) {
            return Err(Failure::bad_request(format!("Invalid transaction size for item {item}")));
        }
        if Vec::<u8>::from_hex(hex).is_err() {
            return Err(Failure::bad_request(format!("Invalid transaction hex for item {item}")));
        }
    }
    Ok(transactions)
}
