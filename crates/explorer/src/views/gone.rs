//! The page of a transaction that left the mempool and is in no block: replaced, or dropped.

use birdhouse_chain::Version as Known;
use birdhouse_chain::source::BlockId;
use birdhouse_esplora::{StaleBlock, quotient};
use birdhouse_web::amounts;
use bitcoin::{Network, OutPoint};
use maud::{Markup, html};

use super::layout::{Frame, Live};
use super::parts::{self, badge, fact};
use super::stale;
use super::transaction::{Spending, spending};
use super::versions::{Fate, Version, timeline};

/// The state of such a transaction in the words of `live.js`.
const GONE: &str = "gone";

/// Values of the page.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) network: Network,
    pub(crate) tip: BlockId,
    /// The transaction in short.
    pub(crate) own: Known,
    /// A block with it that left the chain.
    pub(crate) stale: Option<StaleBlock>,
    /// It and those that replaced it or were replaced by it, the last one first.
    pub(crate) versions: Vec<Version>,
    /// Outputs that it wanted to spend, if nothing replaced it.
    pub(crate) wanted: Vec<Wanted>,
    /// The number of all of them.
    pub(crate) wanted_count: usize,
}

/// An output that a dropped transaction wanted to spend.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) outpoint: OutPoint,
    /// `None` if its own transaction is gone as well.
    pub(crate) spending: Option<Spending>,
}

/// Returns the page.
pub(crate) fn page(gone: &Gone) -> String {
    let txid = gone.own.txid;
    let title = format!("Transaction {txid}");
    let query = format!("blocks&tx={txid}");
    let fate = gone.versions.iter().find(|version| version.txid == txid).map_or(Fate::Left, |version| version.fate);
    let live = Some(Live { query: &query, tip: gone.tip, state: Some(GONE) });
    Frame { title: &title, network: Some(gone.network), live, ..Frame::default() }.around(&html! {
        div.heading {
            h1 { "Transaction" }
            p.state { (badge("bad", if fate == Fate::Left { "dropped" } else { "replaced" })) }
        }
        p.whole { (txid) }
        @if let Some(stale) = &gone.stale { (stale::notice(stale, None)) }
        div.columns {
            (story(gone, fate))
            (summary(&gone.own))
        }
        (timeline(&gone.versions, txid))
        (wanted(gone))
    })
}

fn story(gone: &Gone, fate: Fate) -> Markup {
    html! {
        section aria-labelledby="story" {
            h2 #story { "What became of it" }
            @if let Fate::Replaced { by, after_s } = fate {
                p { "Another transaction replaced it after " (amounts::duration(after_s)) ". It spends one of the same \
                     coins and pays more, so nodes dropped this one:" }
                p { (parts::txid(&by)) }
                (latest(&gone.versions))
            } @else {
                p { "It was in the mempool of this server's node and left it without being confirmed. The node drops \
                     transactions that pay too little when its mempool is full, that wait for two weeks, or whose coins \
                     another transaction spends." }
                p { "A dropped transaction moves nothing: what it wanted to spend belongs to its owner still, unless \
                     something else has spent it. It is valid again if it is broadcast again meanwhile." }
            }
        }
    }
}

fn latest(versions: &[Version]) -> Markup {
    let mined = versions.iter().find_map(|version| match version.fate {
        Fate::Mined(height) => Some(height),
        _ => None,
    });
    html! {
        @if let Some(height) = mined {
            p { "Block " a href={ "/block/" (height) } { (amounts::count(height.into())) } " has a version, so this one \
                 can never be confirmed." }
        } @else {
            p { "No block has a version yet. Follow the last version instead of this one." }
        }
    }
}

fn summary(own: &Known) -> Markup {
    html! {
        section aria-labelledby="summary" {
            h2 #summary { "Summary" }
            dl.facts {
                (fact("First seen", &parts::seen(own.first_seen)))
                (fact("Paid", &parts::amount(own.paid)))
                (fact("Fee", &parts::amount(own.fee)))
                (fact("Fee rate", &parts::rate(quotient(own.fee, own.vsize))))
                (fact("Virtual size", &html! { (amounts::vbytes(own.vsize)) }))
            }
        }
    }
}

fn wanted(gone: &Gone) -> Markup {
    html! {
        @if !gone.wanted.is_empty() {
            section aria-labelledby="wanted" {
                h2 #wanted { "What it wanted to spend" }
                ol.parts {
                    @for Wanted { outpoint, spending: found } in &gone.wanted {
                        li {
                            (parts::outpoint(outpoint))
                            p.quiet.pair.from {
                                @match found {
                                    Some(found) => (spending(outpoint, *found)),
                                    None => (badge("bad", "its transaction is gone, too")),
                                }
                            }
                        }
                    }
                }
                @if gone.wanted_count > gone.wanted.len() {
                    p.quiet { "The first " (gone.wanted.len()) " of " (gone.wanted_count) "." }
                }
            }
        }
    }
}
