//! Findings that are still tolerated, by check and crate. A number may only go down.

use std::collections::BTreeMap;

use crate::Finding;

/// Check, folder under `crates` (or `.`), and the number of findings that pass.
const ALLOWED: &[(&str, &str, usize)] = &[("word", "relay", 10), ("word", "server", 1), ("word", "store", 1)];

/// One message for each crate with more findings than it may have.
pub(crate) fn excess(check: &str, findings: &[Finding]) -> Vec<String> {
    by_crate(findings).into_iter().filter_map(|(krate, found)| message(check, krate, &found)).collect()
}

/// Prints the lines of [`ALLOWED`] that allow these findings and no more.
pub(crate) fn print_table(check: &str, findings: &[Finding]) {
    for (krate, found) in by_crate(findings) {
        println!("    (\"{check}\", \"{krate}\", {}),", found.len());
    }
}

fn by_crate(findings: &[Finding]) -> BTreeMap<&str, Vec<&Finding>> {
    let mut found: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        found.entry(&finding.krate).or_default().push(finding);
    }
    found
}

fn message(check: &str, krate: &str, found: &[&Finding]) -> Option<String> {
    let entry = ALLOWED.iter().find(|(of, name, _)| *of == check && *name == krate);
    let allowed = entry.map_or(0, |(_, _, allowed)| *allowed);
    (found.len() > allowed).then(|| {
        let list: Vec<_> = found.iter().map(ToString::to_string).collect();
        format!("{krate} has {} findings of `{check}`, {allowed} pass:\n  {}", found.len(), list.join("\n  "))
    })
}
