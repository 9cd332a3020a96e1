//! Moments on the command line: seconds since 1970, or a time ago.

use std::str::FromStr;

use anyhow::{Context as _, Error, Result};

/// Units of a time ago, in seconds, as strfry writes them; a month has 30 days and a year 365.
const UNITS: [(char, u64); 7] =
    [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800), ('M', 2_592_000), ('Y', 31_536_000)];

/// A moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Seconds since 1970.
    At(u64),
    /// Seconds before now.
    Ago(u64),
}

impl Moment {
    /// Returns the moment in seconds since 1970.
    pub(crate) fn seconds(self, now: u64) -> u64 {
        match self {
            Self::At(seconds) => seconds,
            Self::Ago(seconds) => now.saturating_sub(seconds),
        }
    }
}

impl FromStr for Moment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let form =
            || format!("{text:?} is no moment: use seconds since 1970, or a time ago like 3w (s, m, h, d, w, M, Y)");
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
        let digits = unit.map_or(text, |(unit, _)| text.trim_end_matches(*unit));
        let number: u64 = digits.parse().ok().with_context(form)?;
        Ok(match unit {
            Some((_, seconds)) => Self::Ago(number.saturating_mul(*seconds)),
            None => Self::At(number),
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn moments_are_seconds_or_times_ago() {
        for (text, seconds) in [("0", 0), ("1700000000", 1_700_000_000), ("3w", 10_000_000 - 3 * 604_800), ("9Y", 0)] {
            assert_eq!(text.parse::<Moment>().unwrap().seconds(10_000_000), seconds, "{text}");
        }
        for text in ["", "w", "-1d", "1x", "1ww ", "1.5d"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
