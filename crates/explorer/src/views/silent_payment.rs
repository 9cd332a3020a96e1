//! The page of a silent payment address: its keys, and the reason why it has no history.

use birdhouse_silentpayments::Address;
use bitcoin::Network;
use bitcoin::hex::DisplayHex as _;
use maud::html;

use super::layout::Frame;
use super::parts::{fact, qr};

/// Returns the page of an address, with the text that named it.
pub(crate) fn page(network: Network, text: &str, address: &Address) -> String {
    let text = text.to_lowercase();
    let title = format!("Silent payment address {text}");
    Frame { title: &title, network: Some(network), ..Frame::default() }.around(&html! {
        h1 { "Silent payment address" }
        p.whole { (text) }
        div.columns.code {
            section aria-labelledby="history" {
                h2 #history { "No history" }
                p {
                    "This address is never on the chain. Whoever pays it makes a new output of its two keys and of the "
                    "keys of the coins that are spent. The output looks like any other taproot output, and only the "
                    "owner of the address can tell that the two belong together: with the private scan key."
                }
                p {
                    "So this server knows neither its balance nor its transactions, and cannot look them up. The "
                    "owner's wallet finds them: it asks a server for the tweaks of all transactions, or lends it the "
                    "scan key (BIP 352)."
                }
                dl.facts {
                    (fact("Network", &html! { (network) }))
                    (fact("Version", &html! { (address.version) }))
                    (fact("Public scan key", &html! { span.whole { (address.scan.to_lower_hex_string()) } }))
                    (fact("Public spend key", &html! {
                        span.whole { (address.spend.to_lower_hex_string()) }
                        " (with a label, if the wallet gave the address one)"
                    }))
                }
            }
            @if let Some(code) = qr(&text, "QR code of the address") { section.picture aria-label="QR code" { (code) } }
        }
    })
}
