//! `/labels`: labels of addresses, transactions and outputs, as wallets exchange them (BIP 329).

use serde_json::json;

use crate::api::failure::Failure;
use crate::api::reply::{Answer, LINES, Reply};
use crate::api::routes::Route;
use crate::api::service::Question;
use crate::invoice::{label_lines, parse_labels};
use crate::state::labels;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/labels", export, "All labels, a JSON object a line (BIP 329).").with(LINES),
    Route::post("/labels", import, "Adds labels, a JSON object a line; what a label leaves out stays as it is."),
];

/// Numbers of lines that an answer names.
const SKIPPED_SHOWN: usize = 100;

fn export(question: &Question<'_>) -> Answer {
    let labels = question.service.state.read(labels::all)??;
    Reply::text(LINES, label_lines(&labels))
}

fn import(question: &Question<'_>) -> Answer {
    let text = std::str::from_utf8(&question.params.body).map_err(|_| Failure::bad_request("the file is not UTF-8"))?;
    let parsed = parse_labels(text);
    let left_out = question.service.state.write(|transaction| labels::put(transaction, &parsed.labels))?;
    let shown = &parsed.skipped[..parsed.skipped.len().min(SKIPPED_SHOWN)];
    Reply::json(&json!({
        "imported": parsed.labels.len() - left_out,
        "without_room": left_out,
        "skipped": parsed.skipped.len(),
        "skipped_lines": shown,
    }))
}
