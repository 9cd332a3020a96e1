//! The page of a block.

use std::sync::Arc;

use birdhouse_chain::{BlockSummary, ResolvedTransaction};
use birdhouse_esplora::{BlockFees, quotient};
use birdhouse_web::amounts;
use bitcoin::block::Header;
use bitcoin::{BlockHash, Network, Txid};
use maud::{Markup, html};

use super::layout::Frame;
use super::parts::{self, fact};
use super::sides::{self, Sides};

/// Weight units of a full block.
const BLOCK_WEIGHT: u64 = 4_000_000;

/// Columns of the table of transactions.
const COLUMNS: usize = 3;

/// Values of a block's page.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) network: Network,
    pub(crate) summary: BlockSummary,
    pub(crate) header: Header,
    pub(crate) median_time: u32,
    pub(crate) confirmations: u32,
    /// `None` if they are unknown.
    pub(crate) fees: Option<Arc<BlockFees>>,
    /// The blocks before and after it.
    pub(crate) neighbours: (Option<BlockHash>, Option<BlockHash>),
    /// Index of the first transaction on the page.
    pub(crate) start: u32,
    pub(crate) transactions: Vec<Summary>,
    /// Transactions on a full page.
    pub(crate) page: u32,
}

/// A transaction in short.
#[derive(Debug, Clone)]
pub(crate) struct Summary {
    pub(crate) txid: Txid,
    pub(crate) is_coinbase: bool,
    pub(crate) sides: Sides,
    /// Sum of the outputs in satoshis.
    pub(crate) value: u64,
    /// `None` if it is unknown.
    pub(crate) fee: Option<u64>,
    pub(crate) vsize: u64,
}

impl Summary {
    pub(crate) fn of(found: &ResolvedTransaction, sides: Sides) -> Self {
        let transaction = &found.transaction;
        Self {
            txid: found.txid,
            is_coinbase: transaction.is_coinbase(),
            sides,
            value: transaction.output.iter().map(|output| output.value.to_sat()).sum(),
            fee: found.fee(),
            vsize: transaction.vsize() as u64,
        }
    }
}

/// Returns the page.
pub(crate) fn page(block: &Block) -> String {
    let id = block.summary.id;
    let title = format!("Block {}", id.height);
    Frame { title: &title, network: Some(block.network), ..Frame::default() }.around(&html! {
        div.heading {
            h1 { "Block " (amounts::count(id.height.0.into())) }
            (neighbours(block))
        }
        p.whole { (id.hash) }
        div.columns {
            (summary(block))
            @if let Some(known) = &block.fees { (fees(known, block.summary.tx_count)) }
        }
        (details(block))
        (transactions(block))
    })
}

fn neighbours(block: &Block) -> Markup {
    let link = |hash: Option<BlockHash>| hash.map(|hash| format!("/block/{hash}"));
    let (before, after) = block.neighbours;
    parts::pager("Neighbouring blocks", &[("Before", link(before)), ("After", link(after))])
}

fn summary(block: &Block) -> Markup {
    let BlockSummary { tx_count, bytes, weight, .. } = block.summary;
    let share = u64::from(weight) * 1000 / BLOCK_WEIGHT;
    html! {
        section aria-labelledby="summary" {
            h2 #summary { "Summary" }
            dl.facts {
                (fact("Time", &parts::time(block.header.time)))
                (fact("Confirmations", &html! { (amounts::count(block.confirmations.into())) }))
                (fact("Transactions", &html! { (amounts::count(tx_count.into())) }))
                (fact("Size", &html! { (amounts::bytes(bytes.into())) }))
                (fact("Weight", &html! { (amounts::weight(weight.into())) " " (parts::bar(share)) }))
            }
        }
    }
}

fn fees(known: &BlockFees, transactions: u32) -> Markup {
    let BlockFees { total, rates: [lowest, _, quarter, median, three_quarters, _, highest] } = *known;
    html! {
        section aria-labelledby="fees" {
            h2 #fees { "Fees" }
            dl.facts {
                (fact("All together", &parts::amount(total)))
                @if transactions > 1 {
                    (fact("Median", &parts::rate(median)))
                    (fact("Middle half", &html! { (amounts::rate(quarter)) "\u{2013}" (parts::rate(three_quarters)) }))
                    (fact("Lowest and highest", &html! { (amounts::rate(lowest)) "\u{2013}" (parts::rate(highest)) }))
                }
            }
        }
    }
}

fn details(block: &Block) -> Markup {
    let header = &block.header;
    html! {
        details {
            summary { "Header" }
            dl.facts {
                (fact("Version", &html! { (format!("{:#010x}", header.version.to_consensus())) }))
                (fact("Previous block", &html! { span.whole { (header.prev_blockhash) } }))
                (fact("Merkle root", &html! { span.whole { (header.merkle_root) } }))
                (fact("Median time of eleven blocks", &parts::time(block.median_time)))
                (fact("Bits", &html! { (format!("{:#010x}", header.bits.to_consensus())) }))
                (fact("Difficulty", &html! { (header.difficulty_float()) }))
                (fact("Nonce", &html! { (header.nonce) }))
                (fact("Raw", &html! { a href={ "/api/block/" (block.summary.id.hash) "/raw" } download { "Download" } }))
            }
        }
    }
}

fn transactions(block: &Block) -> Markup {
    let (count, start) = (block.summary.tx_count, block.start);
    let end = count.min(start + block.page);
    let target = |start: u32| format!("/block/{}?start={start}#transactions", block.summary.id.hash);
    let links = [
        ("First", (start > 0).then(|| target(0))),
        ("Before", (start > 0).then(|| target(start.saturating_sub(block.page)))),
        ("After", (end < count).then(|| target(end))),
        ("Last", (end < count).then(|| target((count - 1) / block.page * block.page))),
    ];
    html! {
        section aria-labelledby="transactions" {
            h2 #transactions { "Transactions " (start + 1) "\u{2013}" (end) " of " (amounts::count(count.into())) }
            (table(&block.transactions))
            @if count > block.page { (parts::pager("More transactions", &links)) }
        }
    }
}

fn table(transactions: &[Summary]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Transaction" }
                th.number scope="col" { (parts::amounts_head("Value")) }
                th.number scope="col" { "Fee rate" }
            } }
            tbody { @for transaction in transactions { tr {
                td.wide { (parts::txid(&transaction.txid)) }
                td.number { (parts::number(transaction.value)) }
                td.number {
                    @if transaction.is_coinbase { "coinbase" }
                    @else if let Some(fee) = transaction.fee { (parts::rate(quotient(fee, transaction.vsize))) }
                    @else { "unknown" }
                }
            } (sides::row(&transaction.sides, COLUMNS)) } }
        }
    }
}
