//! Durations of the same work, and their cells in a table.

use std::fmt;
use std::time::Duration;

use crate::report::record::{Cell, Figure, Spread};

/// Durations of the same work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Durations(Vec<Duration>);

impl Durations {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn add_all(&mut self, durations: &[Duration]) {
        self.0.extend_from_slice(durations);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the duration that this percentage of all does not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
    }

    pub(crate) fn median(&self) -> Option<Duration> {
        self.percentile(50)
    }

    /// Returns a cell with median and p99.
    pub(crate) fn with_p99(&self) -> Cell {
        self.figure(|this| Some(Spread::P99(this.percentile(99)?.as_secs_f64())))
    }

    /// Returns a cell with median, least and greatest duration.
    pub(crate) fn with_range(&self) -> Cell {
        self.figure(|this| {
            let (lowest, highest) = (this.0.iter().min()?.as_secs_f64(), this.0.iter().max()?.as_secs_f64());
            Some(Spread::Range { lowest, highest })
        })
    }

    fn figure(&self, spread: impl FnOnce(&Self) -> Option<Spread>) -> Cell {
        match self.median().zip(spread(self)) {
            Some((median, spread)) => {
                Cell::Figure(Figure { median: median.as_secs_f64(), spread, count: self.len() as u64 })
            }
            None => Cell::Nothing,
        }
    }
}

/// For lines about a run under way.
impl fmt::Display for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p99, last] = [50, 99, 100].map(|percent| self.percentile(percent).unwrap_or_default());
        write!(f, "{} answers, median {median:.2?}, p99 {p99:.2?}, last {last:.2?}", self.len())
    }
}

/// Returns the cell of a duration in seconds; no figure for `None`.
pub(crate) fn seconds(duration: Option<Duration>) -> Cell {
    duration.map_or(Cell::Nothing, |duration| Cell::number(duration.as_secs_f64()))
}

/// Returns the cell of a time as a multiple of another.
pub(crate) fn times(time: Duration, other: Duration) -> Cell {
    Cell::number(time.as_secs_f64() / other.as_secs_f64())
}

/// Returns the cell of the share of a time for each of `count`.
#[expect(clippy::cast_precision_loss, reason = "a count that was reached")]
pub(crate) fn of_each(total: Option<Duration>, count: usize) -> Cell {
    total.map_or(Cell::Nothing, |total| Cell::number(total.as_secs_f64() / count.max(1) as f64))
}

/// Returns the cell of a rate a second.
#[expect(clippy::cast_precision_loss, reason = "a count that was reached")]
pub(crate) fn per_second(count: usize, wall: Duration) -> Cell {
    Cell::number(count as f64 / wall.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_durations_that_were_measured() {
        let mut durations = Durations::default();
        assert_eq!(durations.with_p99(), Cell::Nothing);
        (1..=200).rev().for_each(|n| durations.add(Duration::from_millis(n)));
        assert_eq!(durations.median(), Some(Duration::from_millis(100)));
        assert_eq!(durations.percentile(99), Some(Duration::from_millis(198)));
        assert_eq!(durations.percentile(100), Some(Duration::from_millis(200)));
        let spread = Spread::Range { lowest: 0.001, highest: 0.2 };
        assert_eq!(durations.with_range(), Cell::Figure(Figure { median: 0.1, spread, count: 200 }));
    }
}
