//! `/address` and `/scripthash`: one script, by its address or by the hash of it. `/addresses` and `/scripthashes`:
//! several.

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Confirmation, ScriptHash};
use bitcoin::Txid;
use serde_json::json;

use super::{Route, transactions_json};
use crate::limits::{ADDRESSES, MEMPOOL_PAGE, PAGE, SUMMARY_PAGE};
use crate::wire::{Answer, Cache, Failure, Reply, StatsJson, StatusJson, SummaryJson, UnspentJson, params};
use crate::work::{Lane, Question};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/address/{address}", Lane::Index, stats, "Counts and sums of an address."),
    Route::get("/address/{address}/txs", Lane::Index, newest, "The newest transactions of an address."),
    Route::get("/address/{address}/txs/chain", Lane::Index, confirmed, "Its newest 25 confirmed transactions."),
    Route::get(
        "/address/{address}/txs/chain/{txid}",
        Lane::Index,
        confirmed,
        "Its 25 confirmed transactions before another.",
    ),
    Route::get("/address/{address}/txs/mempool", Lane::Index, unconfirmed, "Its newest 50 in the mempool."),
    Route::get("/address/{address}/txs/summary", Lane::Blocks, summary, "Its confirmed balance changes."),
    Route::get("/address/{address}/txs/summary/{txid}", Lane::Blocks, summary, "Those before a transaction."),
    Route::get("/address/{address}/utxo", Lane::Index, unspent, "Its unspent outputs."),
    Route::get("/scripthash/{scripthash}", Lane::Index, stats, "Counts and sums of a script."),
    Route::get("/scripthash/{scripthash}/txs", Lane::Index, newest, "The newest transactions of a script."),
    Route::get("/scripthash/{scripthash}/txs/chain", Lane::Index, confirmed, "Its newest 25 confirmed transactions."),
    Route::get(
        "/scripthash/{scripthash}/txs/chain/{txid}",
        Lane::Index,
        confirmed,
        "Its 25 confirmed transactions before another.",
    ),
    Route::get("/scripthash/{scripthash}/txs/mempool", Lane::Index, unconfirmed, "Its newest 50 in the mempool."),
    Route::get("/scripthash/{scripthash}/txs/summary", Lane::Blocks, summary, "Its confirmed balance changes."),
    Route::get("/scripthash/{scripthash}/txs/summary/{txid}", Lane::Blocks, summary, "Those before a transaction."),
    Route::get("/scripthash/{scripthash}/utxo", Lane::Index, unspent, "Its unspent outputs."),
    Route::post("/addresses/txs", Lane::Blocks, newest_of_addresses, "The newest transactions of up to 300 addresses."),
    Route::post("/scripthashes/txs", Lane::Blocks, newest_of_hashes, "The newest transactions of up to 300 scripts."),
    Route::get("/address-prefix/{prefix}", Lane::Memory, by_prefix, "Refused: the index is keyed by hashes."),
];

fn stats(question: &Question<'_>) -> Answer {
    let script = script(question)?;
    let chain: StatsJson = question.at.confirmed_stats(&script)?.into();
    let mempool: StatsJson = question.at.unconfirmed_stats(&script).into();
    let name = if question.params.text("address").is_empty() { "scripthash" } else { "address" };
    let stats = json!({ name: question.params.text(name), "chain_stats": chain, "mempool_stats": mempool });
    Reply::json(question.room, &stats, Cache::SHORT)
}

/// The mempool's newest, then the newest confirmed ones. With `after_txid` or `max_txs` as in mempool's fork.
fn newest(question: &Question<'_>) -> Answer {
    let script = script(question)?;
    if question.params.query("after_txid").is_some() || question.params.query("max_txs").is_some() {
        return newest_of(question, &[script]);
    }
    let list = question.at.list_mempool(&script, MEMPOOL_PAGE).then(question.at.list_history(&script, None, PAGE)?);
    transactions_json(question, list, Cache::SHORT)
}

/// An unknown cursor has nothing before it.
fn confirmed(question: &Question<'_>) -> Answer {
    let script = script(question)?;
    transactions_json(question, question.at.list_history(&script, question.params.cursor(), PAGE)?, Cache::SHORT)
}

fn unconfirmed(question: &Question<'_>) -> Answer {
    let script = script(question)?;
    transactions_json(question, question.at.list_mempool(&script, MEMPOOL_PAGE), Cache::SHORT)
}

fn unspent(question: &Question<'_>) -> Answer {
    let script = script(question)?;
    let max = question.service.settings.limits.unspent;
    let too_many = || Failure::bad_request("Too many unspent outputs");
    let coins = match question.at.up_to(max).unspent(&script) {
        Err(birdhouse_chain::Error::TooLong { .. }) => return Err(too_many()),
        coins => coins?,
    };
    if coins.len() > max {
        return Err(too_many());
    }
    let output = |coin: &birdhouse_chain::Unspent| {
        let block = match coin.confirmation {
            Confirmation::Confirmed(height) => question.at.block_hash(height).map(|hash| BlockId { height, hash }),
            Confirmation::Unconfirmed { .. } => None,
        };
        let status = StatusJson::of(question.at, block);
        UnspentJson { txid: coin.txid, vout: coin.vout, status, value: coin.value }
    };
    Reply::json(question.room, &coins.iter().map(output).collect::<Vec<_>>(), Cache::SHORT)
}

fn summary(question: &Question<'_>) -> Answer {
    let script = script(question)?;
    let count = question.params.page_size(SUMMARY_PAGE);
    let changes = question.at.balance_changes(&script, known(question, question.params.cursor())?, count)?;
    let entry = |change: &birdhouse_chain::BalanceChange| SummaryJson {
        txid: change.txid,
        value: change.value,
        height: change.height.0,
        time: question.at.block_time(change.height).unwrap_or_default(),
        tx_position: change.index,
    };
    Reply::json(question.room, &changes.iter().map(entry).collect::<Vec<_>>(), Cache::SHORT)
}

fn newest_of_addresses(question: &Question<'_>) -> Answer {
    let network = question.service.settings.network;
    newest_of_texts(question, |address| params::script_of_address(address, network))
}

fn newest_of_hashes(question: &Question<'_>) -> Answer {
    newest_of_texts(question, params::script_of_hash)
}

/// Texts that name no script are left out, as in mempool's fork.
fn newest_of_texts(question: &Question<'_>, parse: impl Fn(&str) -> Result<ScriptHash, Failure>) -> Answer {
    let texts: Vec<String> = question.params.json()?;
    if texts.len() > ADDRESSES {
        return Err(Failure::unprocessable("body too long"));
    }
    let scripts: Vec<ScriptHash> = texts.iter().filter_map(|text| parse(text).ok()).collect();
    newest_of(question, &scripts)
}

/// The newest transactions of scripts, each once: those of the mempool, then confirmed ones, before `after_txid`.
fn newest_of(question: &Question<'_>, scripts: &[ScriptHash]) -> Answer {
    let count = question.params.page_size(MEMPOOL_PAGE);
    let cursor = known(question, question.params.query("after_txid").and_then(|txid| txid.parse().ok()))?;
    transactions_json(question, question.at.list_newest_of_all(scripts, cursor, count)?, Cache::SHORT)
}

/// Refuses a cursor that is no known transaction, where mempool's fork does.
fn known(question: &Question<'_>, cursor: Option<Txid>) -> Result<Option<Txid>, Failure> {
    match cursor.map(|cursor| question.at.confirmation(cursor)).transpose()? {
        Some(None) => Err(Failure::unprocessable("after_txid not found")),
        Some(Some(_)) | None => Ok(cursor),
    }
}

fn by_prefix(_: &Question<'_>) -> Answer {
    Err(Failure::bad_request("address search disabled"))
}

fn script(question: &Question<'_>) -> Result<ScriptHash, Failure> {
    question.params.script(question.service.settings.network)
}
