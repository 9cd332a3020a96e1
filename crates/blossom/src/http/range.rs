//! One range of bytes of a request (RFC 9110 section 14).
//!
//! Of several ranges, and of a header that cannot be read, the whole is the answer, as the RFC allows.

/// The part of a blob that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Whole,
    /// Bytes from the first to the last one.
    Part {
        first: u64,
        last: u64,
    },
    /// Nothing of the range exists.
    Nothing,
}

impl Wanted {
    /// Parses the value of a header `Range` for a blob of this size.
    pub(super) fn of(header: &str, size: u64) -> Self {
        let Some((unit, range)) = header.trim().split_once('=') else { return Self::Whole };
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return Self::Whole;
        }
        let Some((first, last)) = range.trim().split_once('-') else { return Self::Whole };
        match (first, last) {
            ("", last) => number(last).map_or(Self::Whole, |bytes| Self::last(bytes, size)),
            (first, "") => number(first).map_or(Self::Whole, |first| Self::between(first, u64::MAX, size)),
            (first, last) => match (number(first), number(last)) {
                (Some(first), Some(last)) if first <= last => Self::between(first, last, size),
                _ => Self::Whole,
            },
        }
    }

    fn last(bytes: u64, size: u64) -> Self {
        if bytes == 0 { Self::Nothing } else { Self::between(size.saturating_sub(bytes), u64::MAX, size) }
    }

    fn between(first: u64, last: u64, size: u64) -> Self {
        if first >= size { Self::Nothing } else { Self::Part { first, last: last.min(size - 1) } }
    }
}

/// Parses digits; a number that is too large is the largest.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_rfc() {
        let part = |first, last| Wanted::Part { first, last };
        for (header, wanted) in [
            // RFC 9110 section 14.1.2, of a representation of 10000 bytes.
            ("bytes=0-499", part(0, 499)),
            ("bytes=500-999", part(500, 999)),
            ("bytes=-500", part(9500, 9999)),
            ("bytes=9500-", part(9500, 9999)),
            ("bytes=0-0", part(0, 0)),
            ("Bytes=9999-9999", part(9999, 9999)),
            ("bytes=0-99999", part(0, 9999)),
            ("bytes=-99999", part(0, 9999)),
            ("bytes=0-99999999999999999999999", part(0, 9999)),
            ("bytes=10000-", Wanted::Nothing),
            ("bytes=10000-10001", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=0-0,-1", Wanted::Whole),
            ("bytes=1-0", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(Wanted::of(header, 10_000), wanted, "{header}");
        }
        assert_eq!([Wanted::of("bytes=0-", 0), Wanted::of("bytes=-1", 0)], [Wanted::Nothing; 2]);
    }
}
