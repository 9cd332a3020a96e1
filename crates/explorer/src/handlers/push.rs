//! Testing and broadcasting a transaction.

use birdhouse_chain::source::NodeError;
use birdhouse_esplora::{Answer, Cache, Lane, Question, Reply, Route};
use bitcoin::Transaction;
use bitcoin::consensus::encode::deserialize_hex;
use hyper::StatusCode;

use super::decoded::decoded;
use crate::views::push::{Outcome, page};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/push", Lane::Memory, form, "A form for a transaction."),
    Route::post("/push", Lane::Node, push, "Broadcasts a transaction."),
    Route::get("/push/test", Lane::Memory, form, "A form for a transaction."),
    Route::post("/push/test", Lane::Node, test, "Decodes a transaction, and asks the node if it would take it."),
];

fn form(question: &Question<'_>) -> Answer {
    Reply::html(page(question.network(), &Outcome::Open, ""), Cache::Private)
}

fn hex(question: &Question<'_>) -> String {
    question.params.form("tx").unwrap_or_default().split_whitespace().collect()
}

fn push(question: &Question<'_>) -> Answer {
    let hex = hex(question);
    let outcome = match question.broadcast(&hex)? {
        Ok(txid) => Outcome::Sent(txid),
        Err(error) => refused(error)?,
    };
    answer(question, &outcome, &hex)
}

fn test(question: &Question<'_>) -> Answer {
    let hex = hex(question);
    let outcome = match (question.test(&hex)?, deserialize_hex::<Transaction>(&hex)) {
        (Ok(tested), Ok(transaction)) => Outcome::Tested(Box::new(decoded(question, &transaction, tested))),
        (Ok(_), Err(error)) => Outcome::Refused(error.to_string()),
        (Err(error), _) => refused(error)?,
    };
    answer(question, &outcome, &hex)
}

fn refused(error: NodeError) -> Result<Outcome, birdhouse_esplora::Failure> {
    match error {
        NodeError::Rejected { message, .. } => Ok(Outcome::Refused(message)),
        error @ NodeError::Unavailable(_) => Err(error.into()),
    }
}

fn answer(question: &Question<'_>, outcome: &Outcome, hex: &str) -> Answer {
    let is_refused = matches!(outcome, Outcome::Refused(_));
    let status = if is_refused { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    // What was sent is not offered again.
    let hex = if matches!(outcome, Outcome::Sent(_)) { "" } else { hex };
    Ok(Reply::html(page(question.network(), outcome, hex), Cache::NoStore)?.with_status(status))
}
