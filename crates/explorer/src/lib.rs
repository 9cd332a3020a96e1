//! A block explorer: web pages about blocks, transactions, addresses and the mempool, made from one snapshot of the
//! index.
//!
//! A handler reads what its page shows into plain values; a view makes markup of them, and is a pure function. Sockets,
//! limits and fairness are those of `birdhouse_esplora`, which serves [`PAGES`] with its API under `/api`.
//!
//! Invariants: one page sees one tip and one mempool; a page costs what it shows; it needs no script and no other host;
//! nothing that a client looks up is logged or stored, and extended keys travel in bodies only, never in paths.
//! Views write links from the root. [`Pages::finish`] makes them relative to the path of the request, in one function,
//! so that a proxy may serve the pages below any path.
//!
//! A question that the chain answers by "not found" is answered by what is remembered since the process began, within
//! bounds: replacements and transactions that left the mempool, and blocks that left the chain.
#![forbid(unsafe_code)]

// Values and their texts. Pure.
mod running;
mod times;

// Markup. Pure.
mod views;

// From a request to the values of a page.
mod assets;
mod handlers;

// For the fuzz target and tests like it. Not for use.
#[doc(hidden)]
pub mod fuzzing;

use birdhouse_esplora::Pages;
use hyper::header;

/// The explorer's pages.
pub static PAGES: Pages = Pages {
    routes: handlers::ROUTES,
    headers: &[
        // Nothing comes from elsewhere, and no page is shown inside of another.
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ],
    refusal: views::refusal::page,
    finish: views::layout::finish,
};
