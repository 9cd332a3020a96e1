//! `/address`, `/scripthash` and `/wallet/{wallet}/{index}`: what a watched script received and has, and `/utxos`.

use birdhouse_chain::{Confirmation, Height, ScriptHash, Unspent};
use serde_json::{Map, Value, json};

use crate::api::failure::Failure;
use crate::api::history;
use crate::api::parts::{self, height_of, insert};
use crate::api::reply::{Answer, EVENTS, JSON, Reply};
use crate::api::routes::Route;
use crate::api::service::Question;
use crate::api::wallets::Book;
use crate::api::wish::Wish;
use crate::limits::SCRIPT_HISTORY_MAX;

macro_rules! of_scripts {
    ($($rest:literal => $endpoint:ident, $media:ident, $summary:literal;)*) => {
        &[
            $(
                Route::get(concat!("/address/{address}", $rest), $endpoint, $summary).with($media),
                Route::get(concat!("/scripthash/{scripthash}", $rest), $endpoint, $summary).with($media),
                Route::get(concat!("/wallet/{wallet}/{index}", $rest), $endpoint, $summary).with($media),
            )*
        ]
    };
}

pub(super) const ROUTES: &[Route] = &[
    Route::get("/address/{address}", script, "A watched address."),
    Route::get("/scripthash/{scripthash}", script, "A watched script."),
    Route::get("/utxos", all_unspent, "Unspent outputs of all wallets."),
];

/// Those of one script, by its address, its hash, or its number in a wallet.
pub(super) const OF_SCRIPTS: &[Route] = of_scripts! {
    "/stats" => stats, JSON, "The balance of an address, and the number of its transactions.";
    "/utxos" => unspent, JSON, "Unspent outputs of an address.";
    "/txs" => transactions, JSON, "Transactions of an address, the oldest first.";
    "/txs/compact" => compact, JSON, "Txids of an address with their heights, the oldest first.";
    "/stream" => stream, EVENTS, "Changes of an address, as server-sent events.";
};

/// Returns the script that a path names, and what is said of it.
fn watched(question: &Question<'_>, book: &Book<'_>) -> Result<(ScriptHash, Map<String, Value>), Failure> {
    let wallet = question.params.part("wallet");
    if !wallet.is_empty() {
        let (branch, index) = (book.branch(wallet)?, question.params.number("index")?);
        let script = branch.script(index).ok_or_else(|| Failure::not_found("The wallet has no such address"))?;
        return Ok((ScriptHash::of(script.as_bytes()), branch.script_json(index, book.network)?));
    }
    let scripthash = question.params.scripthash(book.network)?;
    let shape = book.script_json(&scripthash)?;
    Ok((scripthash, shape.ok_or_else(|| Failure::not_found("The address is not of a watched wallet"))?))
}

fn script(question: &Question<'_>) -> Answer {
    let (_, shape) = watched(question, &question.book())?;
    Reply::json(&Value::Object(shape))
}

/// Balances as BWT has them: sums of unspent outputs, by the confirmation of each.
fn stats(question: &Question<'_>) -> Answer {
    let (script, mut shape) = watched(question, &question.book())?;
    let transactions = history::entries(question.at, &[script], Height(0))?.len();
    let unspent = question.at.up_to(SCRIPT_HISTORY_MAX).unspent(&script)?;
    let sum = |is_counted: fn(&Unspent) -> bool| {
        unspent.iter().filter(|output| is_counted(output)).map(|output| output.value).sum::<u64>()
    };
    let confirmed = sum(|output| matches!(output.confirmation, Confirmation::Confirmed(_)));
    let unconfirmed = sum(|output| matches!(output.confirmation, Confirmation::Unconfirmed { .. }));
    insert(
        &mut shape,
        [
            ("tx_count", json!(transactions)),
            ("confirmed_balance", json!(confirmed)),
            ("unconfirmed_balance", json!(unconfirmed)),
        ],
    );
    Reply::json(&Value::Object(shape))
}

fn unspent(question: &Question<'_>) -> Answer {
    let book = question.book();
    let (script, _) = watched(question, &book)?;
    unspent_json(question, &book, &[script])
}

fn all_unspent(question: &Question<'_>) -> Answer {
    let book = question.book();
    let scripts = book.scripthashes();
    unspent_json(question, &book, &scripts)
}

fn unspent_json(question: &Question<'_>, book: &Book<'_>, scripts: &[ScriptHash]) -> Answer {
    let confirmations_min: u32 = match question.params.asked("min_conf") {
        Some(text) => text.parse().map_err(|_| Failure::bad_request("Invalid min_conf"))?,
        None => 0,
    };
    let has_unsafe = match question.params.asked("include_unsafe") {
        None | Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(Failure::bad_request("Invalid include_unsafe")),
    };
    let tip = question.at.tip().height.0;
    let mut outputs = Vec::new();
    for script in scripts {
        question.at.charge_step()?;
        for output in question.at.up_to(SCRIPT_HISTORY_MAX).unspent(script)? {
            let height = height_of(output.confirmation);
            let confirmations = height.map_or(0, |height| tip + 1 - height);
            let is_wanted = confirmations >= confirmations_min
                && (has_unsafe || height.is_some() || is_safe(question, book, &output)?);
            let shape = if is_wanted { book.script_json(script)? } else { None };
            if let Some(mut shape) = shape {
                insert(
                    &mut shape,
                    [
                        ("txid", json!(output.txid.to_string())),
                        ("vout", json!(output.vout)),
                        ("amount", json!(output.value)),
                        ("block_height", json!(height)),
                        ("spent_by", Value::Null),
                    ],
                );
                outputs.push((height.unwrap_or(u32::MAX), shape));
            }
        }
    }
    outputs.sort_by_key(|(height, _)| *height);
    Reply::json(&outputs.into_iter().map(|(_, shape)| Value::Object(shape)).collect())
}

/// Returns true for an unconfirmed output that only these wallets could take back: all its inputs are theirs, and
/// nobody may replace it.
fn is_safe(question: &Question<'_>, book: &Book<'_>, output: &Unspent) -> Result<bool, Failure> {
    let Some(known) = question.at.mempool().get(&output.txid) else { return Ok(false) };
    let Some(found) = question.at.resolved(output.txid)? else { return Ok(false) };
    let inputs = parts::inputs(question.at, &found)?;
    let are_ours =
        inputs.len() == found.transaction.input.len() && inputs.iter().all(|input| book.has(&input.scripthash));
    Ok(are_ours && !known.is_replaceable)
}

fn transactions(question: &Question<'_>) -> Answer {
    let (script, _) = watched(question, &question.book())?;
    super::transactions::whole(question, &[script], Height(0))
}

fn compact(question: &Question<'_>) -> Answer {
    let (script, _) = watched(question, &question.book())?;
    super::transactions::in_short(question, &[script], Height(0))
}

fn stream(question: &Question<'_>) -> Answer {
    let (script, _) = watched(question, &question.book())?;
    let wish = Wish { scripthashes: vec![script], ..Wish::of(question.params)? };
    super::streams::of_wish(question, wish)
}
