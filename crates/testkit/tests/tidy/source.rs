//! The source tree as the checks see it: Rust files with comments and strings told apart from code, and pages of prose.

use std::fs;
use std::path::{Path, PathBuf};

/// Stands in [`Rust::code`] for each character of a comment.
pub(crate) const COMMENT: char = '\u{1}';
/// Stands in [`Rust::code`] for each character of a string or character literal, but for its quotes.
const LITERAL: char = '\u{2}';

/// A Rust file.
#[derive(Debug)]
pub(crate) struct Rust {
    /// The folder under `crates`, or `.`.
    pub(crate) krate: String,
    /// The path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked: the same number of characters and lines.
    pub(crate) code: String,
}

impl Rust {
    fn new(krate: &str, path: String, text: String) -> Self {
        let code = mask(&text);
        Self { krate: krate.to_owned(), path, text, code }
    }

    /// Lines that hold nothing but a comment, with their numbers from 1.
    pub(crate) fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().zip(self.code.lines()).enumerate();
        let only_comment = |code: &str| code.trim_start().starts_with(COMMENT);
        lines.filter(move |(_, (_, code))| only_comment(code)).map(|(at, (text, _))| (at + 1, text))
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Names of the folders under `crates`, sorted.
pub(crate) fn crates() -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Every Rust file of the repository.
pub(crate) fn rust() -> Vec<Rust> {
    let mut files = Vec::new();
    for krate in crates() {
        read(&krate, &format!("crates/{krate}"), &mut files);
    }
    for folder in ["fuzz/fuzz_targets"] {
        if root().join(folder).exists() {
            read(".", folder, &mut files);
        }
    }
    files
}

fn read(krate: &str, folder: &str, files: &mut Vec<Rust>) {
    for path in paths(folder, "rs") {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        files.push(Rust::new(krate, path, text));
    }
}

/// Pages of prose: Markdown outside `crates`, scripts, `Makefile` and `Cargo.toml`, as path and text.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut found: Vec<String> = Vec::new();
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    found.extend(entries.filter(|name| is_page(name)));
    found.extend(paths("docs", "md"));
    found.extend(paths("scripts", ""));
    if root().join(".github").exists() {
        found.extend(paths(".github", ""));
    }
    found.sort();
    found.into_iter().map(|path| (fs::read_to_string(root().join(&path)).unwrap(), path)).map(|(a, b)| (b, a)).collect()
}

fn is_page(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md") || ["Makefile", "Cargo.toml"].contains(&name)
}

/// Files below a folder with an extension, or all of them for an empty one, as paths from the root, sorted.
fn paths(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if extension.is_empty() || path.extension().is_some_and(|found| found == extension) {
                found.push(path.into_os_string().into_string().unwrap());
            }
        }
    }
    found.sort();
    found
}

/// The text with comments and literals blanked, character by character; newlines stay.
fn mask(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut masked = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        let (len, with) = token(&chars, at);
        let keeps_quotes = with == LITERAL;
        for offset in 0..len {
            let char = chars[at + offset];
            let kept = char == '\n' || with == ' ' || (keeps_quotes && (offset == 0 || offset + 1 == len));
            masked.push(if kept { char } else { with });
        }
        at += len;
    }
    masked.into_iter().collect()
}

/// The length of what begins at a position, and the character that blanks it: a space for code, which stays.
fn token(chars: &[char], at: usize) -> (usize, char) {
    let rest = &chars[at..];
    let starts = |text: &str| text.chars().zip(rest).filter(|(a, b)| a == *b).count() == text.len();
    let is_word = |char: &char| char.is_alphanumeric() || *char == '_';
    if starts("//") {
        (rest.iter().position(|char| *char == '\n').unwrap_or(rest.len()), COMMENT)
    } else if starts("/*") {
        let end = (2..rest.len()).find(|&end| rest[end - 1] == '*' && rest[end] == '/');
        (end.map_or(rest.len(), |end| end + 1), COMMENT)
    } else if rest[0] == '"' {
        (quoted(rest, '"'), LITERAL)
    } else if rest[0] == '\'' && (rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')) {
        (quoted(rest, '\''), LITERAL)
    } else if is_word(&rest[0]) {
        let word = rest.iter().take_while(|char| is_word(char)).count();
        let raw = matches!(rest[..word], ['r'] | ['b' | 'c', 'r']);
        let hashes = rest[word..].iter().take_while(|char| **char == '#').count();
        if raw && rest.get(word + hashes) == Some(&'"') {
            let body = word + hashes + 1;
            let is_end = |end: usize| {
                rest[end] == '"' && rest[end + 1..].iter().take(hashes).filter(|char| **char == '#').count() == hashes
            };
            let end = (body..rest.len()).find(|&end| is_end(end));
            (end.map_or(rest.len(), |end| end + 1 + hashes), LITERAL)
        } else {
            (word, ' ')
        }
    } else {
        (1, ' ')
    }
}

/// The length of a literal with its quotes.
fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

#[test]
fn comments_and_literals_are_blanked() {
    let text = "let a = \"// no\"; // yes\nlet b: &'a str = r#\"x\"y\"#; let c = '\"'; /* z */ d";
    let code = mask(text);
    assert_eq!(code.chars().count(), text.chars().count());
    let shown: String = code.chars().map(|char| if char == COMMENT { '/' } else { char }).collect();
    let shown = shown.replace(LITERAL, "_");
    assert_eq!(
        shown,
        "let a = \"_____\"; //////\nlet b: &'a str = r_____\"#; let c = '_'; /////// d"
            .replace("r_____\"#", "r______#")
    );
}
