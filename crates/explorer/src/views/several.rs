//! Pages of several addresses, an extended key or a descriptor.

use birdhouse_chain::{ScriptHash, ScriptStats};
use birdhouse_web::amounts;
use bitcoin::Network;
use bitcoin::hex::DisplayHex as _;
use maud::{Markup, html};

use super::chart::BalanceChart;
use super::layout::Frame;
use super::parts::{self, fact};
use super::scan::{self, Access};
use super::script::{self, Entry};

/// One script of several.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) hash: ScriptHash,
    /// Its address; `None` if it has none, or is named by its hash.
    pub(crate) address: Option<String>,
    /// Its form, and its path in a descriptor.
    pub(crate) name: String,
    pub(crate) chain: ScriptStats,
    pub(crate) mempool: ScriptStats,
}

/// Values of the page.
#[derive(Debug)]
pub(crate) struct Several {
    pub(crate) network: Network,
    /// The question, for the form and for the next page.
    pub(crate) text: String,
    pub(crate) members: Vec<Member>,
    /// The sum that came from others, in satoshis; `None` if the histories are too long to be read.
    pub(crate) received: Option<u64>,
    /// The balance over time, up to the time of the tip.
    pub(crate) balances: BalanceChart,
    pub(crate) tip_time: u32,
    /// Derived scripts without a transaction.
    pub(crate) unused: usize,
    /// The next script of each branch.
    pub(crate) next: Vec<Member>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) is_more: bool,
    pub(crate) is_first: bool,
}

const TITLE: &str = "Addresses and wallets";

/// Returns the page with an empty form.
pub(crate) fn form(network: Network, access: Access) -> String {
    Frame { title: TITLE, network: Some(network), ..Frame::default() }.around(&html! {
        h1 { (TITLE) }
        (question(""))
        h2 { "Silent payments" }
        (scan::form(access))
    })
}

/// Returns the page.
pub(crate) fn page(several: &Several) -> String {
    Frame { title: TITLE, network: Some(several.network), ..Frame::default() }.around(&html! {
        h1 { (TITLE) }
        (summary(several))
        (several.balances.markup(several.tip_time))
        (history(several))
        (members(several))
        details {
            summary { "Another question" }
            (question(&several.text))
        }
    })
}

fn question(text: &str) -> Markup {
    html! {
        form.card.ask action="/addresses" method="post" {
            label for="several" { "Addresses, one a line, an extended public key, or an output descriptor" }
            textarea #several name="q" rows="6" required autocomplete="off" autocapitalize="off" spellcheck="false"
                aria-describedby="kept" { (text) }
            p.quiet #kept {
                "The server derives the addresses of a key or descriptor, up to twenty unused ones in a row, and keeps \
                 nothing: neither the question nor the answer is stored or logged, and no address of this page has \
                 them. Never enter a private key."
            }
            button { "Show" }
        }
    }
}

fn summary(several: &Several) -> Markup {
    let sum = |of: &dyn Fn(&Member) -> u64| several.members.iter().map(of).sum::<u64>();
    let balance = sum(&|member| member.chain.funded_sum.saturating_sub(member.chain.spent_sum));
    let funded = sum(&|member| member.mempool.funded_sum);
    let spent = sum(&|member| member.mempool.spent_sum);
    let change = i128::from(funded) - i128::from(spent);
    html! {
        section aria-labelledby="summary" {
            h2 #summary { "Balance" }
            p.balance { (parts::amount(balance)) }
            dl.facts {
                @if funded + spent > 0 {
                    (fact("In the mempool", &parts::change(i64::try_from(change).unwrap_or_default())))
                }
                (fact("Addresses", &html! { (amounts::count(several.members.len() as u64)) }))
                (fact("Received", &html! {
                    @match several.received {
                        Some(received) => { (parts::amount(received)) " without change" },
                        None => { (parts::amount(sum(&|member| member.chain.funded_sum))) " with change" },
                    }
                }))
                @if several.unused > 0 {
                    (fact("Derived and unused", &html! { (amounts::count(several.unused as u64)) }))
                }
            }
        }
    }
}

fn members(several: &Several) -> Markup {
    html! {
        section aria-labelledby="members" {
            h2 #members { "Addresses" }
            @if several.members.is_empty() {
                p.quiet { "None of these addresses has a transaction." }
            } @else {
                (table(&several.members))
            }
        }
        @if !several.next.is_empty() {
            section aria-labelledby="unused" {
                h2 #unused { "Next unused" }
                ul.plain { @for member in &several.next { li.pair { (link(member)) span.quiet { (member.name) } } } }
            }
        }
    }
}

fn table(members: &[Member]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Address" }
                th.spare scope="col" { "Path" }
                th.number.spare scope="col" { "Transactions" }
                th.number.spare scope="col" { (parts::amounts_head("Received")) }
                th.number scope="col" { (parts::amounts_head("Balance")) }
            } }
            tbody { @for member in members { tr {
                td.wide { (link(member)) }
                td.spare { (member.name) }
                td.number.spare { (amounts::count(member.chain.txs + member.mempool.txs)) }
                td.number.spare { (parts::number(member.chain.funded_sum)) }
                td.number { (parts::number(member.chain.funded_sum.saturating_sub(member.chain.spent_sum))) }
            } } }
        }
    }
}

fn link(member: &Member) -> Markup {
    let hash = hex(&member.hash);
    html! {
        @match &member.address {
            Some(address) => (parts::address(address)),
            None => a.long-link href={ "/scripthash/" (hash) } { (parts::long_name(&hash)) },
        }
    }
}

/// The digits of a script hash, in the byte order of the hash function.
fn hex(hash: &ScriptHash) -> String {
    hash.0.to_lower_hex_string()
}

fn history(several: &Several) -> Markup {
    html! {
        @if !several.entries.is_empty() {
            section aria-labelledby="history" {
                h2 #history { @if several.is_first { "Newest transactions" } @else { "Older transactions" } }
                (script::entries(&several.entries))
                @if let Some(last) = several.entries.last().filter(|_| several.is_more) {
                    form action="/addresses" method="post" {
                        input type="hidden" name="q" value=(several.text);
                        input type="hidden" name="after" value=(last.txid);
                        button { "Older" }
                    }
                }
            }
        }
    }
}
