//! The page that broadcasts a transaction.

use bitcoin::{Network, Txid};
use maud::html;

use super::layout::Frame;
use super::parts;

/// The outcome of a broadcast.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// None yet.
    Open,
    Sent(Txid),
    Refused {
        message: String,
        hex: String,
    },
}

/// Returns the page.
pub(crate) fn page(network: Network, outcome: &Outcome) -> String {
    let hex = if let Outcome::Refused { hex, .. } = outcome { hex.as_str() } else { "" };
    Frame { title: "Broadcast a transaction", network: Some(network), ..Frame::default() }.around(&html! {
        h1 { "Broadcast a transaction" }
        @match outcome {
            Outcome::Open => {},
            Outcome::Sent(txid) => div.card.good role="status" {
                p { "The node has taken the transaction and passes it on." }
                p { (parts::txid(txid)) }
            },
            Outcome::Refused { message, .. } => div.card.bad role="alert" {
                p { "The node refuses the transaction: " (message) }
            },
        }
        form.card.ask action="/push" method="post" {
            label for="tx" { "The signed transaction, in hexadecimal" }
            textarea #tx name="tx" rows="8" required autocomplete="off" autocapitalize="off" spellcheck="false"
                aria-describedby="effect" { (hex) }
            p.quiet #effect { "It goes to the Bitcoin network by this server's node. It cannot be taken back." }
            button { "Broadcast" }
        }
    })
}
