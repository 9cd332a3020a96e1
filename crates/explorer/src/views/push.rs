//! The page that tests and broadcasts a transaction.

use bitcoin::{Network, Txid};
use maud::{Markup, html};

use super::decoded::{self, Decoded};
use super::layout::Frame;
use super::parts;

/// The outcome of a test or a broadcast.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// None yet.
    Open,
    Tested(Box<Decoded>),
    Sent(Txid),
    /// With the node's reason.
    Refused(String),
}

/// Returns the page, with digits of a transaction in its form.
pub(crate) fn page(network: Network, outcome: &Outcome, hex: &str) -> String {
    Frame { title: "Broadcast a transaction", network: Some(network), ..Frame::default() }.around(&html! {
        h1 { "Broadcast a transaction" }
        @match outcome {
            Outcome::Open => {},
            Outcome::Tested(tested) => (decoded::sections(tested)),
            Outcome::Sent(txid) => div.card.good role="status" {
                p { "The node has taken the transaction and passes it on." }
                p { (parts::txid(txid)) }
            },
            Outcome::Refused(message) => div.card.bad role="alert" {
                p { "The node refuses the transaction: " (message) }
            },
        }
        (form(hex))
    })
}

fn form(hex: &str) -> Markup {
    html! {
        form.card.ask action="/push" method="post" {
            label for="tx" { "The signed transaction, in hexadecimal" }
            textarea #tx name="tx" rows="8" required autocomplete="off" autocapitalize="off" spellcheck="false"
                aria-describedby="effect" { (hex) }
            p.quiet #effect {
                "A test shows the transaction and asks this server's node if it would take it; nothing leaves the node. \
                 A broadcast goes to the Bitcoin network by this node, and cannot be taken back."
            }
            div.pager {
                button formaction="/push/test" { "Test" }
                button { "Broadcast" }
            }
        }
    }
}
