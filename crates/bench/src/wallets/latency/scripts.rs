//! The scripts to request: some of each length of history, for a curve.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::de::IgnoredAny;

use super::classes::class;
use crate::machine::wire::{Wire, quoted, request, result};
use crate::wallets::samples::Samples;

/// A script with its number of transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) scripthash: String,
    /// Number of transactions when it was counted.
    pub(crate) txs: u64,
}

/// Returns all scripts of a generated chain whose transactions were counted.
pub(crate) fn of_samples(samples: &Samples) -> Vec<Script> {
    let all = [&samples.old, &samples.medium, &samples.busy, &samples.largest];
    let counted = all.into_iter().flatten();
    counted.map(|sample| Script { scripthash: sample.scripthash.clone(), txs: sample.txs }).collect()
}

/// Reads script hashes from a file, one a line.
pub(crate) fn of_file(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let lines: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    for line in &lines {
        let is_hash = line.len() == 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        ensure!(is_hash, "{line:.80} in {} is no script hash", file.display());
    }
    ensure!(!lines.is_empty(), "{} is empty", file.display());
    Ok(lines)
}

/// Reads the lengths of histories from a server.
pub(crate) fn counted(addr: &str, scripthashes: &[String]) -> Result<Vec<Script>> {
    let mut wire = Wire::connect(addr)?;
    let mut counted = Vec::new();
    for scripthash in scripthashes {
        let answer = wire.ask(&request("blockchain.scripthash.get_history", &quoted(scripthash)))?;
        let entries: Vec<IgnoredAny> = serde_json::from_str(result(&answer)?)?;
        counted.push(Script { scripthash: scripthash.clone(), txs: entries.len() as u64 });
    }
    Ok(counted)
}

/// Chooses up to `most` scripts of each [`class`] of lengths, spread over the class, the shortest first.
pub(crate) fn chosen(mut scripts: Vec<Script>, most: usize) -> Vec<Script> {
    scripts.retain(|script| script.txs > 0);
    scripts.sort_by(|a, b| (a.txs, &a.scripthash).cmp(&(b.txs, &b.scripthash)));
    let mut classes: BTreeMap<u64, Vec<Script>> = BTreeMap::new();
    for script in scripts {
        classes.entry(class(script.txs).0).or_default().push(script);
    }
    let some = |scripts: Vec<Script>| {
        let step = scripts.len().div_ceil(most.max(1));
        scripts.into_iter().step_by(step)
    };
    classes.into_values().flat_map(some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_each_class_are_chosen_from_all_over_it() {
        let script = |txs| Script { scripthash: format!("{txs:064x}"), txs };
        let scripts = (1..=100).chain([5000]).rev().map(script).collect();
        let txs: Vec<u64> = chosen(scripts, 3).into_iter().map(|script| script.txs).collect();
        assert_eq!(txs, [1, 2, 3, 4, 5, 7, 9, 10, 14, 18, 20, 30, 40, 50, 67, 84, 100, 5000]);
    }
}
