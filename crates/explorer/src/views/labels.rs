//! The page of labels, which are kept in the browser alone.

use bitcoin::Network;
use maud::html;

use super::layout::Frame;

/// Returns the page.
pub(crate) fn page(network: Network) -> String {
    Frame { title: "Labels", network: Some(network), ..Frame::default() }.around(&html! {
        h1 { "Labels" }
        div.card {
            p {
                "Labels of your transactions, outputs and addresses are kept in this browser, and are never sent. Pages \
                 with a label's subject show it. Wallets exchange labels in the same form, one a line, of BIP 329."
            }
            noscript { p { "This needs scripts, which are off." } }
        }
        form.card.ask hidden {
            label for="labels" { "Labels, one a line, as wallets export them" }
            textarea #labels rows="14" autocomplete="off" autocapitalize="off" spellcheck="false" {}
            p.quiet #outcome role="status" { "All labels of this browser: copy them into a file, or add lines and keep them." }
            div.pager {
                button { "Keep" }
                button #forget type="button" { "Forget all" }
            }
        }
    })
}
