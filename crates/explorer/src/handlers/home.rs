//! The first page.

use birdhouse_chain::Height;
use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, RateStep, Reply, Route, clock};

use super::blocks::line;
use crate::views::home::{Arrival, Home, page};
use crate::views::schedule::Halving;

/// Blocks on the first page.
const BLOCKS: usize = 8;
/// Transactions on it that came last.
const ARRIVALS: usize = 8;

pub(super) const ROUTES: &[Route] = &[Route::get("/", Lane::Figures, home, "Tip, newest and next blocks, and fees.")];

fn home(question: &Question<'_>) -> Answer {
    let at = question.at;
    let rates = match question.rates(RateStep::Thousandth) {
        Err(Failure::Unasked) => return Err(Failure::Unasked),
        // A page without them is better than none.
        rates => rates.ok(),
    };
    let heights = (0..=at.tip().height.0).rev().take(BLOCKS);
    let mempool = at.mempool();
    let arrivals = mempool.recent(ARRIVALS).into_iter().map(|found| Arrival {
        txid: found.txid,
        value: found.input_sum() - found.fee,
        fee: found.fee,
        vsize: found.adjusted_vsize(),
    });
    let values = Home {
        network: question.network(),
        has_node: question.has_node(),
        now: clock::now(),
        tip: at.tip(),
        blocks: heights.filter_map(|height| line(at, Height(height))).collect(),
        projected: &question.projection().blocks,
        rates,
        waiting: (mempool.len(), mempool.adjusted_vsize(), mempool.fees()),
        histogram: mempool.adjusted_fee_histogram(),
        arrivals: arrivals.collect(),
        retarget: question.retarget()?,
        halving: Halving::after(at.tip().height.0, question.network()),
    };
    Reply::html(page(&values), Cache::Private)
}
