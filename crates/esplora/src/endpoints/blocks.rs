//! `/blocks`, `/block` and `/block-height`.

use birdhouse_chain::Height;
use bitcoin::hex::DisplayHex as _;

use super::{Media, Route, transactions_json};
use crate::limits::{BLOCKS_PAGE, PAGE};
use crate::wire::{Answer, BlockJson, BlockStatusJson, Cache, Content, Failure, Reply};
use crate::work::{Lane, Question};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/blocks", Lane::Memory, newest, "The newest ten blocks, newest first."),
    Route::get("/blocks/{height}", Lane::Memory, from, "Ten blocks from a height downwards."),
    Route::get("/blocks/tip/height", Lane::Memory, tip_height, "The height of the tip.").with(Media::Text),
    Route::get("/blocks/tip/hash", Lane::Memory, tip_hash, "The hash of the tip.").with(Media::Text),
    Route::get("/block-height/{height}", Lane::Memory, hash_at, "The hash of the block at a height.").with(Media::Text),
    Route::get("/block/{hash}", Lane::Memory, block, "A block."),
    Route::get("/block/{hash}/status", Lane::Memory, status, "A block's relation to the best chain."),
    Route::get("/block/{hash}/header", Lane::Memory, header, "A block's header, in hexadecimal.").with(Media::Text),
    Route::get("/block/{hash}/raw", Lane::Index, raw, "A block's bytes.").with(Media::Bytes),
    Route::get("/block/{hash}/txids", Lane::Index, txids, "The ids of a block's transactions."),
    Route::get("/block/{hash}/txid/{index}", Lane::Index, txid, "The id of the transaction at an index of a block.")
        .with(Media::Text),
    Route::get("/block/{hash}/txs", Lane::Blocks, first_transactions, "A block's first 25 transactions."),
    Route::get(
        "/block/{hash}/txs/{start}",
        Lane::Blocks,
        transactions,
        "25 transactions of a block from an index that is a multiple of 25.",
    ),
];

fn newest(question: &Question<'_>) -> Answer {
    page(question, question.at.tip().height)
}

/// Text that is no number stands for the tip, as in Esplora.
fn from(question: &Question<'_>) -> Answer {
    match question.params.number::<u32>("height") {
        Ok(height) => page(question, Height(height)),
        Err(_) => newest(question),
    }
}

fn page(question: &Question<'_>, top: Height) -> Answer {
    if top > question.at.tip().height {
        return Err(Failure::no_block());
    }
    let heights = (0..=top.0).rev().take(BLOCKS_PAGE as usize);
    let blocks = heights.map(|height| BlockJson::of(question.at, Height(height))?.ok_or_else(Failure::no_block));
    Reply::json(question.room, &blocks.collect::<Result<Vec<_>, _>>()?, Cache::SHORT)
}

fn tip_height(question: &Question<'_>) -> Answer {
    Reply::text(question.at.tip().height.to_string(), Cache::SHORT)
}

fn tip_hash(question: &Question<'_>) -> Answer {
    Reply::text(question.at.tip().hash.to_string(), Cache::SHORT)
}

fn hash_at(question: &Question<'_>) -> Answer {
    let height = Height(question.params.number("height")?);
    let hash = question.at.block_hash(height).ok_or_else(Failure::no_block)?;
    Reply::text(hash.to_string(), Cache::by_depth(question.at, Some(height)))
}

fn block(question: &Question<'_>) -> Answer {
    let height = named(question)?;
    let block = BlockJson::of(question.at, height)?.ok_or_else(Failure::no_block)?;
    Ok(Reply::json(question.room, &block, Cache::LONG)?.modified(Some(block.timestamp)))
}

fn status(question: &Question<'_>) -> Answer {
    let at = question.at;
    let height = at.block_height(&question.params.block_hash()?);
    let next = height.and_then(|height| at.block_hash(Height(height.0 + 1)));
    let status = BlockStatusJson {
        in_best_chain: height.is_some(),
        height: height.map(|height| height.0),
        next_best: next.map(|hash| hash.to_string()),
    };
    Reply::json(question.room, &status, Cache::by_depth(at, height))
}

fn header(question: &Question<'_>) -> Answer {
    let height = named(question)?;
    let header = question.at.header(height).ok_or_else(Failure::no_block)?;
    of_block(question, height, Reply::text(header.to_lower_hex_string(), Cache::LONG))
}

fn raw(question: &Question<'_>) -> Answer {
    let height = named(question)?;
    let block = question.at.block_summary(height).ok_or_else(Failure::no_block)?;
    Ok(Reply::new(bytes_of(question, height, block.bytes)?, Cache::LONG).modified(question.at.block_time(height)))
}

fn txids(question: &Question<'_>) -> Answer {
    let height = named(question)?;
    let txids = question.at.txids_of_block(height)?.ok_or_else(Failure::no_block)?;
    of_block(question, height, Reply::json(question.room, &txids, Cache::LONG))
}

fn txid(question: &Question<'_>) -> Answer {
    let height = named(question)?;
    let index = question.params.number("index")?;
    let txid = question.at.txid_at(height, index)?;
    let txid = txid.ok_or_else(|| Failure::not_found("tx index out of range"))?;
    of_block(question, height, Reply::text(txid.to_string(), Cache::LONG))
}

fn first_transactions(question: &Question<'_>) -> Answer {
    transactions_from(question, 0)
}

/// Text that is no number stands for the first transaction, as in Esplora.
fn transactions(question: &Question<'_>) -> Answer {
    transactions_from(question, question.params.number("start").unwrap_or(0))
}

fn transactions_from(question: &Question<'_>, start: u32) -> Answer {
    let height = named(question)?;
    let block = question.at.block_summary(height).ok_or_else(Failure::no_block)?;
    if start >= block.tx_count {
        return Err(Failure::bad_request("start index out of range"));
    }
    let page = u32::try_from(PAGE).expect("a small number");
    if !start.is_multiple_of(page) {
        return Err(Failure::bad_request(format!("start index must be a multiple of {PAGE}")));
    }
    transactions_json(question, question.at.list_block(height, start, page), Cache::by_depth(question.at, Some(height)))
}

/// Bytes of a header.
const HEADER_BYTES: u32 = 80;

/// The bytes of a block, which are read as the client takes them. Those of a block that the node has removed, and no
/// peer of it sends, are refused here: later there is no status to say so with.
pub(super) fn bytes_of(question: &Question<'_>, height: Height, bytes: u32) -> Result<Content, Failure> {
    question.at.block_bytes(height, 0..HEADER_BYTES)?;
    Ok(Content::Block(height, bytes))
}

/// The height of the block that the path names.
fn named(question: &Question<'_>) -> Result<Height, Failure> {
    question.at.block_height(&question.params.block_hash()?).ok_or_else(Failure::no_block)
}

fn of_block(question: &Question<'_>, height: Height, answer: Answer) -> Answer {
    answer.map(|reply| reply.modified(question.at.block_time(height)))
}
