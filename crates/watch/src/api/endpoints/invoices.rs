//! `/invoices`: payment requests with an address of their own, and the page that a customer sees.

use hyper::StatusCode;
use maud::html;
use serde_json::{Value, json};

use birdhouse_web::{Alone, amounts, parts};

use crate::api::failure::Failure;
use crate::api::invoice_book::{Made, Order, Resumption};
use crate::api::missing::Missing;
use crate::api::payments;
use crate::api::reply::{Answer, EVENTS, HTML, Reply};
use crate::api::routes::Route;
use crate::api::service::Question;
use crate::api::wish::Feed;
use crate::invoice::{Invoice, InvoiceId, InvoiceState, Standing};

pub(super) const ROUTES: &[Route] = &[
    Route::post(
        "/invoices",
        make,
        "Makes an invoice: wallet, amount in satoshis, and if wanted expiry in seconds, label and confirmations.",
    ),
    Route::get("/invoices", list, "Invoices, the newest first; before=N has those before one of this number."),
    Route::post("/invoices/resume", resume, "Lets invoices go on after a restore."),
    Route::get("/invoices/stream", stream, "Changes of the states of all invoices, as server-sent events.")
        .with(EVENTS),
    Route::get("/invoices/{id}", invoice, "An invoice with its state and its payments."),
    Route::get("/invoices/{id}/stream", stream_of, "The state of an invoice, and its changes, as server-sent events.")
        .with(EVENTS),
    Route::get("/pay/{id}", page, "The page of an invoice for a customer, without the token.").with(HTML).open(),
];

/// Seconds after which the page of an invoice is loaded again.
const RELOAD_S: u64 = 10;

fn id_of(question: &Question<'_>) -> Result<InvoiceId, Failure> {
    InvoiceId::parse(question.params.part("id")).ok_or_else(no_invoice)
}

fn no_invoice() -> Failure {
    Failure::not_found("There is no such invoice")
}

fn found(question: &Question<'_>) -> Result<Invoice, Failure> {
    question.service.invoices.get(&id_of(question)?)?.ok_or_else(no_invoice)
}

fn make(question: &Question<'_>) -> Answer {
    let order: Order = question.params.json()?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| Failure::internal())?;
    let now = question.now();
    let made = question.service.invoices.make(question.at, &question.book(), order, InvoiceId::new(random), now)?;
    let Made { invoice, warning } = made;
    let mut shape = payments::json(question.at, &invoice, &[], now);
    if let Some(warning) = warning {
        shape["warning"] = json!(warning);
    }
    Ok(Reply::json(&shape)?.with_status(StatusCode::CREATED))
}

fn list(question: &Question<'_>) -> Answer {
    let end = match question.params.asked("before") {
        Some(text) => text.parse().map_err(|_| Failure::bad_request("Invalid number"))?,
        None => u64::MAX,
    };
    let now = question.now();
    let (mut shapes, mut missing) = (Vec::new(), Missing::default());
    for (number, invoice) in question.service.invoices.before(end)? {
        let Some(paid) = missing.take(payments::of(question.at, &invoice, now))? else { continue };
        let mut shape = payments::json(question.at, &invoice, &paid, now);
        shape["number"] = json!(number);
        shapes.push(shape);
    }
    missing.end()?;
    Reply::json(&Value::Array(shapes))
}

fn invoice(question: &Question<'_>) -> Answer {
    let (invoice, now) = (found(question)?, question.now());
    let paid = payments::of(question.at, &invoice, now)?;
    Reply::json(&payments::json(question.at, &invoice, &paid, now))
}

fn resume(question: &Question<'_>) -> Answer {
    let word: Resumption = question.params.json()?;
    let next = question.service.invoices.resume(&question.book(), &word)?;
    Reply::json(&json!({ "next": next }))
}

fn stream(_: &Question<'_>) -> Answer {
    Reply::events(Feed::Invoices(None))
}

fn stream_of(question: &Question<'_>) -> Answer {
    Reply::events(Feed::Invoices(Some(found(question)?.id)))
}

fn page(question: &Question<'_>) -> Answer {
    let (invoice, now) = (found(question)?, question.now());
    let paid = payments::of(question.at, &invoice, now)?;
    let standing = payments::standing(question.at, &invoice, &paid, now);
    Reply::text(HTML, page_of(&invoice, &standing, now))
}

/// The page of a customer: it needs no script and nothing from another host.
fn page_of(invoice: &Invoice, standing: &Standing, now: u64) -> String {
    let left = invoice.amount.saturating_sub(standing.received);
    let asks = standing.state.asks() && standing.is_known;
    let reload_s = (standing.state != InvoiceState::Confirmed).then_some(RELOAD_S);
    Alone { title: words(standing), is_private: true, reload_s, ..Alone::default() }.around(&html! {
        main #main {
            h1 { (invoice.label.as_deref().unwrap_or("Invoice")) }
            div.card {
                p role="status" { strong { (words(standing)) } }
                @if !standing.is_known {
                    p { "The server has just started. Payments of the last minutes are not known yet." }
                }
                dl.facts {
                    (parts::fact("Amount", &html! { (amounts::bitcoin(invoice.amount)) " BTC" }))
                    (parts::fact("Received", &html! { (amounts::bitcoin(standing.received)) " BTC" }))
                    @if standing.late > 0 {
                        (parts::fact("Received too late", &html! { (amounts::bitcoin(standing.late)) " BTC" }))
                    }
                    @if asks {
                        @let time_left = amounts::duration(invoice.expires.saturating_sub(now));
                        (parts::fact("Time left", &html! { (time_left) }))
                    }
                }
                @if asks {
                    @let uri = crate::invoice::payment_uri(&invoice.address, left, invoice.label.as_deref());
                    p { a href=(uri) { "Open in a wallet" } }
                    @if let Some(code) = parts::qr(&uri, "Payment request") { (code) }
                    p { code { (invoice.address) } }
                    @if standing.received > 0 { p { (amounts::bitcoin(left)) " BTC are still to be paid." } }
                }
            }
        }
    })
}

fn words(standing: &Standing) -> &'static str {
    match standing.state {
        InvoiceState::Unpaid | InvoiceState::Underpaid if !standing.is_known => "Looking for payments",
        InvoiceState::Unpaid => "Waiting for payment",
        InvoiceState::Underpaid => "Partly paid",
        InvoiceState::Paid => "Paid, waiting for a block",
        InvoiceState::Overpaid => "Paid, more than the amount, waiting for a block",
        InvoiceState::Confirmed => "Paid and confirmed",
        InvoiceState::Expired => "Expired",
    }
}
