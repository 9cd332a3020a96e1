//! Recommended fee rates, from the blocks that miners would make now. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::fees::projection::ProjectedBlock;

/// Virtual bytes up to which a projected block has room for everyone.
const ROOMY_VBYTES: u64 = 500_000;
/// Virtual bytes above which it is full.
const FULL_VBYTES: u64 = 950_000;
/// sat/vB in one BTC/kvB.
const SAT_VB: f64 = 100_000.0;

/// Fee rates in sat/vB, by urgency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// For the next block.
    pub fastest: f64,
    /// For half an hour.
    pub half_hour: f64,
    /// For an hour.
    pub hour: f64,
    /// For some time.
    pub economy: f64,
    /// The lowest that is relayed.
    pub minimum: f64,
}

/// Reads the lowest fee rate of a mempool from Core's `getmempoolinfo`; at least 1 sat/vB.
pub(super) fn minimum(info: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Info {
        mempoolminfee: f64,
    }
    let info: Info = serde_json::from_str(info).ok()?;
    // The product is rarely exact, and rounding it up would add a whole satoshi.
    Some(((info.mempoolminfee * SAT_VB * 1000.0).round() / 1000.0).max(1.0))
}

impl Rates {
    /// Returns the rates for these blocks, none below `minimum`.
    pub(crate) fn of(blocks: &[ProjectedBlock], minimum: f64) -> Self {
        let mut tiers = [minimum; 3];
        let mut before: Option<f64> = None;
        for (at, tier) in tiers.iter_mut().enumerate() {
            let Some(block) = blocks.get(at) else { break };
            let median = block.median();
            let smooth = before.map_or(median, |before| f64::midpoint(median, before));
            let rate = match block.vsize {
                ..=ROOMY_VBYTES => minimum,
                // The last block: the fuller it is, the more of the rate counts.
                vsize @ ..=FULL_VBYTES if at + 1 == blocks.len() => {
                    smooth * vbytes(vsize - ROOMY_VBYTES) / vbytes(ROOMY_VBYTES)
                }
                _ => smooth,
            };
            *tier = rate.max(minimum);
            before = Some(*tier);
        }
        let [first, second, hour] = tiers;
        let half_hour = second.max(hour);
        let economy = hour.min(2.0 * minimum);
        Self { fastest: first.max(half_hour), half_hour, hour, economy, minimum }
    }

    /// Applies a rounding to each.
    pub(crate) fn map(self, round: impl Fn(f64) -> f64) -> Self {
        Self {
            fastest: round(self.fastest),
            half_hour: round(self.half_hour),
            hour: round(self.hour),
            economy: round(self.economy),
            minimum: round(self.minimum),
        }
    }

    /// Returns the API's form; a whole number has no decimals.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "fastestFee": number(self.fastest), "halfHourFee": number(self.half_hour), "hourFee": number(self.hour),
            "economyFee": number(self.economy), "minimumFee": number(self.minimum),
        })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive rate far below 2^52")]
fn number(rate: f64) -> Value {
    if rate.fract() == 0.0 { json!(rate as u64) } else { json!(rate) }
}

#[expect(clippy::cast_precision_loss, reason = "a block has fewer than 2^52 bytes")]
fn vbytes(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(vsize: u64, median: f64) -> ProjectedBlock {
        ProjectedBlock { vsize, rates: [median; 7], ..ProjectedBlock::default() }
    }

    #[test]
    fn an_empty_mempool_needs_the_minimum_alone() {
        let all = Rates { fastest: 1.0, half_hour: 1.0, hour: 1.0, economy: 1.0, minimum: 1.0 };
        assert_eq!(Rates::of(&[], 1.0), all);
        assert_eq!(Rates::of(&[block(400_000, 80.0)], 1.0), all);
    }

    #[test]
    fn full_blocks_give_their_medians_averaged_with_the_one_before() {
        let blocks = [block(999_000, 40.0), block(999_000, 20.0), block(999_000, 10.0), block(999_000, 5.0)];
        let rates = Rates::of(&blocks, 1.5);
        assert_eq!(rates, Rates { fastest: 40.0, half_hour: 30.0, hour: 20.0, economy: 3.0, minimum: 1.5 });
        let rounded = rates.map(f64::ceil).to_json().to_string();
        assert_eq!(rounded, r#"{"economyFee":3,"fastestFee":40,"halfHourFee":30,"hourFee":20,"minimumFee":2}"#);
    }

    #[test]
    fn a_last_block_that_is_half_full_counts_half() {
        let rates = Rates::of(&[block(750_000, 40.0)], 1.0);
        assert!((rates.fastest - 20.0).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn the_minimum_is_cores_and_at_least_one() {
        assert_eq!(minimum(r#"{"mempoolminfee":0.00001}"#), Some(1.0));
        assert_eq!(minimum(r#"{"mempoolminfee":0.00003}"#), Some(3.0));
        assert_eq!(minimum("{}"), None);
    }
}
