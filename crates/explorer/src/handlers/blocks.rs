//! Blocks, alone and in lists.

use birdhouse_chain::{Height, Snapshot};
use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, Reply, Route, StaleBlock, clock};
use bitcoin::block::Header;
use bitcoin::{BlockHash, consensus};

use super::sides::sides;
use crate::views::block::{Block, Summary, page};
use crate::views::home::{self, BlockLine};
use crate::views::stale;

/// Blocks on a page of the list.
const BLOCKS_PAGE: u32 = 25;
/// Transactions on a page of a block.
const PAGE: u32 = 25;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/blocks", Lane::Memory, newest, "The newest blocks."),
    Route::get("/blocks/{height}", Lane::Memory, from, "Blocks from a height downwards."),
    Route::get("/block/{hash}", Lane::Blocks, block, "A block, by its hash or height."),
];

/// Values of a block in a list.
pub(super) fn line(at: &Snapshot, height: Height) -> Option<BlockLine> {
    Some(BlockLine { block: at.block_summary(height)?, time: at.block_time(height)? })
}

fn newest(question: &Question<'_>) -> Answer {
    list(question, question.at.tip().height.0)
}

fn from(question: &Question<'_>) -> Answer {
    list(question, question.params.number("height")?)
}

fn list(question: &Question<'_>, top: u32) -> Answer {
    let at = question.at;
    let tip = at.tip().height.0;
    if top > tip {
        return Err(Failure::no_block());
    }
    let last = (top + 1).saturating_sub(BLOCKS_PAGE);
    let lines: Vec<BlockLine> = (last..=top).rev().filter_map(|height| line(at, Height(height))).collect();
    let links = [
        ("Newer", (top < tip).then(|| format!("/blocks/{}", tip.min(top + BLOCKS_PAGE)))),
        ("Older", last.checked_sub(1).map(|height| format!("/blocks/{height}"))),
    ];
    Reply::html(home::blocks(question.network(), clock::now(), &lines, &links), Cache::Private)
}

fn block(question: &Question<'_>) -> Answer {
    let at = question.at;
    let height = match named(question)? {
        Named::Height(height) => height,
        Named::Stale(stale) => {
            let now = at.block_hash(stale.block.height);
            return Reply::html(stale::page(question.network(), &stale, now, at.tip()), Cache::Private);
        }
    };
    let summary = at.block_summary(height).ok_or_else(Failure::no_block)?;
    let start = match question.params.query("start") {
        None => 0,
        Some(start) => start.parse().map_err(|_| Failure::bad_request("the start is no number"))?,
    };
    if start >= summary.tx_count {
        return Err(Failure::not_found("the block has fewer transactions"));
    }
    let found = at.resolved_in_block(height, start, PAGE)?;
    let header: Header = consensus::deserialize(&summary.header).map_err(|_| Failure::internal())?;
    let neighbour = |height: Option<u32>| height.and_then(|height| at.block_hash(Height(height)));
    let values = Block {
        network: question.network(),
        summary,
        header,
        median_time: at.median_time(height).unwrap_or_default(),
        confirmations: at.tip().height.0 - height.0 + 1,
        fees: question.block_fees(height)?,
        neighbours: (neighbour(height.0.checked_sub(1)), neighbour(height.0.checked_add(1))),
        start,
        transactions: found
            .iter()
            .map(|found| Summary::of(found, sides(found, question.network(), |_| false)))
            .collect(),
        page: PAGE,
    };
    Reply::html(page(&values), Cache::Private)
}

/// The block of a path.
enum Named {
    Height(Height),
    Stale(StaleBlock),
}

/// The block that the path names by its hash or height.
fn named(question: &Question<'_>) -> Result<Named, Failure> {
    let text = question.params.text("hash");
    if let Ok(height) = text.parse::<u32>() {
        let is_known = height <= question.at.tip().height.0;
        return if is_known { Ok(Named::Height(Height(height))) } else { Err(Failure::no_block()) };
    }
    let hash: BlockHash = text.parse().map_err(|_| Failure::bad_request("this is no block hash or height"))?;
    let height = question.at.block_height(&hash).map(Named::Height);
    height.or_else(|| question.stale_block(&hash).map(Named::Stale)).ok_or_else(Failure::no_block)
}
