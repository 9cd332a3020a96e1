//! `/mempool` and `/fee-estimates`.

use bitcoin::Txid;

use super::Route;
use crate::limits::TXIDS_PAGE;
use crate::wire::{Answer, Cache, Each, MempoolJson, RecentJson, Reply};
use crate::work::{Lane, Question};

/// Virtual bytes beyond which a bin of the fee histogram ends.
const BIN_VBYTES: u64 = 50_000;
/// Transactions that came last.
const RECENT: usize = 10;
/// Seconds for which those may be cached.
const RECENT_S: u32 = 5;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/mempool", Lane::Memory, mempool, "The mempool in numbers."),
    Route::get("/mempool/txids", Lane::Blocks, txids, "The ids of all transactions in the mempool."),
    Route::get("/mempool/txids/page", Lane::Blocks, page_of_txids, "10000 of them, in order."),
    Route::get("/mempool/txids/page/{txid}", Lane::Blocks, page_of_txids, "10000 of them after another, in order."),
    Route::get("/mempool/recent", Lane::Memory, recent, "The ten transactions that came last."),
    Route::get("/fee-estimates", Lane::Figures, fee_estimates, "Fee rates in sat/vB by confirmation target in blocks."),
];

fn mempool(question: &Question<'_>) -> Answer {
    let mempool = question.at.mempool();
    let numbers = MempoolJson {
        count: mempool.len(),
        vsize: mempool.vsize(),
        total_fee: mempool.fees(),
        fee_histogram: mempool.fee_bins(BIN_VBYTES),
    };
    Reply::json(question.room, &numbers, Cache::SHORT)
}

fn txids(question: &Question<'_>) -> Answer {
    Reply::json(question.room, &Each::of(question.at.mempool().txids()), Cache::SHORT)
}

fn page_of_txids(question: &Question<'_>) -> Answer {
    let (last, count) = (question.params.cursor(), question.params.page_size(TXIDS_PAGE));
    let _lent = question.room.lend(question.at.mempool().len() * size_of::<&Txid>())?;
    let all = question.at.mempool().txids();
    let mut txids: Vec<&Txid> = all.filter(|txid| last.is_none_or(|last| **txid > last)).collect();
    txids.sort_unstable();
    txids.truncate(count);
    Reply::json(question.room, &txids, Cache::SHORT)
}

fn recent(question: &Question<'_>) -> Answer {
    let recent = question.at.mempool().recent(RECENT);
    let entry = |transaction: &std::sync::Arc<birdhouse_chain::MempoolTransaction>| RecentJson {
        txid: transaction.txid,
        fee: transaction.fee,
        vsize: transaction.vsize,
        value: transaction.input_sum(),
    };
    Reply::json(question.room, &recent.iter().map(entry).collect::<Vec<_>>(), Cache::seconds(RECENT_S))
}

fn fee_estimates(question: &Question<'_>) -> Answer {
    let (tip, node) = (question.at.tip().hash, question.service.node()?);
    let estimates = question.service.fees.estimates(tip, node, question.node_use)?;
    Ok(Reply::json(question.room, &estimates.value, Cache::SHORT)?.aged(estimates.age))
}
