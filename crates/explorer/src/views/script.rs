//! Pages of an address or script.

use birdhouse_chain::ScriptStats;
use birdhouse_chain::source::BlockId;
use birdhouse_web::amounts;
use bitcoin::{Network, OutPoint, Txid};
use maud::{Markup, html};

use super::chart::BalanceChart;
use super::layout::{Frame, Live};
use super::parts::{self, ListPart, badge, fact};
use super::sides::{self, Sides};

/// Names of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// Its address or hash.
    pub(crate) text: String,
    /// The path of its page.
    pub(crate) path: String,
    /// The noun for `text`: an address or a script.
    noun: &'static str,
    /// Type, and the script decoded and in hexadecimal, as far as they are known.
    known: Option<(&'static str, String, String)>,
}

/// A transaction of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) txid: Txid,
    /// Height and time of its block; `None` in the mempool.
    pub(crate) block: Option<(u32, u32)>,
    /// The change of the balance in satoshis; `None` if what the transaction spends is unknown.
    pub(crate) change: Option<i64>,
    /// The balance afterwards; `None` where it is not known.
    pub(crate) balance: Option<u64>,
    pub(crate) sides: Sides,
}

/// Targets of the links between the pages of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) newest: Option<String>,
    pub(crate) newer: Option<String>,
    pub(crate) older: Option<String>,
    pub(crate) oldest: Option<String>,
}

/// The figures of a script at a tip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) tip: BlockId,
    pub(crate) chain: ScriptStats,
    pub(crate) mempool: ScriptStats,
}

impl Figures {
    /// Returns the number of unspent outputs.
    pub(crate) fn unspent(&self) -> u64 {
        let Self { chain, mempool, .. } = self;
        (chain.funded + mempool.funded).saturating_sub(chain.spent + mempool.spent)
    }

    /// Returns them in the words of `live.js`.
    fn state(&self) -> String {
        let of = |stats: &ScriptStats| [stats.txs, stats.funded, stats.funded_sum, stats.spent, stats.spent_sum];
        [of(&self.chain), of(&self.mempool)].concat().iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// Values of the page of a script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) network: Network,
    pub(crate) names: Names,
    pub(crate) figures: Figures,
    /// The balance over time, up to the time of the tip.
    pub(crate) balances: BalanceChart,
    pub(crate) tip_time: u32,
    /// Newest first.
    pub(crate) unconfirmed: Vec<Entry>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) links: Links,
}

/// An unspent output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Coin {
    pub(crate) outpoint: OutPoint,
    pub(crate) value: u64,
    /// `None` in the mempool.
    pub(crate) height: Option<u32>,
}

/// Values of the page of unspent outputs.
#[derive(Debug)]
pub(crate) struct Unspent {
    pub(crate) network: Network,
    pub(crate) names: Names,
    pub(crate) figures: Figures,
    /// `None` if there are too many.
    pub(crate) listed: Option<Coins>,
}

/// A page of unspent outputs.
#[derive(Debug)]
pub(crate) struct Coins {
    pub(crate) coins: Vec<Coin>,
    pub(crate) page: ListPart,
}

/// A page about a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tab {
    History,
    Unspent,
}

impl Names {
    pub(crate) fn of_address(address: String, kind: &'static str, script: &bitcoin::Script) -> Self {
        let known = Some((kind, script.to_asm_string(), script.to_hex_string()));
        Self { path: format!("/address/{address}"), text: address, noun: "Address", known }
    }

    pub(crate) fn of_hash(hash: String) -> Self {
        Self { path: format!("/scripthash/{hash}"), text: hash, noun: "Script", known: None }
    }

    fn heading(&self, network: Network, figures: &Figures, around: &Markup) -> String {
        let title = format!("{} {}", self.noun, self.text);
        let query = format!("{}={}", if self.known.is_some() { "address" } else { "scripthash" }, self.text);
        let state = figures.state();
        let live = Some(Live { query: &query, tip: figures.tip, state: Some(&state) });
        Frame { title: &title, network: Some(network), live, ..Frame::default() }.around(&html! {
            h1 { (self.noun) }
            p.whole { (self.text) }
            (around)
        })
    }

    fn tabs(&self, open: Tab) -> Markup {
        let current = |tab| (tab == open).then_some("page");
        html! {
            nav.tabs aria-label="Parts" {
                a href=(self.path) aria-current=[current(Tab::History)] { "History" }
                a href={ (self.path) "/unspent" } aria-current=[current(Tab::Unspent)] { "Unspent outputs" }
                a href={ (self.path) "/history.csv" } download rel="nofollow" { "CSV" }
            }
        }
    }
}

/// Returns the page of a script.
pub(crate) fn page(script: &Script) -> String {
    let names = &script.names;
    names.heading(
        script.network,
        &script.figures,
        &html! {
            div.columns.code {
                (summary(script))
                (picture(names))
            }
            (script.balances.markup(script.tip_time))
            (names.tabs(Tab::History))
            (history(script))
        },
    )
}

fn summary(script: &Script) -> Markup {
    let Figures { chain, mempool, .. } = &script.figures;
    let balance = chain.funded_sum.saturating_sub(chain.spent_sum);
    let change = i128::from(mempool.funded_sum) - i128::from(mempool.spent_sum);
    html! {
        section aria-labelledby="summary" {
            h2 #summary { "Balance" }
            p.balance { (parts::amount(balance)) }
            dl.facts {
                @if mempool.txs > 0 {
                    (fact("In the mempool", &parts::change(i64::try_from(change).unwrap_or_default())))
                }
                (fact("Received", &parts::amount(chain.funded_sum)))
                (fact("Spent", &parts::amount(chain.spent_sum)))
                (fact("Transactions", &html! {
                    (amounts::count(chain.txs))
                    @if mempool.txs > 0 { " and " (amounts::count(mempool.txs)) " unconfirmed" }
                }))
                (fact("Unspent outputs", &html! { (amounts::count(chain.funded.saturating_sub(chain.spent))) }))
                @if let Some((kind, ..)) = &script.names.known { (fact("Type", &html! { (kind) })) }
            }
            @if let Some((_, asm, hex)) = &script.names.known {
                details {
                    summary { "Script" }
                    (parts::code(asm, "Script"))
                    (parts::code(hex, "Script, hexadecimal"))
                }
            }
        }
    }
}

fn picture(names: &Names) -> Markup {
    let label = format!("QR code of the address {}", names.text);
    let code = names.known.is_some().then(|| parts::qr(&format!("bitcoin:{}", names.text), &label)).flatten();
    html! { @if let Some(code) = code { section.picture aria-label="QR code" { (code) } } }
}

fn history(script: &Script) -> Markup {
    let Links { newest, newer, older, oldest } = script.links.clone();
    let links = [("Newest", newest), ("Newer", newer), ("Older", older), ("Oldest", oldest)];
    let has_pages = links.iter().any(|(_, target)| target.is_some());
    html! {
        @if !script.unconfirmed.is_empty() {
            section aria-labelledby="unconfirmed" {
                h2 #unconfirmed { "In the mempool" }
                (entries(&script.unconfirmed))
                @if script.figures.mempool.txs > script.unconfirmed.len() as u64 {
                    p.quiet { "The newest " (script.unconfirmed.len()) " of " (amounts::count(script.figures.mempool.txs)) "." }
                }
            }
        }
        section aria-labelledby="history" {
            h2 #history { "History" }
            @if script.entries.is_empty() {
                p.quiet { "No block has a transaction of this script." }
            } @else {
                (entries(&script.entries))
                @if script.entries.iter().all(|entry| entry.balance.is_none()) {
                    p.quiet { "Balances are shown on pages that are reached from the newest or the oldest one." }
                }
            }
            @if has_pages { (parts::pager("More of the history", &links)) }
        }
    }
}

/// The column of balances in a table of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Balances {
    Shown,
    /// No balance is known.
    Left,
}

impl Balances {
    fn of(entries: &[Entry]) -> Self {
        if entries.iter().any(|entry| entry.balance.is_some()) { Self::Shown } else { Self::Left }
    }

    /// Columns of the whole table.
    fn columns(self) -> usize {
        match self {
            Self::Shown => 5,
            Self::Left => 4,
        }
    }
}

/// A table of transactions with changes of the balance, and with balances where they are known.
pub(crate) fn entries(entries: &[Entry]) -> Markup {
    let balances = Balances::of(entries);
    html! {
        table {
            thead { tr {
                th scope="col" { "Transaction" }
                th.spare scope="col" { "Time" }
                th.number.spare scope="col" { "Block" }
                th.number scope="col" { (parts::amounts_head("Change")) }
                @if balances == Balances::Shown { th.number.spare scope="col" { (parts::amounts_head("Balance")) } }
            } }
            tbody { @for entry in entries { (row(entry, balances)) } }
        }
    }
}

fn row(entry: &Entry, balances: Balances) -> Markup {
    html! {
        tr {
            td.wide {
                (parts::txid(&entry.txid))
                span.below { @if let Some((_, time)) = entry.block { (parts::time(time)) } @else { "unconfirmed" } }
            }
            @match entry.block {
                Some((height, time)) => {
                    td.spare { (parts::time(time)) }
                    td.number.spare { a href={ "/block/" (height) } { (amounts::count(height.into())) } }
                }
                None => {
                    td.spare { (badge("open", "unconfirmed")) }
                    td.number.spare {}
                }
            }
            td.number {
                @if let Some(change) = entry.change { (parts::change_number(change)) } @else { "unknown" }
                @if let Some(balance) = entry.balance { span.below { "= " (parts::number(balance)) } }
            }
            @if balances == Balances::Shown {
                td.number.spare { @if let Some(balance) = entry.balance { (parts::number(balance)) } }
            }
        }
        (sides::row(&entry.sides, balances.columns()))
    }
}

/// Returns the page of unspent outputs.
pub(crate) fn unspent_page(unspent: &Unspent) -> String {
    let names = &unspent.names;
    names.heading(
        unspent.network,
        &unspent.figures,
        &html! {
            (names.tabs(Tab::Unspent))
            section aria-labelledby="unspent" {
                h2 #unspent { @match &unspent.listed {
                    None => { (amounts::count(unspent.figures.unspent())) " unspent outputs" },
                    Some(listed) => (listed.page.heading("unspent output")),
                } }
                @match &unspent.listed {
                    None => p.quiet { "These are too many for pages. The REST API and the Electrum protocol have them." },
                    Some(listed) if listed.coins.is_empty() => {
                        p.quiet { "Everything that this script was paid is spent." }
                    }
                    Some(listed) => {
                        (coins(&listed.coins))
                        (listed.page.links("More unspent outputs", |start| format!("{}/unspent?start={start}", names.path)))
                    }
                }
            }
        },
    )
}

fn coins(coins: &[Coin]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Output" }
                th.number scope="col" { "Block" }
                th.number scope="col" { (parts::amounts_head("Value")) }
            } }
            tbody { @for coin in coins { tr {
                td.wide {
                    (parts::outpoint(&coin.outpoint))
                }
                td.number {
                    @match coin.height {
                        Some(height) => (amounts::count(height.into())),
                        None => (badge("open", "unconfirmed")),
                    }
                }
                td.number { (parts::number(coin.value)) }
            } } }
        }
    }
}
