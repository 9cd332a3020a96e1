//! `/internal`: whole blocks, the whole mempool and many transactions at once, for the back end of mempool's site. Only
//! private listeners serve it, for one request may cost what the chain or the mempool is large.

use birdhouse_chain::{Error, Snapshot};
use bitcoin::{Network, OutPoint, Txid};

use super::Route;
use crate::failure::Failure;
use crate::limits::INTERNAL_PAGE;
use crate::reply::{Answer, Reply};
use crate::shapes::{OutspendJson, TransactionJson};
use crate::work::{Lane, Question};

/// Transactions of a block that are read together: each piece with many inputs reads the block.
const OF_BLOCK_TOGETHER: u32 = 2000;
/// Transactions, or outputs, of a list that are read together.
const TOGETHER: usize = 50;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/internal/block/{hash}/txs", Lane::Memory, of_block, "All transactions of a block."),
    Route::get(
        "/internal/mempool/txs",
        Lane::Blocks,
        first_of_mempool,
        "The first `?max_txs=` of the mempool, by txid.",
    ),
    Route::get("/internal/mempool/txs/all", Lane::Blocks, mempool, "All transactions of the mempool, by txid."),
    Route::get("/internal/mempool/txs/{txid}", Lane::Blocks, next_of_mempool, "Those of the mempool after another."),
    Route::post("/internal/mempool/txs", Lane::Memory, in_mempool, "Those of a list of txids that the mempool has."),
    Route::post("/internal/txs", Lane::Memory, anywhere, "Those of a list of txids that chain or mempool have."),
    Route::post(
        "/internal/txs/outspends/by-txid",
        Lane::Memory,
        outspends_of_transactions,
        "The inputs that spend the outputs of a list of txids.",
    ),
    Route::post(
        "/internal/txs/outspends/by-outpoint",
        Lane::Memory,
        outspends,
        "The inputs that spend a list of outputs, each `txid:vout`.",
    ),
];

fn of_block(question: &Question<'_>) -> Answer {
    let height = question.at.block_height(&question.params.block_hash()?).ok_or_else(Failure::no_block)?;
    let count = question.at.block_summary(height).ok_or_else(Failure::no_block)?.tx_count;
    let network = question.network();
    let mut first = 0;
    Reply::list(move |at| {
        if first >= count {
            return Ok(None);
        }
        let found = at.resolved_in_block(height, first, OF_BLOCK_TOGETHER)?;
        first += OF_BLOCK_TOGETHER;
        Ok(Some(found.iter().map(|found| TransactionJson::of(at, found, network)).collect()))
    })
}

fn mempool(question: &Question<'_>) -> Answer {
    transactions(question.network(), page(question.at, None, usize::MAX))
}

fn first_of_mempool(question: &Question<'_>) -> Answer {
    transactions(question.network(), page(question.at, None, page_size(question)))
}

fn next_of_mempool(question: &Question<'_>) -> Answer {
    let last = question.params.txid("txid")?;
    transactions(question.network(), page(question.at, Some(last), page_size(question)))
}

fn page_size(question: &Question<'_>) -> usize {
    question.params.query("max_txs").and_then(|max| max.parse().ok()).unwrap_or(INTERNAL_PAGE).min(INTERNAL_PAGE)
}

/// The first transactions of the mempool after one, by txid.
fn page(at: &Snapshot, last: Option<Txid>, count: usize) -> Vec<Txid> {
    let all = at.mempool().txids().copied();
    let mut txids: Vec<Txid> = all.filter(|txid| last.is_none_or(|last| *txid > last)).collect();
    txids.sort_unstable();
    txids.truncate(count);
    txids
}

fn in_mempool(question: &Question<'_>) -> Answer {
    let mempool = question.at.mempool();
    let txids = txids(question)?.into_iter().filter(|txid| mempool.get(txid).is_some()).collect();
    transactions(question.network(), txids)
}

fn anywhere(question: &Question<'_>) -> Answer {
    transactions(question.network(), txids(question)?)
}

fn txids(question: &Question<'_>) -> Result<Vec<Txid>, Failure> {
    let texts: Vec<String> = question.params.json()?;
    let txids = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Txid>, _>>();
    txids.map_err(|_| Failure::bad_request("Invalid hex string"))
}

/// The transactions of a list, without those that are unknown.
fn transactions(network: Network, txids: Vec<Txid>) -> Answer {
    each(txids, move |at, txid| {
        let found = at.resolved(*txid)?;
        Ok(found.map(|found| TransactionJson::of(at, &found, network)))
    })
}

fn outspends_of_transactions(question: &Question<'_>) -> Answer {
    let txids: Vec<String> = question.params.json()?;
    each(txids, |at, txid| {
        let found = match txid.parse() {
            Ok(txid) => at.spenders_of(txid)?.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        Ok(Some(found.into_iter().map(|spender| OutspendJson::of(at, spender)).collect::<Vec<_>>()))
    })
}

fn outspends(question: &Question<'_>) -> Answer {
    let outpoints: Vec<String> = question.params.json()?;
    each(outpoints, |at, outpoint| {
        let spender = match outpoint.parse::<OutPoint>() {
            Ok(outpoint) => at.spender_of(outpoint)?,
            Err(_) => None,
        };
        Ok(Some(OutspendJson::of(at, spender)))
    })
}

/// A list that is made of another one while the client reads it.
fn each<T, J: serde::Serialize>(
    items: Vec<T>,
    answer: impl Fn(&Snapshot, &T) -> Result<Option<J>, Error> + Send + 'static,
) -> Answer
where
    T: Send + 'static,
{
    let mut done = 0;
    Reply::list(move |at| {
        let end = items.len().min(done + TOGETHER);
        if done == end {
            return Ok(None);
        }
        let found = items[done..end].iter().map(|item| answer(at, item));
        let found: Result<Vec<Option<J>>, Error> = found.collect();
        done = end;
        Ok(Some(found?.into_iter().flatten().collect()))
    })
}
