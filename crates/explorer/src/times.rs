//! Times as text.

use birdhouse_esplora::clock;

/// Returns a time in seconds since 1970 for people: `2009-01-03 18:15:05`, in UTC.
pub(crate) fn readable(seconds: u32) -> String {
    let iso = clock::iso(seconds);
    format!("{} {}", iso.get(..10).unwrap_or_default(), iso.get(11..19).unwrap_or_default())
}

/// Returns a time for programs, in the form of ISO 8601.
pub(crate) fn iso(seconds: u32) -> String {
    clock::iso(seconds).replace(".000Z", "Z")
}

/// Returns how long ago a time is, in one unit.
pub(crate) fn ago(seconds: u32, now: u64) -> String {
    let (number, unit) = match now.saturating_sub(seconds.into()) {
        ..60 => return "just now".into(),
        age @ ..3600 => (age / 60, "minute"),
        age @ ..86_400 => (age / 3600, "hour"),
        age => (age / 86_400, "day"),
    };
    format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_people_and_for_programs() {
        assert_eq!(readable(1_231_006_505), "2009-01-03 18:15:05");
        assert_eq!(iso(1_231_006_505), "2009-01-03T18:15:05Z");
        let ages = [10, 60, 7_300, 86_400 * 3].map(|age| ago(1_000_000, 1_000_000 + age));
        assert_eq!(ages, ["just now", "1 minute ago", "2 hours ago", "3 days ago"]);
        assert_eq!(ago(2_000, 1_000), "just now");
    }
}
