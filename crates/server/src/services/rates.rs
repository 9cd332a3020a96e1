//! Rates of the last minute, from counts that are sampled every few seconds. Pure: time is an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use birdhouse_chain::Phase;
use parking_lot::Mutex;

/// Interval of the samples.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Samples of one minute, and the one before it.
const SAMPLES: usize = 13;

/// Counts that only grow, but for those of the build, which begin again with each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) phase: Phase,
    /// Done in this phase of the build.
    pub(crate) built: u64,
    /// Events of the relay.
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) sent: u64,
}

/// The number of each count in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PerSecond {
    pub(crate) built: f64,
    pub(crate) accepted: f64,
    pub(crate) refused: f64,
    pub(crate) sent: f64,
}

/// The samples of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<VecDeque<(Instant, Counts)>>);

impl Rates {
    /// Adds a sample; the oldest leaves.
    pub(crate) fn add(&self, now: Instant, counts: Counts) {
        let mut samples = self.0.lock();
        samples.push_back((now, counts));
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
    }

    /// Returns the rates from the oldest sample to these counts.
    pub(crate) fn per_second(&self, now: Instant, counts: &Counts) -> PerSecond {
        let samples = self.0.lock();
        let Some((since, first)) = samples.front() else { return PerSecond::default() };
        let built = samples.iter().find(|(_, sample)| sample.phase == counts.phase);
        PerSecond {
            built: built.map_or(0.0, |(since, first)| rate(first.built, counts.built, *since, now)),
            accepted: rate(first.accepted, counts.accepted, *since, now),
            refused: rate(first.refused, counts.refused, *since, now),
            sent: rate(first.sent, counts.sent, *since, now),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a difference of a minute is far below 2^52")]
fn rate(first: u64, last: u64, since: Instant, now: Instant) -> f64 {
    let seconds = now.saturating_duration_since(since).as_secs_f64();
    if seconds > 0.0 { last.saturating_sub(first) as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Counts = Counts { phase: Phase::Reading, built: 0, accepted: 0, refused: 0, sent: 0 };

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.per_second(start, &NONE), PerSecond::default());
        for number in 0..100 {
            rates.add(start + SAMPLE_INTERVAL * number, Counts { accepted: u64::from(number) * 50, ..NONE });
        }
        let now = start + SAMPLE_INTERVAL * 99;
        let found = rates.per_second(now, &Counts { accepted: 99 * 50, refused: 120, ..NONE });
        assert!((found.accepted - 10.0).abs() < 1e-9 && (found.refused - 2.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_new_phase_of_the_build_has_a_rate_of_its_own() {
        let (rates, start) = (Rates::default(), Instant::now());
        rates.add(start, Counts { built: 1_000_000, ..NONE });
        let sorting = Counts { phase: Phase::Sorting, ..NONE };
        let later = start + SAMPLE_INTERVAL;
        assert!(rates.per_second(later, &sorting).built.abs() < 1e-9);
        rates.add(later, sorting);
        let found = rates.per_second(later + SAMPLE_INTERVAL, &Counts { built: 20, ..sorting });
        assert!((found.built - 4.0).abs() < 1e-9, "{found:?}");
    }
}
