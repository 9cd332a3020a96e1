//! Former and misspelt names of settings, values and commands: errors about them name the right one.

/// Former names and present ones. No former name has two meanings.
pub(super) const RENAMED: [(&str, &str); 18] = [
    // `[limits.public]` and `[limits.private]`
    ("handshake", "handshake-timeout"),
    ("first-message", "first-message-timeout"),
    ("idle", "idle-timeout"),
    ("line-bytes", "message-bytes"),
    ("id-bytes", "request-id-bytes"),
    // `[limits.server]`
    ("shutdown", "shutdown-timeout"),
    // `[limits.relay]`
    ("subscription-chars", "subscription-id-chars"),
    ("untold", "live-queue-events"),
    ("silence", "idle-timeout"),
    ("pong", "ping-timeout"),
    ("sync-silence", "sync-idle-timeout"),
    ("plugin-answer", "plugin-timeout"),
    // several of them
    ("message", "message-timeout"),
    ("stalled-write", "write-timeout"),
    ("unfinished-bytes", "partial-message-bytes"),
    // `relay-private-messages`
    ("people", "participants"),
    ("everybody", "everyone"),
    // `birdhouse ctl`
    ("sessions", "connections"),
];

/// Largest number of edits, in percent of the longer name, with which a name counts as misspelt: `netwrok` and
/// `network` have 15, `relay-name` and `relay-addr` 40.
const EDITS_PERCENT_MAX: usize = 30;

/// Returns a hint at the name that was meant by an unknown `name`, or `None` if none of the `allowed` ones is similar.
pub(super) fn hint(name: &str, allowed: &[&str]) -> Option<String> {
    let is_present = |(former, present): &&(&str, &str)| *former == name && allowed.contains(present);
    match RENAMED.iter().find(is_present) {
        Some((_, present)) => Some(format!("it is now called {present:?}")),
        None => nearest(name, allowed).map(|nearest| format!("did you mean {nearest:?}?")),
    }
}

/// Returns the most similar of the `allowed` names, if one is similar enough to be meant.
pub(super) fn nearest<'a>(name: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let edits_max = |allowed: &str| name.len().max(allowed.len()) * EDITS_PERCENT_MAX / 100;
    let all = allowed.iter().map(|allowed| (edits(name.as_bytes(), allowed.as_bytes()), *allowed));
    all.filter(|(edits, allowed)| *edits <= edits_max(allowed)).min().map(|(_, nearest)| nearest)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours between two names (the optimal
/// string alignment distance).
fn edits(left: &[u8], right: &[u8]) -> usize {
    let mut counts = vec![vec![0; right.len() + 1]; left.len() + 1];
    for row in 0..=left.len() {
        for column in 0..=right.len() {
            counts[row][column] = match (row, column) {
                (0, edits) | (edits, 0) => edits,
                _ => {
                    let replaced = counts[row - 1][column - 1] + usize::from(left[row - 1] != right[column - 1]);
                    let mut fewest = replaced.min(counts[row - 1][column] + 1).min(counts[row][column - 1] + 1);
                    if row > 1 && column > 1 && (left[row - 2], left[row - 1]) == (right[column - 1], right[column - 2])
                    {
                        fewest = fewest.min(counts[row - 2][column - 2] + 1);
                    }
                    fewest
                }
            };
        }
    }
    counts[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_insertions_deletions_replacements_and_swaps() {
        for (left, right, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("network", "netwrok", 1),
            ("relay-ulr", "relay-url", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edits(left.as_bytes(), right.as_bytes()), expected, "{left} {right}");
            assert_eq!(edits(right.as_bytes(), left.as_bytes()), expected, "{right} {left}");
        }
    }

    #[test]
    fn another_setting_is_no_misspelt_one() {
        let allowed = ["relay-addr", "relay-name", "relay-url"];
        assert_eq!(nearest("relay-uri", &allowed), Some("relay-url"));
        assert_eq!(nearest("relay-colour", &allowed), None);
    }
}
