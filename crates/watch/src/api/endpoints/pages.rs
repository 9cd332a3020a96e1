//! Pages for the operator, whose browser asks for the token as a password: all wallets, one of them with its labels,
//! and its transactions as CSV.

use std::fmt::Write as _;
use std::sync::Arc;

use birdhouse_chain::{Confirmation, Height, ScriptHash, Snapshot};
use birdhouse_web::{Alone, amounts, parts};
use bitcoin::Txid;
use maud::{Markup, html};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::failure::Failure;
use crate::api::history::{self, Entry};
use crate::api::parts::inputs;
use crate::api::reply::{Answer, CSV, HTML, Reply};
use crate::api::routes::Route;
use crate::api::service::Question;
use crate::api::wallets::{Book, Branch};
use crate::invoice::{Label, LabelKind};
use crate::limits::{API_PORTION, SCRIPT_HISTORY_MAX};
use crate::state::{State, labels};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/", home, "The page of all wallets.").with(HTML),
    Route::get("/watch/{name}", page, "The page of a watch: balance, newest transactions, labels.").with(HTML),
    Route::get("/watch/{name}/csv", csv, "All transactions of a watch as comma-separated values.").with(CSV),
];

/// Transactions on the page of a watch.
const SHOWN: usize = 100;

/// A transaction of a watch in short.
struct Line {
    txid: Txid,
    height: Option<u32>,
    time: Option<u32>,
    received: u64,
    spent: u64,
    label: Option<String>,
}

/// Sums of unspent outputs, in satoshis.
#[derive(Default)]
struct Sums {
    confirmed: u64,
    unconfirmed: u64,
}

fn home(question: &Question<'_>) -> Answer {
    let book = question.book();
    let mut names: Vec<&str> = book.branches.iter().map(|branch| branch.watch.as_str()).collect();
    names.dedup();
    let mut rows = Vec::new();
    for name in names {
        rows.push((name, sums(question.at, &scripts_of(&book, name)?)?));
    }
    let content = html! {
        h1 { "Watched wallets" }
        @if rows.is_empty() { p { "No wallet is watched. " code { "birdhouse watch add" } " adds one." } }
        @else {
            table {
                thead { tr { th { "Wallet" } th.number { "Confirmed (BTC)" } th.number { "Unconfirmed (BTC)" } } }
                tbody {
                    @for (name, sums) in &rows {
                        tr {
                            td { a href={ "/watch/" (encoded(name)) } { (name) } }
                            td.number { (amounts::bitcoin(sums.confirmed)) }
                            td.number { (amounts::bitcoin(sums.unconfirmed)) }
                        }
                    }
                }
            }
        }
    };
    Reply::text(HTML, framed("Watched wallets", &content))
}

fn page(question: &Question<'_>) -> Answer {
    let book = question.book();
    let name = question.params.part("name");
    let scripts = scripts_of(&book, name)?;
    let entries = history::entries(question.at, &scripts, Height(0))?;
    let newest = entries.iter().rev().take(SHOWN);
    let lines: Vec<Line> = newest
        .map(|entry| line(question.at, &question.service.state, &scripts, entry))
        .collect::<Result<_, Failure>>()?;
    let sums = sums(question.at, &scripts)?;
    let content = html! {
        h1 { (name) }
        dl.facts.card {
            (parts::fact("Confirmed", &html! { (amounts::bitcoin(sums.confirmed)) " BTC" }))
            (parts::fact("Unconfirmed", &html! { (amounts::bitcoin(sums.unconfirmed)) " BTC" }))
            (parts::fact("Transactions", &html! { (amounts::count(entries.len() as u64)) }))
        }
        p {
            a href={ "/watch/" (encoded(name)) "/csv" } { "All transactions as CSV" } " · "
            a href="/labels" { "Labels (BIP 329)" }
        }
        table {
            thead {
                tr {
                    th { "Time" } th { "Transaction" } th.number { "Received (BTC)" } th.number { "Spent (BTC)" }
                    th { "Label" }
                }
            }
            tbody { @for line in &lines { (row(line)) } }
        }
    };
    Reply::text(HTML, framed(name, &content))
}

fn row(line: &Line) -> Markup {
    html! {
        tr {
            td { @match line.time { Some(time) => (written(time)), None => "unconfirmed" } }
            td { (parts::long_name(&line.txid.to_string())) }
            td.number { @if line.received > 0 { (amounts::bitcoin(line.received)) } }
            td.number { @if line.spent > 0 { (amounts::bitcoin(line.spent)) } }
            td { @if let Some(label) = &line.label { (label) } }
        }
    }
}

fn csv(question: &Question<'_>) -> Answer {
    let book = question.book();
    let scripts = scripts_of(&book, question.params.part("name"))?;
    let entries = history::entries(question.at, &scripts, Height(0))?;
    let state = question.service.state.clone();
    let scripts = Arc::new(scripts);
    let mut head = Some("time,height,txid,received_sat,spent_sat,label\r\n".to_owned());
    let mut entries = entries.into_iter();
    Reply::pieces(CSV, move |at| {
        let mut text = head.take().unwrap_or_default();
        for entry in entries.by_ref().take(API_PORTION) {
            let Line { txid, height, time, received, spent, label } = line(at, &state, &scripts, &entry)?;
            let time = time.map(written).unwrap_or_default();
            let height = height.map(|height| height.to_string()).unwrap_or_default();
            let label = quoted(label.as_deref().unwrap_or_default());
            let _ = write!(text, "{time},{height},{txid},{received},{spent},{label}\r\n");
        }
        Ok(Some(text.into_bytes()).filter(|text| !text.is_empty()))
    })
}

/// Returns a field of a CSV file (RFC 4180). One that a spreadsheet would take for a formula begins with an apostrophe.
fn quoted(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

/// Returns the hashes of a watch's scripts.
fn scripts_of(book: &Book<'_>, name: &str) -> Result<Vec<ScriptHash>, Failure> {
    let branches: Vec<&Branch> = book.branches.iter().filter(|branch| branch.watch.as_str() == name).collect();
    if branches.is_empty() {
        return Err(Failure::not_found("There is no such watch"));
    }
    Ok(book.scripthashes().into_iter().filter(|script| book.is_of(script, name)).collect())
}

fn sums(at: &Snapshot, scripts: &[ScriptHash]) -> Result<Sums, Failure> {
    let mut sums = Sums::default();
    for script in scripts {
        at.charge_step()?;
        for output in at.up_to(SCRIPT_HISTORY_MAX).unspent(script)? {
            match output.confirmation {
                Confirmation::Confirmed(_) => sums.confirmed += output.value,
                Confirmation::Unconfirmed { .. } => sums.unconfirmed += output.value,
            }
        }
    }
    Ok(sums)
}

fn line(at: &Snapshot, state: &State, scripts: &[ScriptHash], entry: &Entry) -> Result<Line, Failure> {
    let (mut received, mut spent) = (0, 0);
    if let Some(found) = at.resolved(entry.txid)? {
        for output in &found.transaction.output {
            if scripts.contains(&ScriptHash::of(output.script_pubkey.as_bytes())) {
                received += output.value.to_sat();
            }
        }
        spent = inputs(at, &found)?
            .iter()
            .filter(|input| scripts.contains(&input.scripthash))
            .map(|input| input.value)
            .sum();
    }
    let txid = entry.txid.to_string();
    let label = state.read(|transaction| labels::get(transaction, LabelKind::Tx, &txid))??;
    let height = entry.height();
    Ok(Line {
        txid: entry.txid,
        height,
        time: height.and_then(|height| at.block_time(Height(height))),
        received,
        spent,
        label: label.and_then(|Label { label, .. }| label),
    })
}

fn written(time: u32) -> String {
    let time = OffsetDateTime::from_unix_timestamp(time.into()).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// Returns a name as a part of a path.
fn encoded(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn framed(title: &str, content: &Markup) -> String {
    let title = format!("{title} · Birdhouse");
    Alone { title: &title, is_private: true, ..Alone::default() }.around(&html! {
        header.site { div.bar { a.brand href="/" { "Birdhouse" } } }
        main #main { (content) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_table_is_never_a_formula() {
        assert_eq!(quoted(""), "");
        assert_eq!(quoted("rent, \"May\""), "\"rent, \"\"May\"\"\"");
        assert_eq!(quoted("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
    }
}
