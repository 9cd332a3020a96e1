//! The manual agrees with the tree: links lead to files, files that pages name exist, every setting has its line.

use std::path::Path;

use crate::Finding;
use crate::source;

/// Pages that name files of the past.
const HISTORICAL: &[&str] = &["docs/benchmarks-history.md", "CHANGELOG.md"];

/// Links of Markdown pages that lead to no file of the repository.
pub(crate) fn links() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, line, text) in lines() {
        let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or("");
            let is_local = !file.is_empty() && !file.contains(':');
            if is_local && !source::root().join(folder).join(file).exists() {
                findings.push(finding(&path, line, format!("no such file: {target}")));
            }
        }
    }
    findings
}

/// Rust files in backquotes that no folder of the repository has.
pub(crate) fn files() -> Vec<Finding> {
    let known: Vec<String> = source::rust().into_iter().map(|file| format!("/{}", file.path)).collect();
    let mut findings = Vec::new();
    for (path, line, text) in lines().filter(|(path, ..)| !HISTORICAL.contains(&path.as_str())) {
        for name in text.split('`').skip(1).step_by(2).filter(|name| is_rust_file(name)) {
            if !known.iter().any(|file| file.ends_with(&format!("/{name}"))) {
                findings.push(finding(&path, line, format!("no such file: {name}")));
            }
        }
    }
    findings
}

fn is_rust_file(name: &str) -> bool {
    let is_path = name.chars().all(|char| char.is_ascii_alphanumeric() || "_-/.".contains(char));
    is_path && name.len() > 3 && Path::new(name).extension().is_some_and(|extension| extension == "rs")
}

/// Settings of the server that `docs/settings.md` does not explain.
pub(crate) fn settings() -> Vec<Finding> {
    let page = "docs/settings.md";
    let manual = std::fs::read_to_string(source::root().join(page)).unwrap();
    let mut findings = Vec::new();
    for file in source::rust().iter().filter(|file| file.path.starts_with("crates/server/src/")) {
        for name in file.text.split("env = \"BIRDHOUSE_").skip(1).filter_map(|rest| rest.split('"').next()) {
            let setting = name.to_lowercase().replace('_', "-");
            if !manual.contains(&format!("`{setting}`")) {
                findings.push(finding(page, 1, format!("explain `{setting}` of {}", file.path)));
            }
        }
    }
    findings
}

/// Messages in the table "Troubleshooting" of README.md that no source file of a shipped crate contains.
pub(crate) fn messages() -> Vec<Finding> {
    let sources: Vec<_> = source::rust().into_iter().filter(|file| file.path.contains("/src/")).collect();
    let mut findings = Vec::new();
    let after = lines().filter(|(path, ..)| path == "README.md").skip_while(|(.., text)| text != "## Troubleshooting");
    for (path, line, text) in after.skip(1).take_while(|(.., text)| !text.starts_with("## ")) {
        let Some(message) = text.strip_prefix("| `").and_then(|rest| rest.split('`').next()) else { continue };
        if !sources.iter().any(|file| file.text.contains(message)) {
            findings.push(finding(&path, line, format!("no crate says `{message}`")));
        }
    }
    findings
}

/// Lines of the Markdown pages outside code blocks: path, number from 1, text.
fn lines() -> impl Iterator<Item = (String, usize, String)> {
    source::pages().into_iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|it| it == "md")).flat_map(
        |(path, text)| {
            let mut in_code = false;
            let mut found = Vec::new();
            for (at, line) in text.lines().enumerate() {
                in_code ^= line.trim_start().starts_with("```");
                if !in_code {
                    found.push((path.clone(), at + 1, line.to_owned()));
                }
            }
            found
        },
    )
}

fn finding(path: &str, line: usize, message: String) -> Finding {
    Finding { krate: ".".to_owned(), file: path.to_owned(), line, message }
}
