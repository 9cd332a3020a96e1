//! Private words that the glossary of STYLE.md replaces by the field's, refused as identifiers.

use std::collections::BTreeSet;

use crate::Finding;
use crate::source;

/// Comparison of a word of the list with an identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Equal to one of the parts between underscores and capitals, in any case.
    Part,
    /// Equal to the whole identifier.
    Whole,
}
use By::{Part, Whole};

/// Word, comparison, the crates that it is refused in (none: all), and what to say.
const REFUSED: &[(&str, By, &[&str], &str)] = &[
    ("told", Part, &[], "shared payload, last sent"),
    ("untold", Part, &[], "live queue"),
    ("ear", Part, &[], "inbox"),
    ("news", Part, &[], "node update, live event"),
    ("guest", Part, &[], "connection state"),
    ("visitor", Part, &[], "connection state, guard"),
    ("guarded", Part, &[], "child guard"),
    ("beginnings", Part, &[], "partial messages"),
    ("purse", Part, &[], "funding"),
    ("house", Part, &[], "app"),
    ("desk", Part, &[], "compaction context"),
    ("tend", Part, &[], "compact"),
    ("judge", Part, &["events", "relay"], "admission"),
    ("doomed", Part, &["events", "relay"], "superseded"),
    ("apart", Part, &["chain", "electrum", "events", "net", "relay"], "offload"),
    ("lone", Part, &["electrum", "net", "relay"], "inline"),
    ("here", Part, &["electrum", "net", "relay"], "inline"),
    ("cold", Part, &["electrum", "net", "relay"], "disk stall"),
    ("place", Whole, &["electrum", "events", "net", "relay"], "executor, index, offset"),
    ("Place", Whole, &["electrum", "events", "net", "relay"], "executor, index, offset"),
    ("mark", Part, &["chain", "electrum", "events", "relay", "server", "store"], "manifest, `since_seq`"),
    ("SealedRun", Whole, &[], "FinishedRun"),
    ("SealedRows", Whole, &[], "RunRows"),
    ("seal", Part, &["events"], "flush"),
    ("tail", Part, &["events"], "memtable"),
    ("dead", Part, &["events"], "tombstones"),
    ("tidy", Part, &["events", "relay", "server"], "compaction"),
    ("view_run", Whole, &[], "visit_run"),
    ("view_runs", Whole, &[], "visit_runs"),
    ("view_many", Whole, &[], "visit_many"),
    ("show", Part, &["chain", "events"], "install"),
    ("shown", Part, &["chain", "events"], "installed version"),
    ("session", Part, &["electrum", "net"], "connection state"),
    ("sessions", Part, &["electrum", "net"], "registry"),
    ("visit", Part, &["electrum", "relay"], "connection guard"),
    ("arrival", Part, &["electrum", "net"], "meter"),
    ("group", Part, &["clients", "electrum", "relay"], "client key, pending requests"),
    ("named", Part, &["chain"], "txid cache"),
    ("short", Part, &["chain"], "work budget"),
    ("reach", Part, &["chain", "electrum"], "work budget"),
    ("take_back", Whole, &["chain"], "rollback"),
    ("Lists", Whole, &["events"], "PostingIndex"),
    ("Common", Whole, &["events"], "ListSubject"),
    ("people", Part, &["relay", "server"], "clients"),
    ("everybody", Part, &["relay", "server"], "everyone"),
    ("silence", Whole, &["relay", "server"], "idle timeout"),
    ("Inbox", Whole, &[], "`WorkQueue`, `LiveInbox`"),
    ("Room", Whole, &[], "`Reservation`, `ConnectionSlots`, `AnswerMemory`"),
];

/// Identifiers that are a protocol's, a library's or ordinary English: crate (empty: all), identifier, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("", "block_in_place", "tokio"),
    ("chain", "is_named", "ordinary English: a damaged file is named in the error"),
    ("server", "PEOPLE", "ordinary English: the writers of the demo"),
    ("server", "people", "ordinary English: the writers of the demo"),
    ("electrum", "Session", "the lane of requests that change the protocol's session"),
    ("electrum", "SessionRequest", "the lane of requests that change the protocol's session"),
    ("electrum", "SessionKind", "the lane of requests that change the protocol's session"),
    ("electrum", "next_arrival", "the next transaction of `chain`'s mempool"),
    ("", "process_group", "std::process::CommandExt"),
    ("electrum", "Visit", "the source of blocks that its tests stand before"),
    ("", "Visitor", "serde"),
    ("", "visit_str", "serde"),
    ("", "visit_map", "serde"),
    ("", "visit_seq", "serde"),
    ("", "visit_i64", "serde"),
    ("", "visit_u64", "serde"),
    ("", "visit_run", "the row visitor of `store`"),
    ("", "visit_runs", "the row visitor of `store`"),
    ("", "visit_many", "the row visitor of `store`"),
    ("relay", "visit", "the row visitor of `events`"),
    ("", "cold", "the attribute `#[cold]`"),
];

/// Identifiers of more parts are sentences (names of tests), which people judge.
const PARTS_MAX: usize = 4;

/// Identifiers with a refused word, each once a file.
pub(crate) fn refused() -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in source::rust() {
        let mut seen = BTreeSet::new();
        for (line, code) in file.code.lines().enumerate() {
            for identifier in identifiers(code) {
                let Some(say) = replacement(&file.krate, identifier) else { continue };
                if seen.insert(identifier.to_owned()) {
                    let message = format!("`{identifier}`: say {say}");
                    findings.push(Finding {
                        krate: file.krate.clone(),
                        file: file.path.clone(),
                        line: line + 1,
                        message,
                    });
                }
            }
        }
    }
    findings
}

/// Returns the replacement of an identifier that is refused in a crate.
fn replacement(krate: &str, identifier: &str) -> Option<&'static str> {
    let is_exception = |(of, name, _): &&(&str, &str, &str)| (of.is_empty() || *of == krate) && *name == identifier;
    let parts = parts(identifier);
    if parts.len() > PARTS_MAX || EXCEPTIONS.iter().any(|entry| is_exception(&entry)) {
        return None;
    }
    let entry = REFUSED.iter().find(|(word, by, crates, _)| {
        (crates.is_empty() || crates.contains(&krate))
            && match by {
                Part => parts.iter().any(|part| part == word),
                Whole => identifier == *word,
            }
    });
    entry.map(|(_, _, _, say)| *say)
}

/// The words of a line of code.
fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|char: char| !char.is_alphanumeric() && char != '_').filter(|word| !word.is_empty())
}

/// The parts of an identifier between underscores and at capitals, in lower case.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut last_was_lower = false;
    for char in identifier.chars() {
        if char == '_' || (char.is_uppercase() && last_was_lower) {
            parts.push(String::new());
        }
        last_was_lower = char.is_lowercase() || char.is_ascii_digit();
        if char != '_' {
            parts.last_mut().expect("there is always one part").extend(char.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn identifiers_are_split_at_underscores_and_capitals() {
    assert_eq!(parts("SealedRun"), ["sealed", "run"]);
    assert_eq!(parts("TOLD_MAX"), ["told", "max"]);
    assert_eq!(parts("is_told"), ["is", "told"]);
}

#[test]
fn a_word_is_refused_as_a_part_and_not_within_a_word() {
    assert!(replacement("relay", "Told").is_some() && replacement("relay", "wait_for_news").is_some());
    assert!(replacement("relay", "untoldness").is_none() && replacement("bench", "MARK_PX").is_none());
}
