//! `/wallets` and `/wallet`: branches of watches, by checksum or by the name of the watch.

use birdhouse_chain::ScriptHash;
use serde_json::{Map, Value, json};

use crate::api::failure::Failure;
use crate::api::reply::{Answer, Reply, TEXT};
use crate::api::routes::Route;
use crate::api::service::Question;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/wallets", wallets, "All branches of watched wallets, by their checksums."),
    Route::get("/wallet/{wallet}", wallet, "A branch of a watched wallet."),
    Route::get("/wallet/{wallet}/next", next, "The number of the next unused address, which it redirects to.")
        .with(TEXT),
    Route::get("/wallet/{wallet}/gap", gap, "The most unused addresses in a row; null for a wallet without history."),
    Route::get("/wallet/{wallet}/{index}", address, "An address of a wallet."),
];

fn wallets(question: &Question<'_>) -> Answer {
    let book = question.book();
    let shape = |branch: &crate::api::wallets::Branch| (branch.checksum(), branch.to_json(book.network));
    let wallets: Map<String, Value> = book.branches.iter().map(shape).collect();
    Reply::json(&Value::Object(wallets))
}

fn wallet(question: &Question<'_>) -> Answer {
    let book = question.book();
    Reply::json(&book.branch(question.params.part("wallet"))?.to_json(book.network))
}

/// The answer reserves nothing: until somebody pays it, or an invoice takes it, it stays the next one.
fn next(question: &Question<'_>) -> Answer {
    let book = question.book();
    let branch = book.branch(question.params.part("wallet"))?;
    let index = branch.next(Some(question.service.invoices.reserve(branch)?));
    Reply::elsewhere(format!("/wallet/{}/{index}", branch.checksum()), index.to_string())
}

fn gap(question: &Question<'_>) -> Answer {
    let book = question.book();
    let branch = book.branch(question.params.part("wallet"))?;
    let Some(used) = branch.used else { return Reply::json(&Value::Null) };
    let (mut gap, mut current) = (0, 0);
    for index in 0..=used {
        let script = branch.script(index).ok_or_else(Failure::internal)?;
        question.at.charge_step()?;
        let is_used = question.at.first_use(&ScriptHash::of(script.as_bytes()))?.is_some();
        current = if is_used { 0 } else { current + 1 };
        gap = gap.max(current);
    }
    Reply::json(&json!(gap))
}

fn address(question: &Question<'_>) -> Answer {
    let book = question.book();
    let index = question.params.number("index")?;
    let shape = book.branch(question.params.part("wallet"))?.script_json(index, book.network)?;
    Reply::json(&Value::Object(shape))
}
