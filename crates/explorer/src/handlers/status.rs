//! The state of the server.

use birdhouse_esplora::{Answer, Cache, Lane, Question, Reply, Route, clock};

use super::blocks::line;
use crate::views::status::{Status, page};

pub(super) const ROUTES: &[Route] = &[Route::get("/status", Lane::Blocks, status, "The state of the server.")];

fn status(question: &Question<'_>) -> Answer {
    let at = question.at;
    let values = Status {
        network: question.network(),
        now: clock::now(),
        tip: line(at, at.tip().height),
        transactions: at.transaction_count(),
        waiting_transactions: at.mempool().len(),
        has_node: question.has_node(),
        waiting: question.waiting().map(|reason| reason.to_string()),
    };
    Reply::html(page(&values), Cache::Private)
}
