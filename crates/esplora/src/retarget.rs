//! The estimate of the next change of the difficulty, as mempool's server makes it. Pure: time is an argument.

use serde::Serialize;

/// Seconds that a block takes by the rules.
const BLOCK_S: f64 = 600.0;
/// Part of an epoch, in blocks, after which its pace is an estimate.
const BLOCKS_MIN: u32 = 146;
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
    /// The last change, in percent.
    pub(crate) previous_change: f64,
}

/// The estimate. Times are in milliseconds, but for `previous_time` and `time_offset`, in seconds.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Estimate {
    progress_percent: f64,
    difficulty_change: f64,
    estimated_retarget_date: u64,
    remaining_blocks: u32,
    remaining_time: u64,
    previous_retarget: f64,
    previous_time: u32,
    next_retarget_height: u32,
    time_avg: u64,
    adjusted_time_avg: u64,
    time_offset: i64,
    expected_blocks: f64,
}

impl Retarget {
    /// Blocks of an epoch.
    pub(crate) const BLOCKS: u32 = 2016;

    /// Returns the estimate at a time in seconds since 1970.
    pub(crate) fn at(self, now: u64) -> Estimate {
        let done = self.tip % Self::BLOCKS;
        let remaining = Self::BLOCKS - done;
        let end = if done == Self::BLOCKS - 1 { u64::from(self.tip_time) } else { now };
        let passed = seconds(end.saturating_sub(self.first_time.into()));
        let average = if done == 0 { BLOCK_S } else { passed / f64::from(done) };
        let change = if done >= BLOCKS_MIN && average > 0.0 { (BLOCK_S / average - 1.0) * 100.0 } else { 0.0 };
        let average_ms = millis(average);
        let remaining_time = average_ms * u64::from(remaining);
        Estimate {
            progress_percent: f64::from(done) / f64::from(Self::BLOCKS) * 100.0,
            difficulty_change: change.clamp(CHANGE_MIN, CHANGE_MAX),
            estimated_retarget_date: now * 1000 + remaining_time,
            remaining_blocks: remaining,
            remaining_time,
            previous_retarget: self.previous_change,
            previous_time: self.first_time,
            next_retarget_height: self.tip + remaining,
            time_avg: average_ms,
            adjusted_time_avg: average_ms,
            time_offset: 0,
            expected_blocks: passed / BLOCK_S,
        }
    }
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
    use super::*;

    #[test]
    fn a_faster_epoch_raises_the_difficulty_and_is_over_sooner() {
        let first_time = 1_000_000;
        let state = Retarget { tip: 2016 + 1008, first_time, tip_time: 0, previous_change: -1.5 };
        let now = u64::from(first_time) + 1008 * 300;
        let estimate = state.at(now);
        assert!((estimate.difficulty_change - 100.0).abs() < 1e-9);
        assert_eq!((estimate.remaining_blocks, estimate.next_retarget_height), (1008, 4032));
        assert_eq!((estimate.time_avg, estimate.remaining_time), (300_000, 1008 * 300_000));
        assert_eq!(estimate.estimated_retarget_date, (now + 1008 * 300) * 1000);
        assert!((estimate.progress_percent - 50.0).abs() < 1e-9 && (estimate.expected_blocks - 504.0).abs() < 1e-9);
        assert_eq!((estimate.previous_retarget, estimate.previous_time), (-1.5, first_time));
    }

    #[test]
    fn early_in_an_epoch_no_change_is_expected_and_a_change_has_bounds() {
        let at = |tip: u32, passed: u64| {
            Retarget { tip, first_time: 1000, tip_time: 0, previous_change: 0.0 }.at(1000 + passed).difficulty_change
        };
        assert!(at(145, 1).abs() < 1e-9 && at(0, 0).abs() < 1e-9);
        assert!((at(1000, 1) - CHANGE_MAX).abs() < 1e-9);
        assert!((at(1000, 1_000_000_000) - CHANGE_MIN).abs() < 1e-9);
    }
}
