//! Pages for the operator, whose browser asks for the token as a password: all wallets, one of them with its history,
//! unspent outputs, next address and labels, and its transactions as CSV.

mod line;
mod table;
mod wallet;

use birdhouse_web::{Alone, amounts};
use maud::{Markup, html};

use self::line::{Sums, scripts_of, unspent};
use crate::api::reply::{Answer, CSV, HTML, Reply};
use crate::api::routes::Route;
use crate::api::service::Question;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/", home, "The page of all wallets.").with(HTML),
    Route::get(
        "/watch/{name}",
        wallet::page,
        "The page of a watch: balance, next address, history, unspent outputs, labels.",
    )
    .with(HTML),
    Route::get("/watch/{name}/csv", table::csv, "All transactions of a watch as comma-separated values.").with(CSV),
    Route::post("/watch/{name}/labels", wallet::import, "Imports the labels of the form of that page.")
        .with(HTML)
        .of_own_page(),
];

fn home(question: &Question<'_>) -> Answer {
    let book = question.book();
    let mut names: Vec<&str> = book.branches.iter().map(|branch| branch.watch.as_str()).collect();
    names.dedup();
    let mut rows = Vec::new();
    for name in names {
        let unspent = unspent(question.at, &scripts_of(&book, name)?)?;
        rows.push((name, Sums::of(unspent.iter().map(|(_, output)| output))));
    }
    let content = html! {
        h1 { "Watched wallets" }
        @if rows.is_empty() { p { "No wallet is watched. " code { "birdhouse watch add" } " adds one." } }
        @else {
            section aria-label="Wallets" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Wallet" } th.number scope="col" { "Confirmed (BTC)" }
                            th.number.spare scope="col" { "Unconfirmed (BTC)" }
                        }
                    }
                    tbody {
                        @for (name, sums) in &rows {
                            tr {
                                td { a href={ "/watch/" (encoded(name)) } { (name) } }
                                td.number { (amounts::bitcoin(sums.confirmed)) }
                                td.number.spare { (amounts::bitcoin(sums.unconfirmed)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Reply::text(HTML, framed("Watched wallets", &content))
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
