//! A block that miners would make now.

use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, Reply, Route, quotient};

use super::page_part::part_of;
use crate::views::projected::{Line, Projected, page};

/// Transactions on a page.
const PAGE: usize = 50;

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/mempool-block/{index}",
    Lane::Blocks,
    projected,
    "A block that miners would make now; 0 is the next.",
)];

fn projected(question: &Question<'_>) -> Answer {
    let index: usize = question.params.number("index").map_err(|_| Failure::bad_request("this is no index"))?;
    let projection = question.projection();
    let block = projection.blocks.get(index).ok_or_else(|| Failure::not_found("so few transactions wait now"))?;
    let txids = projection.transactions(index);
    let page_part = part_of(question, "start", txids.len(), PAGE)?;
    // The projection may be some seconds older than the mempool.
    let transactions = page_part.slice(txids).filter_map(|(_, txid)| {
        let found = question.at.mempool().get(txid)?;
        let (fee, vsize) = (found.fee, found.adjusted_vsize());
        let rate = projection.place(txid).map_or_else(|| quotient(fee, vsize), |place| place.rate);
        Some(Line { txid: *txid, fee, vsize, rate })
    });
    let values = Projected {
        network: question.network(),
        tip: question.at.tip(),
        index,
        count: projection.blocks.len(),
        block,
        page: page_part,
        transactions: transactions.collect(),
    };
    Reply::html(page(&values), Cache::Private)
}
