//! Blocks that a reorg took out of the chain.

use birdhouse_chain::source::BlockId;
use birdhouse_esplora::StaleBlock;
use birdhouse_web::amounts;
use bitcoin::{BlockHash, Network};
use maud::{Markup, html};

use super::layout::{Frame, Live};
use super::parts::{self, badge, fact};

/// Explains that a block with a transaction left the chain, and what that means where the transaction is now: in
/// another block, or in none.
pub(crate) fn notice(stale: &StaleBlock, now: Option<BlockId>) -> Markup {
    html! {
        div.card.open {
            p {
                "A reorg took block " (amounts::count(stale.block.height.0.into())) ", which had this transaction, out of \
                 the chain (" (parts::seen(stale.since)) "): most miners went on above another one."
            }
            p {
                @if now.is_some() { "Another block has the transaction now, and its confirmations count from there." }
                @else {
                    "Its confirmations are gone with the block. It is valid unless another transaction spends the same \
                     coins, and is usually in one of the next blocks."
                }
            }
            p { a.long-link href={ "/block/" (stale.block.hash) } { (parts::long_name(&stale.block.hash.to_string())) } }
        }
    }
}

/// Returns the page of a block that left the chain, with the one that has its height now, under this tip.
pub(crate) fn page(network: Network, stale: &StaleBlock, now: Option<BlockHash>, tip: BlockId) -> String {
    let height = stale.block.height.0;
    let title = format!("Stale block {height}");
    Frame { title: &title, network: Some(network), live: Some(Live::blocks(tip)), ..Frame::default() }.around(&html! {
        div.heading {
            h1 { "Block " (amounts::count(height.into())) }
            p.state { (badge("bad", "stale")) }
        }
        p.whole { (stale.block.hash) }
        section aria-labelledby="story" {
            h2 #story { "What became of it" }
            p {
                "A reorg took this block out of the chain: miners had found two at about the same time, and most went on \
                 above the other one. Its transactions wait in the mempool again, unless the chain has them in other \
                 blocks or spends their coins otherwise. Its new coins do not exist any more."
            }
            dl.facts {
                (fact("Out of the chain", &parts::seen(stale.since)))
                @if let Some(now) = now {
                    (fact("At its height", &html! {
                        a.long-link href={ "/block/" (now) } { (parts::long_name(&now.to_string())) }
                    }))
                }
            }
        }
    })
}
