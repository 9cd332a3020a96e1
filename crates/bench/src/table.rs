//! Figures as the tables of BENCHMARKS.md.

use std::time::Duration;

/// Durations of the same work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Durations(Vec<Duration>);

impl Durations {
    pub(crate) fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The duration that so many per cent do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
    }

    pub(crate) fn median(&self) -> Option<Duration> {
        self.percentile(50)
    }
}

/// Milliseconds with three significant digits.
pub(crate) fn ms(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), |duration| digits(duration.as_secs_f64() * 1000.0))
}

/// Three significant digits.
pub(crate) fn digits(number: f64) -> String {
    match number {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        1.0.. => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// Microseconds of each of so many.
#[expect(clippy::cast_precision_loss, reason = "a count that was reached")]
pub(crate) fn us_each(total: Duration, count: usize) -> String {
    digits(total.as_secs_f64() * 1e6 / count.max(1) as f64)
}

/// So many in a time, a second.
#[expect(clippy::cast_precision_loss, reason = "a count that was reached")]
pub(crate) fn per_second(count: usize, wall: Duration) -> String {
    digits(count as f64 / wall.as_secs_f64())
}

/// How many times longer than `ours`.
pub(crate) fn ratio(theirs: Option<Duration>, ours: Option<Duration>) -> String {
    match (theirs, ours) {
        (Some(theirs), Some(ours)) => format!("{}x", digits(theirs.as_secs_f64() / ours.as_secs_f64())),
        _ => "-".to_owned(),
    }
}

/// A header of a table.
pub(crate) fn header<T: AsRef<str>>(columns: impl IntoIterator<Item = T>) {
    let columns: Vec<String> = columns.into_iter().map(|column| column.as_ref().to_owned()).collect();
    row("", &columns);
    println!("|---{}|", "|---".repeat(columns.len()));
}

/// A row of a table.
pub(crate) fn row(title: &str, cells: &[String]) {
    println!("| {title} | {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_durations_that_were_measured() {
        let mut durations = Durations::default();
        assert_eq!(durations.median(), None);
        (1..=200).rev().for_each(|n| durations.add(Duration::from_millis(n)));
        assert_eq!(durations.median(), Some(Duration::from_millis(100)));
        assert_eq!(durations.percentile(99), Some(Duration::from_millis(198)));
        assert_eq!(durations.percentile(100), Some(Duration::from_millis(200)));
    }

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0456, 1.234, 12.34, 123.4, 1234.5].map(digits);
        assert_eq!(shown, ["0.046", "1.23", "12.3", "123", "1234"]);
    }
}
