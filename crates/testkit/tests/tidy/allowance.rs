//! Findings that are still tolerated, by check and crate. A number may only go down.

use std::collections::BTreeMap;

use crate::Finding;

/// Check, folder under `crates` (or `.`), and the number of findings that pass.
const ALLOWED: &[(&str, &str, usize)] = &[
    ("file", ".", 3),
    ("headless", "bench", 101),
    ("headless", "clients", 35),
    ("headless", "electrum", 40),
    ("headless", "node", 29),
    ("headless", "relay", 108),
    ("headless", "store", 35),
    ("headless", "testkit", 80),
    ("phrase", "bench", 25),
    ("phrase", "clients", 1),
    ("phrase", "electrum", 4),
    ("phrase", "node", 6),
    ("phrase", "relay", 34),
    ("phrase", "store", 7),
    ("phrase", "testkit", 16),
    ("unsafe", "bench", 1),
    ("unsafe", "clients", 1),
    ("unsafe", "node", 1),
    ("unsafe", "relay", 1),
    ("unsafe", "testkit", 1),
    ("width", "bench", 23),
    ("width", "clients", 6),
    ("width", "electrum", 13),
    ("width", "node", 6),
    ("width", "relay", 37),
    ("width", "store", 23),
    ("width", "testkit", 21),
    ("word", "bench", 9),
    ("word", "chain", 2),
    ("word", "electrum", 56),
    ("word", "events", 6),
    ("word", "node", 9),
    ("word", "relay", 111),
    ("word", "server", 4),
    ("word", "store", 30),
    ("word", "testkit", 28),
];

/// One message for each crate with more findings than it may have.
pub(crate) fn excess(check: &str, findings: &[Finding]) -> Vec<String> {
    let mut by_crate: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        by_crate.entry(&finding.krate).or_default().push(finding);
    }
    by_crate.into_iter().filter_map(|(krate, found)| message(check, krate, &found)).collect()
}

fn message(check: &str, krate: &str, found: &[&Finding]) -> Option<String> {
    let entry = ALLOWED.iter().find(|(of, name, _)| *of == check && *name == krate);
    let allowed = entry.map_or(0, |(_, _, allowed)| *allowed);
    (found.len() > allowed).then(|| {
        let list: Vec<_> = found.iter().map(ToString::to_string).collect();
        format!("{krate} has {} findings of `{check}`, {allowed} pass:\n  {}", found.len(), list.join("\n  "))
    })
}
