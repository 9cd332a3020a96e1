//! The next change of the difficulty, and the next halving of the subsidy.

use birdhouse_esplora::Estimate;
use birdhouse_web::amounts;
use bitcoin::Network;
use maud::{Markup, html};

use super::parts::{self, fact};

/// Seconds between two blocks, on average.
const BLOCK_S: u64 = 600;
/// Satoshis that the first blocks create.
const FIRST_SUBSIDY: u64 = 50 * 100_000_000;
/// Halvings after which a block creates nothing.
const HALVINGS_MAX: u32 = 64;

/// The subsidy of the next block, and the blocks until it halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Halving {
    /// In satoshis.
    pub(crate) subsidy: u64,
    /// Height of the first block with half of it.
    pub(crate) height: u32,
    pub(crate) remaining: u32,
}

impl Halving {
    /// Returns the state after the block at height `tip`
    /// ([Core's `chainparams.cpp`](https://github.com/bitcoin/bitcoin/blob/master/src/kernel/chainparams.cpp),
    /// `nSubsidyHalvingInterval`).
    pub(crate) fn after(tip: u32, network: Network) -> Self {
        let interval = if network == Network::Regtest { 150 } else { 210_000 };
        let next = tip.saturating_add(1);
        let halvings = next / interval;
        let subsidy = if halvings < HALVINGS_MAX { FIRST_SUBSIDY >> halvings } else { 0 };
        let height = (halvings + 1) * interval;
        Self { subsidy, height, remaining: height - next }
    }
}

/// Returns both sections. Regtest never changes its difficulty.
pub(crate) fn schedule(network: Network, estimate: &Estimate, halving: Halving) -> Markup {
    html! {
        div.columns {
            @if network != Network::Regtest { (difficulty(estimate)) }
            section aria-labelledby="halving" {
                h2 #halving { "Halving" }
                dl.facts {
                    (fact("Subsidy", &parts::amount(halving.subsidy)))
                    (fact("Halves at", &html! { "block " (amounts::count(halving.height.into())) }))
                    (fact("Until then", &html! {
                        (amounts::count(halving.remaining.into())) " blocks, about "
                        (amounts::duration(u64::from(halving.remaining) * BLOCK_S))
                    }))
                }
            }
        }
    }
}

fn difficulty(estimate: &Estimate) -> Markup {
    let blocks = u64::from(estimate.remaining_blocks);
    let seconds = blocks * estimate.time_avg / 1000;
    html! {
        section aria-labelledby="difficulty" {
            h2 #difficulty { "Difficulty" }
            dl.facts {
                (fact("Next change", &percent(estimate.difficulty_change)))
                (fact("Until then", &html! { (amounts::count(blocks)) " blocks, about " (amounts::duration(seconds)) }))
                (fact("Blocks take", &html! { (amounts::duration(estimate.time_avg / 1000)) " on average" }))
                (fact("Last change", &percent(estimate.previous_retarget)))
            }
        }
    }
}

fn percent(percent: f64) -> Markup {
    let sign = if percent < 0.0 { "\u{2212}" } else { "+" };
    html! { (sign) (format!("{:.2}", percent.abs())) "\u{a0}%" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vector of mempool's own test of its estimate (`difficulty-adjustment.test.ts`).
    #[test]
    fn the_difficulty_has_its_next_and_its_last_change() {
        let mut estimate = Estimate::default();
        (estimate.difficulty_change, estimate.previous_retarget) = (8.512_745, -7.333_505);
        (estimate.remaining_blocks, estimate.time_avg) = (565, 553_311);
        let page = |network| schedule(network, &estimate, Halving::after(830_027, network)).into_string();
        let shown = page(Network::Bitcoin);
        // 565 blocks of 553.311 seconds are 3 days and 14.8 hours.
        let facts = [
            ("Next change", "+8.51\u{a0}%"),
            ("Until then", "565 blocks, about 3\u{a0}d"),
            ("Blocks take", "9\u{a0}min on average"),
            ("Last change", "\u{2212}7.33\u{a0}%"),
        ];
        for (name, value) in facts {
            assert!(shown.contains(&format!("<dt>{name}</dt><dd>{value}")), "{name}: {shown}");
        }
        assert!(!page(Network::Regtest).contains("Difficulty"));
    }

    /// Core's `GetBlockSubsidy`: 50 coins up to block 209 999, then half, and nothing after 64 halvings.
    #[test]
    fn the_subsidy_halves_every_210_000_blocks() {
        let subsidy = |tip| Halving::after(tip, Network::Bitcoin).subsidy;
        let (whole, half, fourth) = (5_000_000_000, 2_500_000_000, 312_500_000);
        assert_eq!([0, 209_998, 209_999, 839_999].map(subsidy), [whole, whole, half, fourth]);
        assert_eq!(subsidy(64 * 210_000), 0);
        assert_eq!(Halving::after(209_998, Network::Bitcoin).remaining, 1);
    }
}
