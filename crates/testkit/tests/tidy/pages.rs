//! The manual agrees with the tree: links lead to pages and headings, the table of contents has every page, files and
//! targets of the Makefile that pages name exist, every setting has its line.
//!
//! The module `manual` of the crate `birdhouse` checks commands and settings on the pages: it has their definitions.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::Finding;
use crate::source;

/// Pages that name files of the past.
const HISTORICAL: &[&str] = &["docs/benchmarks-history.md", "CHANGELOG.md"];

/// The manual's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Links of Markdown pages that lead to no file of the repository, or to no heading of a page.
pub(crate) fn links() -> Vec<Finding> {
    let headings = headings();
    let mut findings = Vec::new();
    for (path, line, text) in lines() {
        for target in targets(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() { path.clone() } else { resolved(&path, file) };
            let has_heading = || headings.get(&to).is_none_or(|known| known.iter().any(|one| one == anchor));
            if !source::root().join(&to).exists() {
                findings.push(finding(&path, line, format!("no such file: {target}")));
            } else if !anchor.is_empty() && !has_heading() {
                findings.push(finding(&path, line, format!("no such heading: {target}")));
            }
        }
    }
    findings
}

/// Pages that the table of contents lacks.
pub(crate) fn contents() -> Vec<Finding> {
    let listed: Vec<String> = lines()
        .filter(|(path, ..)| path == SUMMARY)
        .flat_map(|(path, _, text)| targets(&text).map(|target| resolved(&path, target)).collect::<Vec<_>>())
        .collect();
    let is_page = |path: &str| !path.starts_with('.') && path != SUMMARY && is_markdown(path);
    let pages = source::pages().into_iter().map(|(path, _)| path).filter(|path| is_page(path));
    pages
        .filter(|path| !listed.contains(path))
        .map(|path| finding(SUMMARY, 1, format!("add a line for {path}")))
        .collect()
}

/// Commands `make TARGET` on pages whose target the Makefile lacks.
pub(crate) fn make() -> Vec<Finding> {
    let makefile = std::fs::read_to_string(source::root().join("Makefile")).unwrap();
    let known: Vec<&str> = makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let mut findings = Vec::new();
    for (path, line, text, in_code) in all_lines() {
        let code: Vec<&str> = if in_code { vec![&*text] } else { text.split('`').skip(1).step_by(2).collect() };
        for words in code.iter().map(|code| code.split_whitespace().collect::<Vec<_>>()) {
            for target in words.windows(2).filter(|pair| pair[0] == "make").map(|pair| pair[1]) {
                let is_name = target.chars().all(|char| char.is_ascii_lowercase() || char == '-');
                if is_name && !known.contains(&target) {
                    findings.push(finding(&path, line, format!("no such target: make {target}")));
                }
            }
        }
    }
    findings
}

/// Targets of a line's links within the repository.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

/// The path from the root of a file that a page names.
fn resolved(page: &str, file: &str) -> String {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.into_os_string().into_string().unwrap()
}

/// The anchors of each page, as GitHub and mdBook make them from its headings.
fn headings() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, _, text) in lines() {
        let anchors = found.entry(path).or_default();
        if let Some(heading) = text.strip_prefix('#') {
            let anchor = anchor(heading.trim_start_matches('#').trim());
            let same = anchors.iter().filter(|one| **one == anchor).count();
            anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
        }
    }
    found
}

/// The anchor of a heading: its letters, digits, `_` and `-` in lower case, with `-` for each space.
fn anchor(heading: &str) -> String {
    let kept = |char: &char| char.is_alphanumeric() || "_- ".contains(*char);
    heading.to_lowercase().chars().filter(kept).map(|char| if char == ' ' { '-' } else { char }).collect()
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

/// Messages in the tables of `docs/troubleshooting.md` that no source file of a shipped crate contains. `..` stands for
/// any text.
pub(crate) fn messages() -> Vec<Finding> {
    let sources: Vec<_> = source::rust().into_iter().filter(|file| file.path.contains("/src/")).collect();
    let is_said = |part: &str| sources.iter().any(|file| file.text.contains(part.trim()));
    let mut findings = Vec::new();
    for (path, line, text) in lines().filter(|(path, ..)| path == "docs/troubleshooting.md") {
        let Some(message) = text.strip_prefix("| `").and_then(|rest| rest.split('`').next()) else { continue };
        for part in message.split("..").filter(|part| !is_said(part)) {
            findings.push(finding(&path, line, format!("no crate says `{part}`")));
        }
    }
    findings
}

/// Lines of the Markdown pages outside code blocks: path, number from 1, text.
fn lines() -> impl Iterator<Item = (String, usize, String)> {
    all_lines().filter(|(.., in_code)| !in_code).map(|(path, line, text, _)| (path, line, text))
}

/// Lines of the Markdown pages: path, number from 1, text, and true in a code block and at its ends.
fn all_lines() -> impl Iterator<Item = (String, usize, String, bool)> {
    source::pages().into_iter().filter(|(path, _)| is_markdown(path)).flat_map(|(path, text)| {
        let mut in_code = false;
        let mut found = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            found.push((path.clone(), at + 1, line.to_owned(), in_code || is_fence));
        }
        found
    })
}

fn is_markdown(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

fn finding(path: &str, line: usize, message: String) -> Finding {
    Finding { krate: ".".to_owned(), file: path.to_owned(), line, message }
}

#[test]
fn anchors_are_those_of_the_readers() {
    assert_eq!(anchor("The REST API, `/v1` (mempool's)"), "the-rest-api-v1-mempools");
    assert_eq!(resolved("docs/a.md", "../README.md"), "README.md");
    assert_eq!(resolved("docs/a.md", "b.md"), "docs/b.md");
}
