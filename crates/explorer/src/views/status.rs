//! The page about the server.

use birdhouse_web::amounts;
use bitcoin::Network;
use maud::html;

use super::home::BlockLine;
use super::layout::Frame;
use super::parts::{self, badge, fact};

/// Values of the page.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) network: Network,
    pub(crate) now: u64,
    pub(crate) tip: Option<BlockLine>,
    /// Transactions in blocks.
    pub(crate) transactions: u64,
    pub(crate) waiting_transactions: usize,
    pub(crate) has_node: bool,
    /// The reason why the index does not follow the node.
    pub(crate) waiting: Option<String>,
}

/// Returns the page.
pub(crate) fn page(status: &Status) -> String {
    Frame { title: "Status", network: Some(status.network), ..Frame::default() }.around(&html! {
        h1 { "Status" }
        section.card aria-label="State of the index" {
            dl.facts {
                (fact("Index", &html! {
                    @match &status.waiting {
                        None => (badge("good", "follows its node")),
                        Some(reason) => { (badge("open", "waits")) " " (reason) },
                    }
                }))
                (fact("Node", &html! { @if status.has_node { "connected" } @else { "none: blocks alone" } }))
                (fact("Network", &html! { (status.network) }))
                @if let Some(tip) = &status.tip {
                    (fact("Tip", &html! {
                        a href={ "/block/" (tip.block.id.hash) } { (amounts::count(tip.block.id.height.0.into())) }
                        ", " (parts::age(tip.time, status.now))
                    }))
                }
                (fact("Transactions in blocks", &html! { (amounts::count(status.transactions)) }))
                (fact("In the mempool", &html! { (amounts::count(status.waiting_transactions as u64)) }))
                (fact("Version", &html! { "Birdhouse " (env!("CARGO_PKG_VERSION")) }))
            }
        }
        section aria-labelledby="programs" {
            h2 #programs { "For programs" }
            p { "Under " code { "/api" } " this server speaks Esplora's REST API; "
                a href="/api/openapi.json" { "its list of endpoints" } " is an OpenAPI document." }
        }
        section aria-labelledby="privacy" {
            h2 #privacy { "Privacy" }
            p { "These pages load nothing from other hosts, set no cookies and need no scripts. The server logs nothing \
                 about what is looked up." }
        }
    })
}
