//! The clock, for the few answers that depend on the time of day, and times as text.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Returns the time in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns a time in seconds since 1970 as text, with milliseconds: `2009-01-03T18:15:05.000Z`.
pub fn iso(seconds: u32) -> String {
    let time = OffsetDateTime::from_unix_timestamp(seconds.into()).ok().and_then(|time| time.format(&Rfc3339).ok());
    time.unwrap_or_default().replace('Z', ".000Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_texts_of_iso_8601() {
        assert_eq!(iso(1_231_006_505), "2009-01-03T18:15:05.000Z");
    }
}
