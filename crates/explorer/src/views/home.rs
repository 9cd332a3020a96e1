//! The first page, and lists of blocks.

use std::time::Duration;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{BlockSummary, NodeValue};
use birdhouse_esplora::{Estimate, ProjectedBlock, Rates};
use birdhouse_web::amounts;
use bitcoin::{Network, Txid};
use maud::{Markup, html};

use super::layout::{Frame, Live};
use super::parts;
use super::schedule::{Halving, schedule};
use crate::times;

/// Weight units of a full block.
const BLOCK_WEIGHT: u64 = 4_000_000;
/// Virtual bytes of a full block.
const BLOCK_VBYTES: u64 = 1_000_000;
/// Minutes between two blocks, on average.
const BLOCK_MINUTES: usize = 10;

/// Age of the node's figures from which it is shown.
const SILENCE_SHOWN: Duration = Duration::from_mins(1);

/// A block in a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockLine {
    pub(crate) block: BlockSummary,
    /// Its time in seconds since 1970.
    pub(crate) time: u32,
}

/// A transaction that came lately.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) txid: Txid,
    pub(crate) value: u64,
    pub(crate) fee: u64,
    pub(crate) vsize: u64,
}

/// Values of the first page.
#[derive(Debug)]
pub(crate) struct Home<'a> {
    pub(crate) network: Network,
    pub(crate) now: u64,
    pub(crate) tip: BlockId,
    /// The newest blocks, newest first.
    pub(crate) blocks: Vec<BlockLine>,
    pub(crate) projected: &'a [ProjectedBlock],
    pub(crate) has_node: bool,
    /// Fee rates by urgency, and their age; `None` without a node, or after it has been silent for long.
    pub(crate) rates: Option<NodeValue<Rates>>,
    /// Transactions in the mempool, their virtual bytes and fees.
    pub(crate) waiting: (usize, u64, u64),
    /// Fee rates, decreasing, with virtual bytes.
    pub(crate) histogram: Vec<(f64, u64)>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) retarget: Estimate,
    pub(crate) halving: Halving,
}

/// Returns the first page.
pub(crate) fn page(home: &Home<'_>) -> String {
    let live = Some(Live::blocks(home.tip));
    let frame = Frame { title: "Explorer", network: Some(home.network), live, ..Frame::default() };
    frame.around(&html! {
        h1.unseen { "Bitcoin explorer" }
        (chain(home))
        div.columns {
            (fees(home))
            (mempool(home))
        }
        (newest(&home.arrivals))
        (schedule(home.network, &home.retarget, home.halving))
    })
}

/// The blocks that come next, and those that came last.
fn chain(home: &Home<'_>) -> Markup {
    html! {
        section aria-labelledby="next" {
            h2 #next { "Next blocks" }
            @if home.projected.is_empty() {
                p.quiet { "No transaction waits." }
            } @else {
                ol.blocks.next {
                    @for (index, block) in home.projected.iter().enumerate() { (projected(home.tip.height.0, index, block)) }
                }
            }
        }
        section aria-labelledby="newest" {
            h2 #newest { "Newest blocks" }
            ol.blocks.mined { @for line in &home.blocks { (mined(line, home.now)) } }
            p { a href="/blocks" { "All blocks" } }
        }
    }
}

fn projected(tip: u32, index: usize, block: &ProjectedBlock) -> Markup {
    let [low, .., high] = block.rates;
    html! {
        li.block {
            p.name { a href={ "/mempool-block/" (index) } { (amounts::count(u64::from(tip) + 1 + index as u64)) } }
            p.main { "~" (parts::rate(block.median())) }
            p { (amounts::rate(low)) "\u{2013}" (parts::rate(high)) }
            p { (amounts::count(block.transactions as u64)) " transactions" }
            p { (parts::amount(block.fees)) }
            (parts::bar(block.vsize * 1000 / BLOCK_VBYTES))
            p.quiet { "in about " ((index + 1) * BLOCK_MINUTES) " minutes" }
        }
    }
}

fn mined(line: &BlockLine, now: u64) -> Markup {
    let BlockSummary { id, tx_count, bytes, weight, .. } = line.block;
    html! {
        li.block {
            p.name { a href={ "/block/" (id.hash) } { (amounts::count(id.height.0.into())) } }
            p.main { (amounts::count(tx_count.into())) @if tx_count == 1 { " transaction" } @else { " transactions" } }
            p { (amounts::bytes(bytes.into())) }
            (parts::bar(u64::from(weight) * 1000 / BLOCK_WEIGHT))
            p.quiet { (parts::age(line.time, now)) }
        }
    }
}

fn ago(age: Duration, now: u64) -> String {
    times::ago(u32::try_from(now.saturating_sub(age.as_secs())).unwrap_or(u32::MAX), now)
}

fn fees(home: &Home<'_>) -> Markup {
    html! {
        section aria-labelledby="fees" {
            h2 #fees { "Fee rates" }
            @if let Some(NodeValue { value: Rates { fastest, half_hour, hour, economy, minimum }, age }) = home.rates {
                @if age >= SILENCE_SHOWN {
                    p.quiet { "The node does not answer. Its minimum is from " (ago(age, home.now)) "." }
                }
                dl.facts.tall {
                    @for (name, rate) in [
                        ("Next block", fastest), ("Half an hour", half_hour), ("An hour", hour), ("Economy", economy),
                        ("Minimum", minimum),
                    ] { (parts::fact(name, &parts::rate(rate))) }
                }
            } @else {
                p.quiet { @if home.has_node { "The node does not answer." } @else { "There is no node to ask." } }
            }
        }
    }
}

fn mempool(home: &Home<'_>) -> Markup {
    let (transactions, vsize, fees) = home.waiting;
    html! {
        section aria-labelledby="mempool" {
            h2 #mempool { "Mempool" }
            dl.facts {
                (parts::fact("Transactions", &html! { (amounts::count(transactions as u64)) }))
                (parts::fact("Size", &html! { (amounts::vbytes(vsize)) }))
                (parts::fact("Fees", &parts::amount(fees)))
            }
            p { a href="/mempool-history" { "History of two hours to a year" } }
            @if !home.histogram.is_empty() { (histogram(&home.histogram)) }
        }
    }
}

fn histogram(bins: &[(f64, u64)]) -> Markup {
    let most = bins.iter().map(|(_, vsize)| *vsize).max().unwrap_or_default().max(1);
    html! {
        table.histogram {
            caption { "Size by fee rate" }
            thead { tr { th scope="col" { "From" } th scope="col" { span.unseen { "Share" } } th.number scope="col" { "Size" } } }
            tbody {
                @for (rate, vsize) in bins {
                    tr {
                        th scope="row" { (parts::rate(*rate)) }
                        td.wide { (parts::bar(vsize * 1000 / most)) }
                        td.number { (amounts::vbytes(*vsize)) }
                    }
                }
            }
        }
    }
}

fn newest(arrivals: &[Arrival]) -> Markup {
    html! {
        @if !arrivals.is_empty() {
            section aria-labelledby="arrivals" {
                h2 #arrivals { "Newest transactions" }
                table {
                    thead { tr {
                        th scope="col" { "Transaction" }
                        th.number scope="col" { (parts::amounts_head("Value")) }
                        th.number.spare scope="col" { "Size" }
                        th.number scope="col" { "Fee rate" }
                    } }
                    tbody { @for arrival in arrivals { tr {
                        td.wide { (parts::txid(&arrival.txid)) }
                        td.number { (parts::number(arrival.value)) }
                        td.number.spare { (amounts::vbytes(arrival.vsize)) }
                        td.number { (parts::rate(birdhouse_esplora::quotient(arrival.fee, arrival.vsize))) }
                    } } }
                }
            }
        }
    }
}

/// Returns a page of the list of blocks. Links lead to the blocks above and below it.
pub(crate) fn blocks(network: Network, now: u64, lines: &[BlockLine], links: &[(&str, Option<String>)]) -> String {
    let frame = Frame { title: "Blocks", network: Some(network), ..Frame::default() };
    frame.around(&html! {
        h1 { "Blocks" }
        section aria-label="Blocks" {
            table {
                thead { tr {
                    th scope="col" { "Height" }
                    th scope="col" { "Hash" }
                    th scope="col" { "Age" }
                    th.number scope="col" { "Transactions" }
                    th.number.spare scope="col" { "Size" }
                    th.number.spare scope="col" { "Weight" }
                } }
                tbody { @for line in lines { (row(line, now)) } }
            }
        }
        (parts::pager("More blocks", links))
    })
}

fn row(line: &BlockLine, now: u64) -> Markup {
    let BlockSummary { id, tx_count, bytes, weight, .. } = line.block;
    html! {
        tr {
            th scope="row" { a href={ "/block/" (id.hash) } { (amounts::count(id.height.0.into())) } }
            td.wide { (parts::long_name(&id.hash.to_string())) }
            td { (parts::age(line.time, now)) }
            td.number { (amounts::count(tx_count.into())) }
            td.number.spare { (amounts::bytes(bytes.into())) }
            td.number.spare { (amounts::weight(weight.into())) }
        }
    }
}
