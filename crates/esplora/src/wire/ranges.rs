//! A part of a file that a client asks for, to go on with a download that was cut off
//! ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-14), sections 13.1.5 and 14). Pure.

use std::ops::Range;

/// The part of a file that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: no part, several, or one that cannot be read.
    Whole,
    /// Some bytes, at least one.
    Part(Range<u64>),
    /// Bytes that the file does not have.
    Nothing,
}

/// The headers of a request that ask for a part.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedRange {
    /// `Range`.
    pub(crate) range: Option<String>,
    /// `If-Range`: the file that the client has a part of.
    pub(crate) if_range: Option<String>,
}

impl AskedRange {
    /// Returns true if a part of the file with this strong validator is asked for.
    pub(crate) fn is_part_of(&self, etag: &str) -> bool {
        self.range.is_some() && self.if_range.as_ref().is_none_or(|known| known.trim() == etag)
    }

    /// Returns the part of a file of this many bytes.
    pub(crate) fn within(&self, len: u64) -> Wanted {
        let asked = self.range.as_deref().and_then(|range| {
            let (unit, range) = range.split_once('=')?;
            if unit.trim().eq_ignore_ascii_case("bytes") { range.trim().split_once('-') } else { None }
        });
        let number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let part = match asked {
            None => return Wanted::Whole,
            Some(("", last)) => number(last).map(|count: u64| len.saturating_sub(count)..len),
            Some((first, "")) => number(first).map(|first| first..len),
            Some((first, last)) => {
                let both = number(first).zip(number(last)).filter(|(first, last)| first <= last);
                both.map(|(first, last): (u64, u64)| first..last.saturating_add(1).min(len))
            }
        };
        match part {
            None => Wanted::Whole,
            Some(part) if part.start >= part.end => Wanted::Nothing,
            Some(part) => Wanted::Part(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of RFC 9110, section 14.1.2, of a file of 10 000 bytes, and what it calls invalid or unsatisfiable.
    #[test]
    fn ranges_are_those_of_the_rfc() {
        let within = |range: &str, len| AskedRange { range: Some(range.into()), if_range: None }.within(len);
        for (range, part) in [
            ("bytes=0-499", 0..500),
            ("bytes=500-999", 500..1000),
            ("bytes=-500", 9500..10_000),
            ("bytes=9500-", 9500..10_000),
            ("bytes=0-0", 0..1),
            ("Bytes= 9999-20000", 9999..10_000),
            ("bytes=-20000", 0..10_000),
        ] {
            assert_eq!(within(range, 10_000), Wanted::Part(part), "{range}");
        }
        for range in ["bytes=10000-", "bytes=10000-10001", "bytes=-0"] {
            assert_eq!(within(range, 10_000), Wanted::Nothing, "{range}");
        }
        let overflow = format!("bytes=0-{}0", u64::MAX);
        for range in
            ["bytes=0-1,5-6", "bytes=5-1", "bytes=-", "bytes=a-b", "bytes=+1-2", "lines=0-1", "bytes", &overflow]
        {
            assert_eq!(within(range, 10_000), Wanted::Whole, "{range}");
        }
        assert_eq!(AskedRange::default().within(10), Wanted::Whole);
    }

    #[test]
    fn a_part_of_another_file_is_not_taken() {
        let asked = |range: Option<&str>, if_range: Option<&str>| AskedRange {
            range: range.map(str::to_owned),
            if_range: if_range.map(str::to_owned),
        };
        assert!(asked(Some("bytes=1-"), None).is_part_of("\"a\""));
        assert!(asked(Some("bytes=1-"), Some("\"a\"")).is_part_of("\"a\""));
        for other in ["\"b\"", "W/\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert!(!asked(Some("bytes=1-"), Some(other)).is_part_of("\"a\""), "{other}");
        }
        assert!(!asked(None, None).is_part_of("\"a\""));
    }
}
