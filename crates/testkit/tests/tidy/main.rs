//! Checks of the source tree that the compiler does not make: arrows between crates and between files, words, prose.
//!
//! Each check returns findings. The tests fail on any; `make tidy` prints them as `file:line: message`.
#![expect(clippy::unwrap_used, reason = "tests")]

mod circles;
mod crates;
mod pages;
mod prose;
mod signatures;
mod source;
mod unsafety;
mod words;

use std::fmt;

/// One violation of a rule, at one line.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// The folder under `crates`, or `.` for files outside.
    krate: String,
    /// The path from the root of the repository.
    file: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// A check by its name.
type Check = (&'static str, fn() -> Vec<Finding>);

const CHECKS: &[Check] = &[
    ("headless", prose::headless),
    ("phrase", prose::phrases),
    ("width", prose::width),
    ("word", words::refused),
    ("signature", signatures::unreadable),
    ("unsafe", unsafety::unforbidden),
    ("unsafe-file", unsafety::unnamed),
    ("link", pages::links),
    ("contents", pages::contents),
    ("make", pages::make),
    ("file", pages::files),
    ("setting", pages::settings),
    ("message", pages::messages),
];

/// Runs a check, which may find nothing.
fn enforce(name: &str) {
    let (_, check) = CHECKS.iter().find(|(known, _)| *known == name).unwrap();
    let findings: Vec<String> = check().iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn own_crates_depend_one_way() {
    crates::assert_arrows();
}

#[test]
fn bindings_stay_in_their_crates() {
    crates::assert_homes();
}

#[test]
fn files_form_layers() {
    let problems = circles::problems();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn all_crates_but_three_forbid_unsafe_code_and_its_files_are_named() {
    enforce("unsafe");
    enforce("unsafe-file");
}

#[test]
fn signatures_are_readable_at_the_call() {
    enforce("signature");
}

#[test]
fn identifiers_use_the_words_of_the_field() {
    enforce("word");
}

#[test]
fn summary_lines_have_a_subject() {
    enforce("headless");
}

#[test]
fn prose_avoids_empty_phrases() {
    enforce("phrase");
}

#[test]
fn prose_wraps_at_120_columns() {
    enforce("width");
}

#[test]
fn pages_name_files_settings_and_messages_that_exist() {
    for check in ["link", "contents", "make", "file", "setting", "message"] {
        enforce(check);
    }
}

/// Prints every finding. `TIDY=word,width` limits it to some checks, `CRATE=store` to one crate.
#[test]
#[ignore = "a report for `make tidy`, not a check"]
fn report() {
    let wanted = std::env::var("TIDY").unwrap_or_default();
    let krate = std::env::var("CRATE").unwrap_or_default();
    for problem in circles::all(&krate) {
        println!("{problem}");
    }
    for (name, check) in CHECKS {
        if wanted.is_empty() || wanted.split(',').any(|one| one == *name) {
            for finding in check().iter().filter(|finding| krate.is_empty() || finding.krate == krate) {
                println!("{finding} [{name}]");
            }
        }
    }
}
