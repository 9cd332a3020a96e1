//! Pages of a wallet's silent payments: the form for its scan key, and a table that grows while blocks are scanned.

use birdhouse_web::amounts;
use bitcoin::{Network, OutPoint, Txid};
use maud::{Markup, html};

use super::layout::Frame;
use super::parts;

/// Access of a client to scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Open {
        /// Height of the first block that can have payments.
        start: u32,
    },
    /// Others on the way could read the key.
    InClear,
    /// The server keeps no index of silent payments.
    NoIndex,
}

/// A transaction that pays the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) txid: Txid,
    /// `None` in the mempool.
    pub(crate) height: Option<u32>,
    /// An output that pays it; `None` if the node has removed the block.
    pub(crate) output: Option<PaidOutput>,
}

/// An output that pays the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PaidOutput {
    pub(crate) vout: u32,
    pub(crate) sats: u64,
    /// `None` if the node has removed the block that tells.
    pub(crate) is_spent: Option<bool>,
    pub(crate) label: Option<u32>,
}

/// Payments so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    count: u64,
    received: u64,
    unspent: u64,
    /// Payments whose amount or state is unknown.
    unknown: u64,
}

impl Sum {
    /// Adds payments.
    pub(crate) fn add(&mut self, payments: &[Payment]) {
        for payment in payments {
            self.count += 1;
            let is_spent = payment.output.and_then(|output| output.is_spent);
            let sats = payment.output.map_or(0, |output| output.sats);
            self.received += sats;
            self.unspent += if is_spent == Some(false) { sats } else { 0 };
            self.unknown += u64::from(is_spent.is_none());
        }
    }
}

const TITLE: &str = "Silent payments of a wallet";
/// Stands in a page where its rows come; no text of a page has it.
const ROWS: &str = "\u{0}rows\u{0}";
/// Stands where the sum comes.
const SUM: &str = "\u{0}sum\u{0}";

/// Returns the page with an empty form, or the reason why there is none.
pub(crate) fn form_page(network: Network, access: Access) -> String {
    Frame { title: TITLE, network: Some(network), ..Frame::default() }.around(&html! {
        h1 { (TITLE) }
        (form(access))
    })
}

/// Returns the form, or the reason why there is none.
pub(crate) fn form(access: Access) -> Markup {
    match access {
        Access::NoIndex => html! {
            p.quiet { "Silent payments are not found here: this server keeps no index of them." }
        },
        Access::InClear => html! {
            p.card {
                "Silent payments of a wallet are found by its private scan key. There is no form for it, because this "
                "page did not come over TLS, nor from the same machine: others on the way could read the key."
            }
        },
        Access::Open { start } => html! {
            form.card.ask action="/silent-payments" method="post" {
                label for="scan" { "Private scan key, 64 hexadecimal digits" }
                input #scan name="scan" type="password" required autocomplete="off" minlength="64" maxlength="64"
                    pattern="[0-9a-fA-F]{64}" aria-describedby="scanned";
                label for="spend" { "Public spend key, 66 hexadecimal digits" }
                input #spend name="spend" required autocomplete="off" autocapitalize="off" spellcheck="false"
                    minlength="66" maxlength="66" pattern="0[23][0-9a-fA-F]{64}";
                label for="start" { "First block, the birth of the wallet" }
                input #start name="start" type="number" min="0" value=(start) autocomplete="off";
                p.quiet #scanned {
                    "The scan key shows all payments to the wallet, past and future, and spends none. The server keeps "
                    "it in memory while it scans, and nowhere else. Never enter the private spend key."
                }
                button { "Scan" }
            }
        },
    }
}

/// Returns the beginning of the page of a scan, up to its rows.
pub(crate) fn begun(network: Network, start: u32, tip: u32) -> String {
    let (begun, _) = halves(network, Some((start, tip)));
    begun
}

/// Returns the rows of some payments, and a comment that shows a browser that the page goes on.
pub(crate) fn rows(payments: &[Payment], next: u32) -> String {
    let rows = html! { @for payment in payments { (row(payment)) } };
    format!("{}<!-- {next} -->\n", rows.into_string())
}

/// Returns the end of the page.
pub(crate) fn end(sum: Sum) -> String {
    let (_, end) = halves(Network::Bitcoin, None);
    end.replacen(SUM, &summary(sum).into_string(), 1)
}

/// The two parts of the page, around its rows.
fn halves(network: Network, heights: Option<(u32, u32)>) -> (String, String) {
    let page = Frame { title: TITLE, network: Some(network), ..Frame::default() }.around(&html! {
        h1 { (TITLE) }
        @if let Some((start, tip)) = heights {
            p.quiet {
                "Blocks " (amounts::count(start.into())) " to " (amounts::count(tip.into())) ", then the mempool. The "
                "table grows while they are scanned; a line below it says when all are. To stop, close the page."
            }
        }
        section aria-labelledby="payments" {
            h2 #payments { "Payments" }
            table {
                thead { tr {
                    th scope="col" { "Output" }
                    th.number scope="col" { "Block" }
                    th.spare scope="col" { "Address" }
                    th.number scope="col" { (parts::amounts_head("Amount")) }
                    th scope="col" { "State" }
                } }
                tbody { (ROWS) }
            }
        }
        (SUM)
    });
    let (begun, end) = page.split_once(ROWS).expect("the page has it");
    (begun.to_owned(), end.to_owned())
}

fn row(payment: &Payment) -> Markup {
    let Payment { txid, height, output } = *payment;
    let label = match output.map(|output| output.label) {
        None => "unknown".to_owned(),
        Some(None) => "without label".to_owned(),
        Some(Some(0)) => "change".to_owned(),
        Some(Some(label)) => format!("label {label}"),
    };
    html! {
        tr {
            td.wide { @match output {
                Some(PaidOutput { vout, .. }) => (parts::outpoint(&OutPoint { txid, vout })),
                None => (parts::txid(&txid)),
            } }
            td.number { @match height {
                Some(height) => a href={ "/block/" (height) } { (amounts::count(height.into())) },
                None => "mempool",
            } }
            td.spare { (label) }
            td.number { @match output {
                Some(PaidOutput { sats, .. }) => (parts::number(sats)),
                None => "unknown",
            } }
            td { @match output.and_then(|output| output.is_spent) {
                Some(true) => "spent",
                Some(false) => "unspent",
                None => "unknown",
            } }
        }
    }
}

fn summary(sum: Sum) -> Markup {
    html! {
        section aria-labelledby="sum" {
            h2 #sum { "All blocks are scanned" }
            dl.facts {
                (parts::fact("Payments", &html! { (amounts::count(sum.count)) }))
                (parts::fact("Received", &parts::amount(sum.received)))
                (parts::fact("Unspent", &parts::amount(sum.unspent)))
            }
            @if sum.unknown > 0 {
                p {
                    (amounts::count(sum.unknown)) " of the payments lack an amount or a state, and are not part of the sums: "
                    "the node has deleted their blocks. Their pages get these from the node's peers."
                }
            }
            p.quiet {
                "Payments to labels other than that of change are not searched for. What was spent may have paid the "
                "wallet's change, which is a payment, too."
            }
        }
    }
}
