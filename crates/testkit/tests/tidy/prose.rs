//! Prose that a machine can judge: openings of summary lines, empty phrases, the width of lines. The rules are in
//! STYLE.md.

use std::path::Path;

use crate::Finding;
use crate::source::{self, Rust};

/// Words that open a summary line without a subject.
const HEADLESS: &[&str] = &["What", "Who", "Whether", "How", "Tells", "Says", "See the module", "See the file"];

/// Phrases that hide the subject or the number.
const PHRASES: &[&str] = &[
    "so many",
    "is told",
    "are told",
    "is looked at",
    "are looked at",
    "See the module",
    "See the file's description",
];

/// Columns of a line of prose.
const WIDTH: usize = 120;

/// Pages that name the phrases in order to refuse them.
const QUOTING: &[&str] = &["STYLE.md"];

/// Doc comments whose first line opens without a subject.
pub(crate) fn headless() -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in source::rust() {
        for (line, text) in summaries(file.comments()) {
            if let Some(word) = HEADLESS.iter().find(|&&word| opens(text, word)) {
                findings.push(at(&file, line, format!("summary line opens with `{word}`: {text}")));
            }
        }
    }
    findings
}

/// The first line of each doc comment, of items and of modules, without its slashes.
fn summaries<'a>(comments: impl Iterator<Item = (usize, &'a str)>) -> impl Iterator<Item = (usize, &'a str)> {
    let docs = comments.filter_map(|(line, text)| {
        let text = text.trim_start();
        let (sort, text) = text.split_at_checked("///".len()).filter(|(sort, _)| ["///", "//!"].contains(sort))?;
        Some((line, sort, text.trim_start()))
    });
    let mut last = None;
    docs.filter_map(move |(line, sort, text)| {
        let is_first = last.replace((line, sort)) != Some((line - 1, sort));
        is_first.then_some((line, text))
    })
}

/// True if a text begins with a word and not only with its letters.
fn opens(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Comments and pages with a phrase of the list.
pub(crate) fn phrases() -> Vec<Finding> {
    let phrase = |text: &str| PHRASES.iter().find(|phrase| text.contains(**phrase));
    let mut findings = Vec::new();
    for file in source::rust() {
        for (line, text) in file.comments() {
            if let Some(phrase) = phrase(text) {
                findings.push(at(&file, line, format!("`{phrase}`: {}", text.trim())));
            }
        }
    }
    for (path, text) in source::pages() {
        if QUOTING.contains(&path.as_str()) {
            continue;
        }
        for (line, text) in text.lines().enumerate() {
            if let Some(phrase) = phrase(text) {
                findings.push(on_page(&path, line + 1, format!("`{phrase}`: {text}")));
            }
        }
    }
    findings
}

/// Lines of prose beyond 120 columns. Tables, code blocks and lines that hold a single long word are free.
pub(crate) fn width() -> Vec<Finding> {
    let too_wide = |text: &str| text.chars().count() > WIDTH && text.trim().contains(' ');
    let mut findings = Vec::new();
    for file in source::rust() {
        for (line, text) in file.comments().filter(|(_, text)| too_wide(text) && !text.contains("//! |")) {
            findings.push(at(&file, line, format!("{} columns", text.chars().count())));
        }
    }
    for (path, text) in source::pages() {
        let is_markdown = Path::new(&path).extension().is_some_and(|extension| extension == "md");
        let mut in_code = false;
        for (line, text) in text.lines().enumerate() {
            in_code ^= is_markdown && text.trim_start().starts_with("```");
            let is_prose = if is_markdown { !in_code && !text.starts_with('|') } else { text.starts_with('#') };
            if is_prose && too_wide(text) {
                findings.push(on_page(&path, line + 1, format!("{} columns", text.chars().count())));
            }
        }
    }
    findings
}

fn at(file: &Rust, line: usize, message: String) -> Finding {
    Finding { krate: file.krate.clone(), file: file.path.clone(), line, message }
}

fn on_page(path: &str, line: usize, message: String) -> Finding {
    Finding { krate: ".".to_owned(), file: path.to_owned(), line, message }
}

#[test]
fn a_summary_is_the_first_line_of_a_module_or_an_item() {
    let text = "//! Module.\n//! More.\n/// Item.\n/// More.\n\n/// Next.\n// No.";
    let comments = text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.is_empty());
    assert!(summaries(comments).eq([(1, "Module."), (3, "Item."), (6, "Next.")]));
}

#[test]
fn an_opening_is_a_whole_word() {
    assert!(opens("What is judged by.", "What") && opens("Who, if any", "Who"));
    assert!(!opens("Whole messages.", "Who") && !opens("Returns what", "What"));
}
