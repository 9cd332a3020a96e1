//! Advice in messages names flags that the server has.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the text of every source file below `folder`.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(extension) if extension == "rs" => fs::read_to_string(&path).unwrap(),
        _ => String::new(),
    };
    entries.map(text).collect()
}

/// Returns the names of all `--flags` in `text`.
fn flags(text: &str) -> BTreeSet<&str> {
    text.split("--")
        .skip(1)
        .map(|rest| rest.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-').next().unwrap())
        .map(|flag| flag.trim_end_matches('-'))
        .filter(|flag| !flag.is_empty())
        .collect()
}

#[test]
fn flags_in_advice_exist() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (node, server) = (sources(&crates.join("node/src")), sources(&crates.join("server/src")));
    let advised = flags(&node);
    assert!(advised.contains("rpc-addr"), "{advised:?}");
    for flag in advised {
        let variable = format!("BIRDHOUSE_{}", flag.replace('-', "_").to_uppercase());
        assert!(server.contains(&format!("\"{variable}\"")), "advice names --{flag}, which the server lacks");
    }
}
