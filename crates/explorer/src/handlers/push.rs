//! Broadcasting a transaction.

use birdhouse_chain::source::NodeError;
use birdhouse_esplora::{Answer, Cache, Lane, Question, Reply, Route};
use hyper::StatusCode;

use crate::views::push::{Outcome, page};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/push", Lane::Memory, form, "A form for a transaction."),
    Route::post("/push", Lane::Node, push, "Broadcasts a transaction."),
];

fn form(question: &Question<'_>) -> Answer {
    Reply::html(page(question.network(), &Outcome::Open), Cache::Private)
}

fn push(question: &Question<'_>) -> Answer {
    let text = question.params.form("tx").unwrap_or_default();
    let hex: String = text.split_whitespace().collect();
    let (status, outcome) = match question.broadcast(&hex)? {
        Ok(txid) => (StatusCode::OK, Outcome::Sent(txid)),
        Err(NodeError::Rejected { message, .. }) => (StatusCode::BAD_REQUEST, Outcome::Refused { message, hex }),
        Err(error @ NodeError::Unavailable(_)) => return Err(error.into()),
    };
    Ok(Reply::html(page(question.network(), &outcome), Cache::NoStore)?.with_status(status))
}
