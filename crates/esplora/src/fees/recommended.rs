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
/// Thousandths in one.
const THOUSANDTHS: f64 = 1000.0;
/// A rate that is above a step by this part of the step counts as the step: products of decimals are rarely exact.
const STEP_ERROR: f64 = 1e-6;
/// The lowest precise rates of the two most urgent tiers, and what is added to the first of them; half of it is added
/// to the second.
const FASTEST_MIN: f64 = 1.0;
const HALF_HOUR_MIN: f64 = 0.5;
const FASTEST_SUPPLEMENT: f64 = 0.5;

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

/// The steps in which rates are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateStep {
    /// 1 sat/vB.
    Whole,
    /// 0.001 sat/vB, as fine as the node's own rates. The two most urgent rates have a supplement.
    Thousandth,
}

impl RateStep {
    /// Returns the step in thousandths of a sat/vB.
    fn thousandths(self) -> f64 {
        match self {
            Self::Whole => THOUSANDTHS,
            Self::Thousandth => 1.0,
        }
    }

    fn nearest(self, rate: f64) -> f64 {
        self.in_steps(rate, f64::round)
    }

    fn up(self, rate: f64) -> f64 {
        self.in_steps(rate, |steps| (steps - STEP_ERROR).ceil())
    }

    fn in_steps(self, rate: f64, round: impl Fn(f64) -> f64) -> f64 {
        round(rate * THOUSANDTHS / self.thousandths()) * self.thousandths() / THOUSANDTHS
    }
}

/// Reads the lowest fee rate of a mempool from Core's `getmempoolinfo`.
pub(super) fn minimum(info: &str) -> Option<f64> {
    #[derive(Deserialize)]
    struct Info {
        mempoolminfee: f64,
    }
    let info: Info = serde_json::from_str(info).ok()?;
    // The product is rarely exact.
    Some((info.mempoolminfee * SAT_VB * THOUSANDTHS).round() / THOUSANDTHS)
}

impl Rates {
    /// Returns the rates for these blocks, none below `minimum`, as mempool's server does (`fee-api.ts`).
    ///
    /// <https://github.com/mempool/mempool/blob/master/backend/src/api/fee-api.ts>
    pub(crate) fn of(blocks: &[ProjectedBlock], minimum: f64, step: RateStep) -> Self {
        // The lowest rate that a node can have is a thousandth.
        let minimum = step.up(minimum.max(1.0 / THOUSANDTHS));
        let mut tiers = [minimum; 3];
        let mut before: Option<f64> = None;
        for (at, tier) in tiers.iter_mut().enumerate() {
            let Some((block, more)) = blocks.get(at..).and_then(<[_]>::split_first) else { break };
            *tier = tier_of(block, more, before, step).max(minimum);
            before = Some(*tier);
        }
        let [first, second, third] = tiers;
        let economy = third.min(2.0 * minimum);
        let half_hour = second.max(third);
        let rates = Self { fastest: first.max(half_hour), half_hour, hour: third, economy, minimum };
        let rates = if step == RateStep::Thousandth { rates.urged() } else { rates };
        rates.map(|rate| step.nearest(rate))
    }

    /// Raises the two most urgent rates, since some miners take nothing below 1 sat/vB.
    fn urged(self) -> Self {
        let fastest = (self.fastest + FASTEST_SUPPLEMENT).max(FASTEST_MIN);
        let half_hour = (self.half_hour + FASTEST_SUPPLEMENT / 2.0).max(HALF_HOUR_MIN);
        Self { fastest, half_hour, ..self }
    }

    /// Applies a rounding to each.
    fn map(self, round: impl Fn(f64) -> f64) -> Self {
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

/// The rate for one of the next blocks, after one with the rate `before`. More blocks come after it.
fn tier_of(block: &ProjectedBlock, more: &[ProjectedBlock], before: Option<f64>, step: RateStep) -> f64 {
    let median = block.median();
    let smooth = before.map_or(median, |before| f64::midpoint(median, before));
    match block.vsize {
        ..=ROOMY_VBYTES => 0.0,
        // The fuller the last block is, the more of the rate counts.
        vsize @ ..=FULL_VBYTES if more.is_empty() => {
            step.nearest(smooth * vbytes(vsize - ROOMY_VBYTES) / vbytes(ROOMY_VBYTES))
        }
        _ => step.up(smooth),
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

    fn rates(fastest: f64, half_hour: f64, hour: f64, economy: f64, minimum: f64) -> Rates {
        Rates { fastest, half_hour, hour, economy, minimum }
    }

    /// Expected values here are those of mempool's `fee-api.ts`, run with these blocks.
    #[test]
    fn an_empty_mempool_needs_the_minimum_alone() {
        assert_eq!(Rates::of(&[], 1.0, RateStep::Whole), rates(1.0, 1.0, 1.0, 1.0, 1.0));
        assert_eq!(Rates::of(&[block(400_000, 80.0)], 1.0, RateStep::Whole), rates(1.0, 1.0, 1.0, 1.0, 1.0));
        assert_eq!(Rates::of(&[], 0.1, RateStep::Whole), rates(1.0, 1.0, 1.0, 1.0, 1.0));
        assert_eq!(Rates::of(&[], 0.1, RateStep::Thousandth), rates(1.0, 0.5, 0.1, 0.1, 0.1));
    }

    #[test]
    fn full_blocks_give_their_medians_averaged_with_the_one_before() {
        let blocks = [block(999_000, 40.0), block(999_000, 20.0), block(999_000, 10.0), block(999_000, 5.0)];
        assert_eq!(Rates::of(&blocks, 1.5, RateStep::Whole), rates(40.0, 30.0, 20.0, 4.0, 2.0));
        assert_eq!(Rates::of(&blocks, 1.5, RateStep::Thousandth), rates(40.5, 30.25, 20.0, 3.0, 1.5));
    }

    #[test]
    fn rates_below_one_are_given_in_thousandths() {
        let blocks = [block(999_000, 0.4571), block(999_000, 0.3), block(999_000, 0.2)];
        assert_eq!(Rates::of(&blocks, 0.125, RateStep::Thousandth), rates(1.0, 0.629, 0.29, 0.25, 0.125));
        assert_eq!(Rates::of(&blocks, 0.125, RateStep::Whole), rates(1.0, 1.0, 1.0, 1.0, 1.0));
    }

    #[test]
    fn a_last_block_that_is_half_full_counts_half() {
        let rates = Rates::of(&[block(750_000, 40.0)], 1.0, RateStep::Whole);
        assert!((rates.fastest - 20.0).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn the_minimum_is_the_nodes() {
        assert_eq!(minimum(r#"{"mempoolminfee":0.00001}"#), Some(1.0));
        assert_eq!(minimum(r#"{"mempoolminfee":0.00000100}"#), Some(0.1));
        assert_eq!(minimum(r#"{"mempoolminfee":0.00000123}"#), Some(0.123));
        assert_eq!(minimum(r#"{"mempoolminfee":0.00003}"#), Some(3.0));
        assert_eq!(minimum("{}"), None);
    }

    #[test]
    fn a_whole_number_has_no_decimals() {
        let json = rates(40.0, 0.5, 0.1, 3.0, 2.0).to_json().to_string();
        assert_eq!(json, r#"{"economyFee":3,"fastestFee":40,"halfHourFee":0.5,"hourFee":0.1,"minimumFee":2}"#);
    }
}
