//! The estimate of the next change of the difficulty, as mempool's server makes it. Pure: time is an argument.

use bitcoin::block::Header;
use serde::Serialize;

/// Seconds that a block takes by the rules.
const BLOCK_S: f64 = 600.0;
/// Blocks of a quarter of an epoch: until the epoch has as many, the pace is that of the last ones of both epochs.
const QUARTER: u32 = 504;
/// Seconds after the last block from which testnet takes a block of difficulty 1.
const TESTNET_BLOCK_S: f64 = 1200.0;
/// The bounds of a change, in percent.
const CHANGE_MIN: f64 = -75.0;
const CHANGE_MAX: f64 = 300.0;

/// The chain's state in its epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retarget {
    pub(crate) tip: u32,
    /// Times of the first block of the epoch and of the tip.
    pub(crate) first_time: u32,
    pub(crate) tip_time: u32,
    /// Time of the block [`Self::WINDOW`] blocks before the tip, if there is one.
    pub(crate) window_time: Option<u32>,
    /// The last change, in percent.
    pub(crate) previous_change: f64,
    pub(crate) rule: Rule,
}

/// The network's rule for blocks that take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The difficulty stays.
    Usual,
    /// A block of difficulty 1 is valid after 20 minutes.
    Testnet,
}

/// The estimate of the next change of the difficulty. Times are in milliseconds, but for `previous_time` and
/// `time_offset`, in seconds.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// Part of the epoch that is done.
    pub progress_percent: f64,
    /// The change in percent.
    pub difficulty_change: f64,
    /// Time of the change.
    pub estimated_retarget_date: u64,
    /// Blocks until then.
    pub remaining_blocks: u32,
    pub(crate) remaining_time: u64,
    /// The last change in percent.
    pub previous_retarget: f64,
    pub(crate) previous_time: u32,
    pub(crate) next_retarget_height: u32,
    /// Time that a block takes, on average.
    pub time_avg: u64,
    pub(crate) adjusted_time_avg: u64,
    pub(crate) time_offset: i64,
    pub(crate) expected_blocks: f64,
}

impl Retarget {
    /// Blocks of an epoch.
    pub(crate) const BLOCKS: u32 = 2016;

    /// Blocks from the first to the last one of the window over which the pace is measured early in an epoch.
    pub(crate) const WINDOW: u32 = QUARTER - 1;

    /// Reads the state of a chain from its headers by height; `None` if one of them is missing.
    pub(crate) fn of_chain(tip: u32, rule: Rule, header: impl Fn(u32) -> Option<Header>) -> Option<Self> {
        let first_height = tip - tip % Self::BLOCKS;
        let first = header(first_height)?;
        // Of testnet's blocks only the first one of an epoch surely has the difficulty of the epoch.
        let previous = first_height.checked_sub(Self::BLOCKS).and_then(&header);
        Some(Self {
            tip,
            first_time: first.time,
            tip_time: header(tip)?.time,
            window_time: tip.checked_sub(Self::WINDOW).and_then(&header).map(|block| block.time),
            previous_change: previous.map_or(0.0, |previous| change_between(&previous, &first)),
            rule,
        })
    }

    /// Returns the estimate at a time in seconds since 1970.
    pub(crate) fn at(self, now: u64) -> Estimate {
        let done = self.tip % Self::BLOCKS;
        let remaining = Self::BLOCKS - done;
        let passed = seconds(now.saturating_sub(self.first_time.into()));
        let mut average = if done == 0 { BLOCK_S } else { passed / f64::from(done) };
        let window_time = self.window_time.filter(|_| done < Self::WINDOW);
        let (adjusted, change) = if let Some(window_time) = window_time {
            // The blocks of the epoch before would have taken so long at today's difficulty.
            let before = difference(self.first_time, window_time) * (1.0 + self.previous_change / 100.0);
            let span = passed + before;
            (span / f64::from(Self::WINDOW), change(span / f64::from(QUARTER)))
        } else {
            let is_settled = done == Self::BLOCKS - 1;
            let span = if is_settled { difference(self.tip_time, self.first_time) } else { passed };
            (average, change(span / f64::from(done + 1)))
        };
        let mut time_offset = 0;
        if self.rule == Rule::Testnet {
            average = average.min(TESTNET_BLOCK_S);
            let since_tip = seconds(now.saturating_sub(self.tip_time.into()));
            if since_tip + average > TESTNET_BLOCK_S {
                time_offset = -millis(since_tip.min(TESTNET_BLOCK_S)).cast_signed();
            }
        }
        let adjusted_ms = millis(adjusted);
        let remaining_time = adjusted_ms * u64::from(remaining);
        Estimate {
            progress_percent: f64::from(done) / f64::from(Self::BLOCKS) * 100.0,
            difficulty_change: change_within_bounds(change),
            estimated_retarget_date: now * 1000 + remaining_time,
            remaining_blocks: remaining,
            remaining_time,
            previous_retarget: self.previous_change,
            previous_time: self.first_time,
            next_retarget_height: self.tip + remaining,
            time_avg: millis(average),
            adjusted_time_avg: adjusted_ms,
            time_offset,
            expected_blocks: passed / BLOCK_S,
        }
    }
}

/// The change in percent from the difficulty of a block to that of one an epoch later, within the rules' bounds.
fn change_between(before: &Header, now: &Header) -> f64 {
    change_within_bounds((now.difficulty_float() / before.difficulty_float() - 1.0) * 100.0)
}

/// The change in percent by which blocks that take `average` seconds will take ten minutes.
fn change(average: f64) -> f64 {
    (BLOCK_S / average - 1.0) * 100.0
}

/// A change within the rules'. A span without time has none.
fn change_within_bounds(change: f64) -> f64 {
    if change.is_nan() { 0.0 } else { change.clamp(CHANGE_MIN, CHANGE_MAX) }
}

/// Seconds between two times, negative if the first one is earlier.
fn difference(time: u32, before: u32) -> f64 {
    f64::from(time) - f64::from(before)
}

#[expect(clippy::cast_precision_loss, reason = "times are far below 2^52 seconds")]
fn seconds(time: u64) -> f64 {
    time as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time far below 2^52")]
fn millis(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use birdhouse_testkit::program::find_program;
    use birdhouse_testkit::rng::Rng;
    use bitcoin::block::Version;
    use bitcoin::hashes::Hash as _;
    use bitcoin::{BlockHash, CompactTarget, Network, TxMerkleNode, consensus};
    use serde_json::{Value, json};

    use super::*;

    /// Where `scripts/peers mainnet-blocks` puts the first 14 132 blocks of mainnet.
    const CACHED: &str = "birdhouse/mainnet-blocks-0.24.2/blk_0_to_14131.dat";

    /// The vectors of mempool's server (`backend/src/__tests__/api/difficulty-adjustment.test.ts`).
    #[test]
    fn estimates_are_those_of_mempools_server() {
        let vectors = [
            (
                // Late in an epoch.
                Retarget {
                    tip: 830_027,
                    first_time: 1_706_888_526,
                    tip_time: 0,
                    window_time: Some(1_707_403_385),
                    previous_change: 7.333_505_241_141_637,
                    rule: Rule::Usual,
                },
                1_707_691_381,
                json!({
                    "progressPercent": 71.974_206_349_206_36, "difficultyChange": 8.512_745_140_778_843,
                    "estimatedRetargetDate": 1_708_004_001_715_u64, "remainingBlocks": 565,
                    "remainingTime": 312_620_715, "previousRetarget": 7.333_505_241_141_637,
                    "previousTime": 1_706_888_526, "nextRetargetHeight": 830_592, "timeAvg": 553_311,
                    "adjustedTimeAvg": 553_311, "timeOffset": 0, "expectedBlocks": 1_338.091_666_666_666_7,
                }),
            ),
            (
                // Early in an epoch: the window reaches into the one before.
                Retarget {
                    tip: 750_134,
                    first_time: 1_660_820_820,
                    tip_time: 0,
                    window_time: Some(1_660_619_814),
                    previous_change: 0.628_004_770_745_972_6,
                    rule: Rule::Usual,
                },
                1_660_917_833,
                json!({
                    "progressPercent": 9.027_777_777_777_777, "difficultyChange": 1.042_053_895_900_463_3,
                    "estimatedRetargetDate": 1_662_009_048_328_u64, "remainingBlocks": 1834,
                    "remainingTime": 1_091_215_328, "previousRetarget": 0.628_004_770_745_972_6,
                    "previousTime": 1_660_820_820, "nextRetargetHeight": 751_968, "timeAvg": 533_038,
                    "adjustedTimeAvg": 594_992, "timeOffset": 0, "expectedBlocks": 161.688_333_333_333_33,
                }),
            ),
            (
                // The same on testnet.
                Retarget {
                    tip: 750_134,
                    first_time: 1_660_820_820,
                    tip_time: 1_660_917_166,
                    window_time: Some(1_660_619_814),
                    previous_change: 0.628_004_770_745_972_6,
                    rule: Rule::Testnet,
                },
                1_660_917_833,
                json!({
                    "progressPercent": 9.027_777_777_777_777, "difficultyChange": 1.042_053_895_900_463_3,
                    "estimatedRetargetDate": 1_662_009_048_328_u64, "remainingBlocks": 1834,
                    "remainingTime": 1_091_215_328, "previousRetarget": 0.628_004_770_745_972_6,
                    "previousTime": 1_660_820_820, "nextRetargetHeight": 751_968, "timeAvg": 533_038,
                    "adjustedTimeAvg": 594_992, "timeOffset": -667_000, "expectedBlocks": 161.688_333_333_333_33,
                }),
            ),
            (
                // The last block of an epoch settles the change.
                Retarget {
                    tip: 788_255,
                    first_time: 1_681_984_653,
                    tip_time: 1_683_212_066,
                    window_time: Some(1_660_619_814),
                    previous_change: 1.722_029_887_953_182_1,
                    rule: Rule::Usual,
                },
                1_683_212_049,
                json!({
                    "progressPercent": 99.950_396_825_396_82, "difficultyChange": -1.451_263_755_557_419_3,
                    "estimatedRetargetDate": 1_683_212_658_129_u64, "remainingBlocks": 1, "remainingTime": 609_129,
                    "previousRetarget": 1.722_029_887_953_182_1, "previousTime": 1_681_984_653,
                    "nextRetargetHeight": 788_256, "timeAvg": 609_129, "adjustedTimeAvg": 609_129, "timeOffset": 0,
                    "expectedBlocks": 2_045.66,
                }),
            ),
        ];
        for (state, now, expected) in vectors {
            let found = serde_json::to_value(state.at(now)).expect("a shape is JSON");
            for (name, value) in expected.as_object().expect("an object") {
                let (found, value) = (found[name].as_f64(), value.as_f64());
                let difference = found.zip(value).map(|(found, value)| (found - value).abs());
                assert!(difference.is_some_and(|difference| difference < 1e-9), "{name}: {found:?} {value:?}");
            }
        }
    }

    #[test]
    fn a_chain_without_time_between_its_blocks_has_an_estimate_within_bounds() {
        let at = |tip: u32, window_time: Option<u32>, now| {
            let state = Retarget {
                tip,
                first_time: 1000,
                tip_time: 1000,
                window_time,
                previous_change: 0.0,
                rule: Rule::Usual,
            };
            state.at(now).difficulty_change
        };
        for (tip, window_time, now) in
            [(0, None, 1000), (2015, None, 0), (3000, Some(1000), 1000), (2016, Some(1000), 1)]
        {
            let change = at(tip, window_time, now);
            assert!((CHANGE_MIN..=CHANGE_MAX).contains(&change), "{tip}: {change}");
        }
    }
    /// Every tip of a chain whose epochs have other difficulties, with times that jump back now and then.
    #[test]
    fn at_every_tip_headers_give_the_estimate_of_mempools_server() {
        let mut rng = Rng::new(46);
        let mut time = 1_231_006_505;
        let mut bits = 0x1a05_db8b;
        let headers: Vec<Header> = (0..5 * Retarget::BLOCKS)
            .map(|height| {
                if height > 0 && height % Retarget::BLOCKS == 0 {
                    // A quarter to four times the target, so the exponent changes, too.
                    bits = scaled(bits, 25 + u32::try_from(rng.below(376)).expect("a small number"));
                }
                time = time + u32::try_from(rng.below(1400)).expect("a small number") - 100;
                // On testnet any block but the first one of an epoch may have the lowest difficulty.
                let is_easy = height % Retarget::BLOCKS != 0 && rng.per_mille(100);
                header_of(time, if is_easy { 0x1d00_ffff } else { bits })
            })
            .collect();
        for rule in [Rule::Usual, Rule::Testnet] {
            assert_eq!(compared(&headers, rule), headers.len());
        }
    }

    #[test]
    fn on_mainnets_first_blocks_the_estimate_is_that_of_mempools_server() {
        let found = find_program("blocks of mainnet", "MAINNET_BLOCKS", None, CACHED, "scripts/peers mainnet-blocks");
        let Ok(file) = found else {
            eprintln!("LEFT OUT: the blocks of mainnet are not there; run `scripts/peers mainnet-blocks`");
            return;
        };
        let bytes = fs::read(file).expect("the file can be read");
        let (mut rest, mut headers) = (&bytes[..], Vec::new());
        // Blocks in the order of their heights: `magic | length | block`, then zeros.
        while let Some((head, body)) = rest.split_first_chunk::<8>()
            && head[..4] == Network::Bitcoin.magic().to_bytes()
        {
            let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            headers.push(consensus::deserialize(&body[..80]).expect("a header"));
            rest = &body[len..];
        }
        assert_eq!(compared(&headers, Rule::Usual), 14_132);
    }

    fn header_of(time: u32, bits: u32) -> Header {
        Header {
            version: Version::ONE,
            prev_blockhash: BlockHash::all_zeros(),
            merkle_root: TxMerkleNode::all_zeros(),
            time,
            bits: CompactTarget::from_consensus(bits),
            nonce: 0,
        }
    }

    /// The compact form of a target times some hundredths.
    fn scaled(bits: u32, hundredths: u32) -> u32 {
        let mut exponent = (bits >> 24) - 1;
        let mut mantissa = u64::from(bits & 0x7f_ffff) * 256 * u64::from(hundredths) / 100;
        while mantissa > 0x7f_ffff {
            (exponent, mantissa) = (exponent + 1, mantissa >> 8);
        }
        exponent << 24 | u32::try_from(mantissa).expect("three bytes")
    }

    /// Compares the estimate at each tip with the model's; returns the number of tips.
    fn compared(headers: &[Header], rule: Rule) -> usize {
        for tip in 0..headers.len() {
            let height = u32::try_from(tip).expect("a height");
            let header = |height: u32| headers.get(height as usize).copied();
            let now = u64::from(headers[tip].time) + u64::from(height % 1500);
            let now = now.max(headers[tip - tip % 2016].time.into());
            let found = Retarget::of_chain(height, rule, header).expect("a chain").at(now);
            let found = serde_json::to_value(found).expect("a shape is JSON");
            let expected = model(headers, tip, now, rule);
            for (name, value) in expected.as_object().expect("an object") {
                let (found, value) = (found[name].as_f64().expect("a number"), value.as_f64().expect("a number"));
                // Rounding may take a millisecond of each remaining block.
                let tolerance = match name.as_str() {
                    "adjustedTimeAvg" | "timeAvg" => 1.0,
                    "remainingTime" | "estimatedRetargetDate" => 2016.0,
                    _ => 1e-9,
                };
                assert!((found - value).abs() <= tolerance, "{name} at {tip}: {found} for {value}");
            }
        }
        headers.len()
    }

    /// The estimate by the rules of mempool's server: `calcDifficultyAdjustment` and `calcBitsDifference` of its
    /// `difficulty-adjustment.ts`, with the values that its `blocks.ts` reads from the chain.
    #[expect(clippy::cast_precision_loss, reason = "heights and times are far below 2^52")]
    fn model(headers: &[Header], tip: usize, now: u64, rule: Rule) -> Value {
        let (time, in_epoch) = (|height: usize| f64::from(headers[height].time), tip % 2016);
        let (start, now) = (tip - in_epoch, now as f64);
        let target = |height: usize| {
            let bits = headers[height].bits.to_consensus();
            f64::from(bits & 0x7f_ffff) * 256_f64.powi(i32::from(bits.to_be_bytes()[0]) - 3)
        };
        let bounded = |ratio: f64| (ratio * 100.0 - 100.0).clamp(-75.0, 300.0);
        let previous = if start < 2016 { 0.0 } else { bounded(target(start - 2016) / target(start)) };
        let since_start = (now - time(start)).max(0.0);
        let mut average = if in_epoch == 0 { 600.0 } else { since_start / in_epoch as f64 };
        let mut adjusted = average;
        let change = if tip >= 503 && in_epoch < 503 {
            let in_window = since_start + (time(start) - time(tip - 503)) * (1.0 + previous / 100.0);
            adjusted = in_window / 503.0;
            600.0 * 504.0 / in_window
        } else {
            let end = if in_epoch == 2015 { time(tip) } else { now };
            600.0 * (in_epoch + 1) as f64 / (end - time(start))
        };
        let mut offset = 0.0;
        if rule == Rule::Testnet {
            average = average.min(1200.0);
            let waited = now - time(tip);
            if waited + average > 1200.0 {
                offset = -waited.min(1200.0) * 1000.0;
            }
        }
        let (remaining, adjusted_ms) = ((2016 - in_epoch) as f64, (adjusted * 1000.0).floor());
        json!({
            "progressPercent": in_epoch as f64 / 20.16, "difficultyChange": bounded(change),
            "estimatedRetargetDate": now * 1000.0 + remaining * adjusted_ms, "remainingBlocks": remaining,
            "remainingTime": remaining * adjusted_ms, "previousRetarget": previous, "previousTime": time(start),
            "nextRetargetHeight": tip as f64 + remaining, "timeAvg": (average * 1000.0).floor(),
            "adjustedTimeAvg": adjusted_ms, "timeOffset": offset, "expectedBlocks": since_start / 600.0,
        })
    }
}
