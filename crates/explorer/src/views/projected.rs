//! The page of a block that miners would make now.

use birdhouse_chain::source::BlockId;
use birdhouse_esplora::ProjectedBlock;
use birdhouse_web::amounts;
use bitcoin::{Network, Txid};
use maud::{Markup, html};

use super::layout::{Frame, Live};
use super::parts::{self, ListPart, fact};

/// Virtual bytes of a full block.
const BLOCK_VBYTES: u64 = 1_000_000;

/// Values of the page.
#[derive(Debug)]
pub(crate) struct Projected<'a> {
    pub(crate) network: Network,
    pub(crate) tip: BlockId,
    /// Its index: 0 is the next block.
    pub(crate) index: usize,
    /// Projected blocks.
    pub(crate) count: usize,
    pub(crate) block: &'a ProjectedBlock,
    pub(crate) page: ListPart,
    /// In the order of mining.
    pub(crate) transactions: Vec<Line>,
}

/// A transaction of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) txid: Txid,
    /// In satoshis.
    pub(crate) fee: u64,
    /// In virtual bytes.
    pub(crate) vsize: u64,
    /// The fee rate at which it is mined, in sat/vB.
    pub(crate) rate: f64,
}

/// Returns the page.
pub(crate) fn page(projected: &Projected<'_>) -> String {
    let Projected { index, count, .. } = *projected;
    let title = match index {
        0 => "Next block".to_owned(),
        index if index + 1 == count && index > 0 => format!("Block {} from now and later", index + 1),
        index => format!("Block {} from now", index + 1),
    };
    let target = |index: usize| format!("/mempool-block/{index}");
    let links =
        [("Before", index.checked_sub(1).map(target)), ("After", (index + 1 < count).then(|| target(index + 1)))];
    let live = Some(Live::blocks(projected.tip));
    Frame { title: &title, network: Some(projected.network), live, ..Frame::default() }.around(&html! {
        div.heading {
            h1 { (title) }
            (parts::pager("Neighbouring blocks", &links))
        }
        (summary(projected.block))
        section aria-labelledby="transactions" {
            h2 #transactions { (projected.page.heading("transaction")) }
            (table(&projected.transactions))
            (projected.page.links("More transactions", |start| format!("/mempool-block/{index}?start={start}#transactions")))
        }
    })
}

fn summary(block: &ProjectedBlock) -> Markup {
    let [low, .., high] = block.rates;
    html! {
        section aria-labelledby="summary" {
            h2 #summary { "As miners would make it now" }
            dl.facts {
                (fact("Fees", &parts::amount(block.fees)))
                (fact("Median", &parts::rate(block.median())))
                (fact("Lowest and highest", &html! { (amounts::rate(low)) "\u{2013}" (parts::rate(high)) }))
                (fact("Virtual size", &html! {
                    (amounts::vbytes(block.vsize)) " " (parts::bar(block.vsize * 1000 / BLOCK_VBYTES))
                }))
            }
        }
    }
}

fn table(transactions: &[Line]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Transaction" }
                th.number.spare scope="col" { (parts::amounts_head("Fee")) }
                th.number.spare scope="col" { "Size" }
                th.number scope="col" { "Mined at" }
            } }
            tbody { @for line in transactions { tr {
                td.wide { (parts::txid(&line.txid)) }
                td.number.spare { (parts::number(line.fee)) }
                td.number.spare { (amounts::vbytes(line.vsize)) }
                td.number { (parts::rate(line.rate)) }
            } } }
        }
    }
}
