//! `/v1/tx/:txid/rbf`, `/v1/replacements`, `/v1/fullrbf/replacements` and `/v1/transaction-times`: unconfirmed
//! transactions since this server watches them.

use bitcoin::Txid;
use serde_json::json;

use super::Route;
use crate::fees::{newest, tree_of};
use crate::limits::{REPLACEMENTS_PAGE, TIMES_TXIDS};
use crate::wire::{Answer, Cache, Failure, Reply};
use crate::work::{Lane, Question};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/tx/{txid}/rbf", Lane::Index, versions, "The versions of a transaction that was replaced."),
    Route::get("/v1/replacements", Lane::Blocks, replacements, "The newest 25 transactions that replaced others."),
    Route::get(
        "/v1/fullrbf/replacements",
        Lane::Blocks,
        full_replacements,
        "Those that replaced one which did not signal that it may be.",
    ),
    Route::get(
        "/v1/transaction-times",
        Lane::Memory,
        times,
        "The times at which up to 100 transactions came into the mempool, each `?txId[]=`; 0 for others.",
    ),
];

fn versions(question: &Question<'_>) -> Answer {
    let txid = question.params.txid("txid")?;
    let replaces: Vec<Txid> = question.at.mempool().replacements().of(&txid).collect();
    let tree = tree_of(question.at, &txid)?;
    let replaces = (!replaces.is_empty()).then_some(replaces);
    Reply::json(question.room, &json!({ "replacements": tree, "replaces": replaces }), Cache::SHORT)
}

fn replacements(question: &Question<'_>) -> Answer {
    Reply::json(question.room, &newest(question.at, REPLACEMENTS_PAGE, |_| true)?, Cache::SHORT)
}

fn full_replacements(question: &Question<'_>) -> Answer {
    Reply::json(question.room, &newest(question.at, REPLACEMENTS_PAGE, |tree| tree.full_rbf)?, Cache::SHORT)
}

/// A list in a query has indices between its brackets, or nothing.
fn times(question: &Question<'_>) -> Answer {
    let txids: Vec<String> = question.params.query_list("txId").collect();
    if txids.is_empty() {
        return Err(Failure::bad_request("invalid txId format"));
    }
    if txids.len() > TIMES_TXIDS {
        return Err(Failure::bad_request("Too many txids requested"));
    }
    let mempool = question.at.mempool();
    let txids = txids.iter().filter_map(|txid| txid.parse::<Txid>().ok());
    let times: Vec<u64> = txids.map(|txid| mempool.get(&txid).map_or(0, |found| found.first_seen)).collect();
    Reply::json(question.room, &times, Cache::SHORT)
}
