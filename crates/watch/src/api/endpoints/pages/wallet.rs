//! The page of a watch: balance, next address, unspent outputs, history, labels.

use birdhouse_chain::Height;
use birdhouse_web::{amounts, parts};
use maud::{Markup, html};

use super::line::{Coin, Line, Sums, address, branches_of, coin, line, scripts_of, unspent, written};
use super::{encoded, framed};
use crate::api::failure::Failure;
use crate::api::history;
use crate::api::missing::Missing;
use crate::api::params::query_pairs;
use crate::api::reply::{Answer, HTML, Reply};
use crate::api::service::Question;
use crate::api::wallets::{BRANCHES_OF_A_FORM, Branch};
use crate::invoice::parse_labels;
use crate::state::labels;

/// Transactions, and unspent outputs, on the page.
const SHOWN: usize = 100;

/// The next address of a branch.
struct Next {
    address: String,
    index: u32,
    is_ranged: bool,
}

pub(super) fn page(question: &Question<'_>) -> Answer {
    let book = question.book();
    let name = question.params.part("name");
    let (scripts, state) = (scripts_of(&book, name)?, &question.service.state);
    let entries = history::entries(question.at, &scripts, Height(0))?;
    let (mut lines, mut missing) = (Vec::new(), Missing::default());
    for entry in entries.iter().rev().take(SHOWN) {
        lines.extend(missing.take(line(question.at, state, &scripts, entry))?);
    }
    missing.end()?;
    let unspent = unspent(question.at, &scripts)?;
    let coins = unspent.iter().take(SHOWN).map(|(script, output)| coin(&book, state, *script, output));
    let coins: Vec<Coin> = coins.collect::<Result<_, Failure>>()?;
    let sums = Sums::of(unspent.iter().map(|(_, output)| output));
    let explorer = question.service.wallets.explorer();
    let explorer = explorer.as_deref().map(|url| url.trim_end_matches('/'));
    let content = html! {
        p { a href="/" { "All wallets" } }
        h1 { (name) }
        dl.facts.card {
            (parts::fact("Confirmed", &html! { (amounts::bitcoin(sums.confirmed)) " BTC" }))
            (parts::fact("Unconfirmed", &html! { (amounts::bitcoin(sums.unconfirmed)) " BTC" }))
            (parts::fact("Transactions", &html! { (amounts::count(entries.len() as u64)) }))
        }
        (addresses(&next(question, &branches_of(&book, name)?)?))
        section aria-labelledby="history" {
            h2 #history { "History" }
            p { a href={ "/watch/" (encoded(name)) "/csv" } { "All transactions as CSV" } }
            (transactions(&lines, explorer))
            (more(entries.len(), "The table has them."))
        }
        section aria-labelledby="unspent" {
            h2 #unspent { "Unspent" }
            (outputs(&coins, explorer))
            (more(unspent.len(), "/utxos has them."))
        }
        (import_form(name))
    };
    Reply::text(HTML, framed(name, &content))
}

/// The next address of each form of addresses that the watch may have. Nobody has been given one of them.
fn next(question: &Question<'_>, branches: &[&Branch]) -> Result<Vec<Next>, Failure> {
    let mut next = Vec::new();
    for branch in branches.iter().step_by(BRANCHES_OF_A_FORM) {
        let index = branch.next(Some(question.service.invoices.reserve(branch)?));
        let address = branch.script(index).and_then(|script| address(&script, question.network()));
        next.extend(address.map(|address| Next { address, index, is_ranged: branch.is_ranged() }));
    }
    Ok(next)
}

fn addresses(next: &[Next]) -> Markup {
    html! {
        @if !next.is_empty() {
            section aria-labelledby="next" {
                h2 #next { "Next address" }
                @if next.len() > 1 {
                    p.quiet { "The key may be for several forms of addresses: take the one that your wallet shows." }
                }
                @for Next { address, index, is_ranged } in next {
                    div.columns.code {
                        div {
                            p.whole { (address) }
                            p.quiet {
                                @if *is_ranged { "Number " (index) ". Nobody has paid it, and no invoice has it." }
                                @else { "The only address of this watch." }
                            }
                        }
                        @if let Some(code) = parts::qr(&format!("bitcoin:{address}"), &format!("QR code of {address}")) {
                            div.picture { (code) }
                        }
                    }
                }
            }
        }
    }
}

fn transactions(lines: &[Line], explorer: Option<&str>) -> Markup {
    if lines.is_empty() {
        return html! { p.quiet { "None yet." } };
    }
    let rows = html! { @for line in lines { (transaction(line, explorer)) } };
    table(["Time", "Transaction", "Change (BTC)", "Label"], &rows)
}

/// A table whose first and last columns give way on a narrow screen; the second column has them there.
fn table(heads: [&str; 4], rows: &Markup) -> Markup {
    let [first, name, amount, last] = heads;
    html! {
        table {
            thead {
                tr {
                    th.spare scope="col" { (first) } th scope="col" { (name) }
                    th.number scope="col" { (amount) } th.spare scope="col" { (last) }
                }
            }
            tbody { (rows) }
        }
    }
}

fn transaction(line: &Line, explorer: Option<&str>) -> Markup {
    let time = line.time.map_or_else(|| "unconfirmed".to_owned(), written);
    let txid = line.txid.to_string();
    let (sign, change) = match line.received.checked_sub(line.spent) {
        Some(gain) => ("+", gain),
        None => ("−", line.spent - line.received),
    };
    html! {
        tr {
            td.spare { (time) }
            td.wide {
                (linked(explorer.map(|url| format!("{url}/tx/{txid}")), &txid))
                span.below { (time) }
                @if let Some(label) = &line.label { span.below { (label) } }
            }
            td.number { (sign) (amounts::bitcoin(change)) }
            td.spare { @if let Some(label) = &line.label { (label) } }
        }
    }
}

fn outputs(coins: &[Coin], explorer: Option<&str>) -> Markup {
    if coins.is_empty() {
        return html! { p.quiet { "None." } };
    }
    let rows = html! { @for coin in coins { (output(coin, explorer)) } };
    table(["Height", "Output", "Amount (BTC)", "Label"], &rows)
}

fn output(coin: &Coin, explorer: Option<&str>) -> Markup {
    let height = coin.height.map_or_else(|| "unconfirmed".to_owned(), |height| height.to_string());
    let frozen = html! { @if coin.is_frozen { " " (parts::badge("open", "not to spend")) } };
    html! {
        tr {
            td.spare { (height) }
            td.wide {
                (linked(explorer.map(|url| format!("{url}/tx/{}", coin.outpoint.txid)), &coin.outpoint.to_string()))
                span.below { (height) @if let Some(label) = &coin.label { ", " (label) } (frozen) }
            }
            td.number { (amounts::bitcoin(coin.value)) }
            td.spare { @if let Some(label) = &coin.label { (label) } (frozen) }
        }
    }
}

fn linked(target: Option<String>, name: &str) -> Markup {
    html! {
        @match target {
            Some(target) => a.long-link href=(target) rel="noreferrer" { (parts::long_name(name)) },
            None => (parts::long_name(name)),
        }
    }
}

fn more(all: usize, place: &str) -> Markup {
    html! { @if all > SHOWN { p.quiet { (amounts::count((all - SHOWN) as u64)) " older ones are not shown. " (place) } } }
}

fn import_form(name: &str) -> Markup {
    html! {
        section aria-labelledby="labels" {
            h2 #labels { "Labels" }
            p { a href="/labels" download="labels.jsonl" { "All labels, to import elsewhere (BIP 329)" } }
            form.ask method="post" action={ "/watch/" (encoded(name)) "/labels" } {
                label for="lines" { "Labels of another wallet, a JSON object a line (BIP 329)" }
                textarea #lines name="labels" rows="4" required autocomplete="off" spellcheck="false" {}
                button { "Import" }
            }
        }
    }
}

/// Imports the labels of the form; `POST /labels` does so for programs.
pub(super) fn import(question: &Question<'_>) -> Answer {
    let name = question.params.part("name");
    branches_of(&question.book(), name)?;
    let body = std::str::from_utf8(&question.params.body).map_err(|_| Failure::bad_request("the form is not UTF-8"))?;
    let fields = query_pairs(body);
    let text = fields.iter().find(|(field, _)| field == "labels").map(|(_, text)| text.as_str());
    let parsed = parse_labels(text.ok_or_else(|| Failure::bad_request("the form has no labels"))?);
    let left_out = question.service.state.write(|transaction| labels::put(transaction, &parsed.labels))?;
    let content = html! {
        h1 { "Labels" }
        div.card role="status" {
            dl.facts {
                (parts::fact("Imported", &html! { (amounts::count((parsed.labels.len() - left_out) as u64)) }))
                @if left_out > 0 { (parts::fact("Without room", &html! { (amounts::count(left_out as u64)) })) }
                @if !parsed.skipped.is_empty() {
                    (parts::fact("Lines without a label", &html! { (amounts::count(parsed.skipped.len() as u64)) }))
                }
            }
        }
        p { a href={ "/watch/" (encoded(name)) } { "Back to " (name) } }
    };
    Reply::text(HTML, framed("Labels", &content))
}
