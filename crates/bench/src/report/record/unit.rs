//! Units of numbers and the scales to write them: one scale for a column, so that its figures can be compared.

use serde::{Deserialize, Serialize};

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Seconds,
    Bytes,
    BytesPerSecond,
    Count,
    /// Rate of the things that the column's title names.
    PerSecond,
    /// CPU seconds a second.
    Cpus,
    /// Ratio.
    Times,
    /// No number: cells are text.
    Words,
}

/// Scale of numbers of one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Number of base units in one of this scale.
    pub(crate) factor: f64,
    /// Symbol of the unit; empty for a plain number.
    pub(crate) symbol: &'static str,
    suffix: &'static str,
}

const SECONDS: [(f64, &str); 3] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
const BYTES: [(f64, &str); 4] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
const BYTES_PER_SECOND: [(f64, &str); 3] = [(1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")];

impl Unit {
    /// Returns the scale for numbers like `typical`: the largest unit that `typical` has about one of.
    pub(crate) fn scale(self, typical: f64) -> Scale {
        match self {
            // 0.2 ms is easier to read than 200 us beside 20 ms.
            Self::Seconds => largest(&SECONDS, typical * 10.0),
            Self::Bytes => largest(&BYTES, typical / 3.0),
            Self::BytesPerSecond => largest(&BYTES_PER_SECOND, typical),
            Self::Count | Self::Words => Scale { factor: 1.0, symbol: "", suffix: "" },
            Self::PerSecond => Scale { factor: 1.0, symbol: "1/s", suffix: "" },
            Self::Cpus => Scale { factor: 1.0, symbol: "CPUs", suffix: "" },
            Self::Times => Scale { factor: 1.0, symbol: "", suffix: "x" },
        }
    }

    /// Returns the name of the quantity, for an axis.
    pub(crate) fn quantity(self) -> &'static str {
        match self {
            Self::Seconds => "time",
            Self::Bytes => "size",
            Self::BytesPerSecond | Self::PerSecond => "rate",
            Self::Cpus => "processors",
            Self::Count | Self::Times | Self::Words => "number",
        }
    }

    /// Returns the scale for all these numbers, by their median.
    pub(crate) fn scale_of(self, numbers: impl IntoIterator<Item = f64>) -> Scale {
        let mut sorted: Vec<f64> = numbers.into_iter().filter(|number| *number > 0.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        self.scale(sorted.get(sorted.len() / 2).copied().unwrap_or(1.0))
    }
}

impl Scale {
    pub(crate) fn show(self, number: f64) -> String {
        digits(number / self.factor) + self.suffix
    }

    /// Returns a title with the unit.
    pub(crate) fn titled(self, title: &str) -> String {
        if self.symbol.is_empty() { title.to_owned() } else { format!("{title}, {}", self.symbol) }
    }
}

fn largest(scales: &[(f64, &'static str)], number: f64) -> Scale {
    let fitting = scales.iter().find(|(factor, _)| number >= *factor);
    let (factor, symbol) = *fitting.or(scales.last()).expect("every list of scales has an entry");
    Scale { factor, symbol, suffix: "" }
}

/// Returns a number with three significant digits; a whole number with all.
pub(crate) fn digits(number: f64) -> String {
    if number.fract() == 0.0 {
        return grouped(number);
    }
    match number.abs() {
        100.0.. => grouped(number),
        10.0.. => format!("{number:.1}"),
        1.0.. => format!("{number:.2}"),
        0.01.. => format!("{number:.3}"),
        // A column may have very different numbers, so small ones keep digits.
        small => format!("{number:.decimals$}", decimals = if small < 0.001 { 5 } else { 4 }),
    }
}

/// Returns a whole number, with thin spaces between thousands from five digits on.
pub(crate) fn grouped(number: f64) -> String {
    let whole = format!("{number:.0}");
    if whole.len() < 5 {
        return whole;
    }
    let from_end = |(index, digit): (usize, char)| {
        let space = index > 0 && (whole.len() - index).is_multiple_of(3);
        [space.then_some('\u{202f}'), Some(digit)].into_iter().flatten()
    };
    whole.chars().enumerate().flat_map(from_end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.000_391, 0.004_56, 0.0456, 1.234, 12.34, 123.4, 1234.5, 3000.0, 0.0].map(digits);
        assert_eq!(shown, ["0.00039", "0.0046", "0.046", "1.23", "12.3", "123", "1234", "3000", "0"]);
    }

    #[test]
    fn a_scale_fits_the_number_in_the_middle() {
        let scale = Unit::Seconds.scale_of([0.000_05, 0.002, 0.3]);
        assert_eq!((scale.symbol, scale.show(0.002), scale.titled("p99")), ("ms", "2".into(), "p99, ms".into()));
        assert_eq!(Unit::Seconds.scale_of([24e-6]).show(24.6e-6), "24.6");
        assert_eq!(Unit::Bytes.scale(265e6).show(265e6), "265");
        assert_eq!(Unit::Bytes.scale(265e6).symbol, "MB");
        assert_eq!(Unit::Times.scale(2.0).show(6.66), "6.66x");
        assert_eq!(Unit::Count.scale_of([]).show(7.0), "7");
    }
}
