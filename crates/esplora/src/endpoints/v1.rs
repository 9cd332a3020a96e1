//! `/v1`: what mempool's own server adds to Esplora's API, without prices and pools, which are not in the chain.

use std::sync::Arc;

use birdhouse_chain::{Height, MempoolTransaction, Ranking};
use bitcoin::Txid;
use serde_json::{Value, json};

use super::Route;
use crate::clock;
use crate::fees::family::{Cluster, ClusterChunk};
use crate::fees::{Projection, RateStep, family, quotient};
use crate::limits::BLOCKS_PAGE_V1;
use crate::wire::{Answer, BlockJson, Cache, Failure, Reply};
use crate::work::{Lane, Question};

/// Characters of an address that the node is asked about, as in mempool's server.
const ADDRESS_CHARS_MAX: usize = 120;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/fees/recommended", Lane::Figures, recommended_fees, "Fee rates by urgency, in whole sat/vB."),
    Route::get("/v1/fees/precise", Lane::Figures, precise_fees, "Fee rates by urgency, in sat/vB with three decimals."),
    Route::get("/v1/fees/mempool-blocks", Lane::Blocks, mempool_blocks, "The blocks that miners would make now."),
    Route::get("/v1/difficulty-adjustment", Lane::Memory, difficulty, "The next adjustment of the difficulty."),
    Route::get(
        "/v1/mining/blocks/timestamp/{time}",
        Lane::Memory,
        block_at_time,
        "The block with the highest time that is no later.",
    ),
    Route::get("/v1/validate-address/{address}", Lane::Node, validate_address, "Core's judgement of an address."),
    Route::get(
        "/v1/cpfp/{txid}",
        Lane::Index,
        cpfp,
        "Unconfirmed relatives, and the fee rate at which the node mines it.",
    ),
    Route::get("/v1/block/{hash}", Lane::Memory, block, "A block."),
    Route::get("/v1/blocks", Lane::Index, newest_blocks, "The newest 15 blocks, newest first."),
    Route::get("/v1/blocks/{height}", Lane::Index, blocks, "15 blocks from a height downwards."),
    Route::get("/v1/prices", Lane::Memory, elsewhere, "Refused: prices are not in the chain."),
    Route::get("/v1/mining/pools", Lane::Memory, elsewhere, "Refused: names of pools are not in the chain."),
];

fn recommended_fees(question: &Question<'_>) -> Answer {
    fees(question, RateStep::Whole)
}

fn precise_fees(question: &Question<'_>) -> Answer {
    fees(question, RateStep::Thousandth)
}

fn fees(question: &Question<'_>, step: RateStep) -> Answer {
    let rates = question.rates(step)?;
    Ok(Reply::json(question.room, &rates.value.to_json(), Cache::SHORT)?.aged(rates.age))
}

fn mempool_blocks(question: &Question<'_>) -> Answer {
    Reply::json(question.room, &projected(&question.projection()), Cache::SHORT)
}

/// The blocks that miners would make now.
pub(crate) fn projected(projection: &Projection) -> Vec<Value> {
    let block = |block: &crate::fees::ProjectedBlock| {
        json!({
            "blockSize": block.bytes, "blockVSize": block.vsize, "nTx": block.transactions, "totalFees": block.fees,
            "medianFee": block.median(), "feeRange": block.rates,
        })
    };
    projection.blocks.iter().map(block).collect()
}

fn difficulty(question: &Question<'_>) -> Answer {
    Reply::json(question.room, &question.retarget()?, Cache::SHORT)
}

fn block_at_time(question: &Question<'_>) -> Answer {
    let time = question.params.number::<u32>("time")?;
    let block = question.at.block_at_time(time).ok_or_else(Failure::no_block)?;
    let time = question.at.block_time(block.height).ok_or_else(Failure::internal)?;
    let found = json!({ "height": block.height.0, "hash": block.hash, "timestamp": clock::iso(time) });
    Reply::json(question.room, &found, Cache::SHORT)
}

/// Core's `validateaddress`: what it says of other networks, of witness versions without a meaning, and of the place of
/// a mistake differs by its version.
fn validate_address(question: &Question<'_>) -> Answer {
    let text = question.params.text("address");
    if text.len() > ADDRESS_CHARS_MAX {
        return Err(Failure::bad_request("Invalid address"));
    }
    Reply::json(question.room, &question.node()?.validate_address(text)?, Cache::SHORT)
}

/// A confirmed transaction has no relatives that matter.
fn cpfp(question: &Question<'_>) -> Answer {
    let txid = question.params.txid("txid")?;
    let mempool = question.at.mempool();
    let Some(found) = mempool.get(&txid) else {
        question.at.transaction_block(txid)?.ok_or_else(Failure::no_transaction)?;
        return Reply::json(question.room, &json!({ "ancestors": [] }), Cache::SHORT);
    };
    let (ancestors, descendants) = (family::ancestors(mempool, txid), family::descendants(mempool, txid));
    let best = descendants.iter().max_by(|left, right| rate(left).total_cmp(&rate(right)));
    let mut cpfp = json!({
        "ancestors": shortly(&ancestors),
        "bestDescendant": best.map(one),
        "descendants": shortly(&descendants),
        "effectiveFeePerVsize": question.mined_rate(found),
        "sigops": found.sigops,
        "fee": found.fee,
        "adjustedVsize": fractional(found.adjusted_weight()),
    });
    if let Some(cluster) = Cluster::of(mempool, txid)
        && mempool.rules().ranking == Ranking::Chunks
        && cluster.transactions.len() > 1
    {
        cpfp["cluster"] = shape(&cluster, &txid);
    }
    Reply::json(question.room, &cpfp, Cache::SHORT)
}

/// A cluster in the form of mempool's server: its transactions in the order of mining, with parents and chunks by
/// index.
///
/// <https://github.com/mempool/mempool/blob/master/backend/src/cluster-mempool/cluster-mempool.ts>
fn shape(cluster: &Cluster, txid: &Txid) -> Value {
    let transaction = |(found, parents): (&Arc<MempoolTransaction>, &Vec<usize>)| json!({ "txid": found.txid, "fee": found.fee, "weight": found.weight, "parents": parents });
    let chunk = |chunk: &ClusterChunk| {
        let txs: Vec<usize> = (chunk.first..chunk.first + chunk.count).collect();
        json!({ "txs": txs, "feerate": chunk.rate })
    };
    json!({
        "txs": cluster.transactions.iter().zip(&cluster.parents).map(transaction).collect::<Vec<_>>(),
        "chunks": cluster.chunks.iter().map(chunk).collect::<Vec<_>>(),
        "chunkIndex": cluster.chunk_index(txid),
    })
}

fn shortly(transactions: &[Arc<MempoolTransaction>]) -> Vec<Value> {
    transactions.iter().map(one).collect()
}

fn one(transaction: &Arc<MempoolTransaction>) -> Value {
    json!({ "txid": transaction.txid, "fee": transaction.fee, "weight": transaction.weight })
}

fn rate(transaction: &MempoolTransaction) -> f64 {
    quotient(transaction.fee, transaction.adjusted_vsize())
}

/// Virtual bytes as mempool's server has them, not rounded. A whole number is one without a point, as JavaScript writes
/// it.
#[expect(clippy::cast_precision_loss, reason = "a transaction has fewer than 2^52 weight units")]
fn fractional(weight: u64) -> Value {
    if weight.is_multiple_of(4) { (weight / 4).into() } else { (weight as f64 / 4.0).into() }
}

fn block(question: &Question<'_>) -> Answer {
    let height = question.at.block_height(&question.params.block_hash()?).ok_or_else(Failure::no_block)?;
    Reply::json(question.room, &BlockJson::of(question.at, height)?.ok_or_else(Failure::no_block)?, Cache::LONG)
}

fn newest_blocks(question: &Question<'_>) -> Answer {
    page(question, question.at.tip().height)
}

fn blocks(question: &Question<'_>) -> Answer {
    page(question, Height(question.params.number("height")?))
}

fn page(question: &Question<'_>, top: Height) -> Answer {
    if top > question.at.tip().height {
        return Err(Failure::no_block());
    }
    let heights = (0..=top.0).rev().take(BLOCKS_PAGE_V1);
    let blocks = heights.map(|height| BlockJson::of(question.at, Height(height))?.ok_or_else(Failure::no_block));
    Reply::json(question.room, &blocks.collect::<Result<Vec<_>, _>>()?, Cache::SHORT)
}

fn elsewhere(_: &Question<'_>) -> Answer {
    Err(Failure::not_found("this server has nothing that is not in the chain: no prices and no pools"))
}
