//! The text form of a limit, in the manual and in a configuration file.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A type of limit values.
pub trait Bound: Sized {
    /// Describes the values that a configuration file may hold.
    fn expected() -> String;

    /// Returns the value as text: the form that a configuration file takes, with numbers in groups of three digits.
    fn to_text(&self) -> String;

    /// Converts a number of a configuration file; `None` when it is out of range.
    fn from_number(_: u64) -> Option<Self> {
        None
    }

    /// Parses a string of a configuration file; `None` when it is malformed.
    fn from_text(_: &str) -> Option<Self> {
        None
    }
}

/// A limit given in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<T>(pub T);

/// The largest number: sums of a few do not overflow, and no machine has more of anything.
const NUMBER_MAX: u64 = 1 << 40;
/// The text of an absent limit.
const UNLIMITED: &str = "none";
/// Units of time, largest first.
const UNITS: [(&str, Duration); 5] = [
    ("d", Duration::from_hours(24)),
    ("h", Duration::from_hours(1)),
    ("min", Duration::from_mins(1)),
    ("s", Duration::from_secs(1)),
    ("ms", Duration::from_millis(1)),
];

macro_rules! number {
    ($($type:ty),+) => {$(
        impl Bound for $type {
            fn expected() -> String {
                format!("a number up to {}", NUMBER_MAX.min(Self::MAX.try_into().unwrap_or(u64::MAX)))
            }

            fn to_text(&self) -> String {
                grouped(&self.to_string())
            }

            fn from_number(number: u64) -> Option<Self> {
                Some(number).filter(|number| *number <= NUMBER_MAX)?.try_into().ok()
            }
        }
    )+};
}

number!(usize, u64, u32, u16);

impl Bound for Duration {
    fn expected() -> String {
        "a time like \"500 ms\", \"30 s\", \"5 min\", \"1 h\", \"7 d\"".into()
    }

    fn to_text(&self) -> String {
        let is_whole = |unit: &Duration| self.as_nanos().is_multiple_of(unit.as_nanos());
        let (name, unit) = UNITS.iter().find(|(_, unit)| is_whole(unit)).unwrap_or(&UNITS[4]);
        format!("{} {name}", self.as_nanos() / unit.as_nanos())
    }

    fn from_text(text: &str) -> Option<Self> {
        let (number, name) = text.split_at(text.find(|char: char| !char.is_ascii_digit())?);
        let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == name.trim())?;
        unit.checked_mul(number.parse().ok()?)
    }
}

/// An optional limit.
impl<T: Bound> Bound for Option<T> {
    fn expected() -> String {
        format!("{}, or {UNLIMITED:?}", T::expected())
    }

    fn to_text(&self) -> String {
        self.as_ref().map_or_else(|| UNLIMITED.into(), Bound::to_text)
    }

    fn from_number(number: u64) -> Option<Self> {
        T::from_number(number).map(Some)
    }

    fn from_text(text: &str) -> Option<Self> {
        if text == UNLIMITED { Some(None) } else { T::from_text(text).map(Some) }
    }
}

/// Groups digits by three: `1234567` becomes `1 234 567`.
fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

impl<'de, T: Bound> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader(PhantomData)).map(Self)
    }
}

struct Reader<T>(PhantomData<T>);

impl<T: Bound> Visitor<'_> for Reader<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&T::expected())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let wrong = || E::invalid_value(Unexpected::Signed(number), &self);
        u64::try_from(number).ok().and_then(T::from_number).ok_or_else(wrong)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, I64Deserializer};

    use super::*;

    fn text<T: Bound>(text: &str) -> Result<T, String> {
        let given: Result<_, Error> = Given::deserialize(text.into_deserializer());
        given.map(|Given(bound)| bound).map_err(|error| error.to_string())
    }

    fn number<T: Bound>(number: i64) -> Result<T, String> {
        let number: I64Deserializer<Error> = number.into_deserializer();
        Given::deserialize(number).map(|Given(bound)| bound).map_err(|error| error.to_string())
    }

    #[test]
    fn times_are_parsed_as_they_are_written() {
        for (given, written) in [
            ("1 ms", "1 ms"),
            ("1500 ms", "1500 ms"),
            ("59 s", "59 s"),
            ("60min", "1 h"),
            ("2 h", "2 h"),
            ("48 h", "2 d"),
        ] {
            assert_eq!(text::<Duration>(given).map(|time| time.to_text()).as_deref(), Ok(written));
        }
        for wrong in ["", "30", "s", "-1 s", "1.5 s", "30 days", "99999999999 h", "none"] {
            assert!(text::<Duration>(wrong).is_err_and(|error| error.contains("expected a time like")), "{wrong}");
        }
        assert!(number::<Duration>(30).is_err_and(|error| error.contains("expected a time like")));
    }

    #[test]
    fn numbers_are_written_in_groups_and_have_a_maximum() {
        assert_eq!(
            [0, 999, 1000, 64_000_000].map(|number: usize| number.to_text()),
            ["0", "999", "1 000", "64 000 000"]
        );
        assert_eq!((number::<u32>(7), number::<usize>(1 << 40)), (Ok(7), Ok(1 << 40)));
        assert!(
            number::<u32>(-1).is_err() && number::<u32>(1 << 32).is_err() && number::<usize>((1 << 40) + 1).is_err()
        );
        assert!(number::<u16>(65_536).is_err_and(|error| error.contains("expected a number up to 65535")));
        assert!(text::<usize>("none").is_err() && text::<usize>("7").is_err());
    }

    #[test]
    fn optional_limit_may_be_none() {
        let time = text::<Option<Duration>>;
        assert_eq!((time("none"), time("5 s")), (Ok(None), Ok(Some(Duration::from_secs(5)))));
        assert_eq!((text::<Option<usize>>("none"), number::<Option<usize>>(5)), (Ok(None), Ok(Some(5))));
        assert_eq!(None::<usize>.to_text(), "none");
        assert!(text::<Option<usize>>("many").is_err_and(|error| error.contains("or \"none\"")));
    }
}
