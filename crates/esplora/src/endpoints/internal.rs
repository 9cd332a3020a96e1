//! `/internal`: whole blocks, the whole mempool and many transactions at once, for the back end of mempool's site. Only
//! private listeners serve it, for one request may cost what the chain or the mempool is large.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use birdhouse_chain::Snapshot;
use bitcoin::{Network, OutPoint, Txid};

use super::Route;
use super::transactions::write_outspends;
use crate::limits::INTERNAL_PAGE;
use crate::wire::{Answer, Failure, ListPiece, OutspendJson, Reply, TransactionJson};
use crate::work::{Lane, Question};

/// Transactions of a block that are read together: each piece with many inputs reads the block.
const OF_BLOCK_TOGETHER: u32 = 2000;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/internal/block/{hash}/txs", Lane::Memory, of_block, "All transactions of a block."),
    Route::get(
        "/internal/mempool/txs",
        Lane::Blocks,
        page_of_mempool,
        "The first `?max_txs=` of the mempool, by txid.",
    ),
    Route::get("/internal/mempool/txs/all", Lane::Blocks, mempool, "All transactions of the mempool, by txid."),
    Route::get("/internal/mempool/txs/{txid}", Lane::Blocks, page_of_mempool, "Those of the mempool after another."),
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
    let (mut next, mut read) = (0, VecDeque::new());
    Reply::list(move |at, list| {
        let first = next;
        while !list.is_full() {
            if read.is_empty() && next < count {
                // A piece that fails is made again from its first transaction.
                let found = at.resolved_in_block(height, next, OF_BLOCK_TOGETHER);
                read = found.inspect_err(|_| next = first)?.into();
            }
            let Some(found) = read.pop_front() else { return Ok(ControlFlow::Break(())) };
            list.push(&TransactionJson::of(at, &found, network))?;
            next += 1;
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn mempool(question: &Question<'_>) -> Answer {
    transactions(question.network(), page(question, None, usize::MAX)?)
}

fn page_of_mempool(question: &Question<'_>) -> Answer {
    let (last, count) = (question.params.cursor(), question.params.page_size(INTERNAL_PAGE));
    transactions(question.network(), page(question, last, count)?)
}

/// The first transactions of the mempool after one, by txid.
fn page(question: &Question<'_>, last: Option<Txid>, count: usize) -> Result<Vec<Txid>, Failure> {
    let _lent = question.room.lend(question.at.mempool().len() * size_of::<Txid>())?;
    let all = question.at.mempool().txids().copied();
    let mut txids: Vec<Txid> = all.filter(|txid| last.is_none_or(|last| *txid > last)).collect();
    txids.sort_unstable();
    txids.truncate(count);
    Ok(txids)
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
    each(txids, move |at, txid, list| {
        let Some(found) = at.resolved(*txid)? else { return Ok(()) };
        list.push(&TransactionJson::of(at, &found, network))
    })
}

fn outspends_of_transactions(question: &Question<'_>) -> Answer {
    let txids: Vec<String> = question.params.json()?;
    each(txids, |at, text, list| {
        let txid = text.parse::<Txid>().ok();
        let count = txid.map_or(Ok(None), |txid| at.output_count(txid))?;
        list.push_with(|json| match txid.zip(count) {
            Some((txid, count)) => write_outspends(at, txid, count, json),
            None => json.text("[]"),
        })
    })
}

fn outspends(question: &Question<'_>) -> Answer {
    let outpoints: Vec<String> = question.params.json()?;
    each(outpoints, |at, outpoint, list| {
        let spender = match outpoint.parse::<OutPoint>() {
            Ok(outpoint) => at.spender_of(outpoint)?,
            Err(_) => None,
        };
        list.push(&OutspendJson::of(at, spender))
    })
}

/// A list that is made of another one while the client reads it.
fn each<T: Send + 'static>(
    items: Vec<T>,
    answer: impl Fn(&Snapshot, &T, &mut ListPiece<'_>) -> Result<(), Failure> + Send + 'static,
) -> Answer {
    let mut next = 0;
    Reply::list(move |at, list| {
        let first = next;
        while let Some(item) = items.get(next) {
            // A piece that fails is made again from its first item.
            answer(at, item, list).inspect_err(|_| next = first)?;
            next += 1;
            if list.is_full() {
                return Ok(ControlFlow::Continue(()));
            }
        }
        Ok(ControlFlow::Break(()))
    })
}
