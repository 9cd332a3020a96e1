//! `unsafe` has homes in three crates: the page map of `store`, the SHA lanes and the prefetches of `chain` and the
//! field lanes of `silentpayments`. Every other crate forbids it, and SECURITY.md names each file.

use std::fs;

use crate::Finding;
use crate::source;

/// Crates with a file that needs `unsafe`.
const HOMES: &[&str] = &["store", "chain", "silentpayments"];

/// Roots of crates that do not say `forbid(unsafe_code)`.
pub(crate) fn unforbidden() -> Vec<Finding> {
    let is_root = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    source::rust()
        .into_iter()
        .filter(|file| is_root(&file.path) && !HOMES.contains(&file.krate.as_str()))
        .filter(|file| !file.code.contains("#![forbid(unsafe_code)]"))
        .map(|file| Finding {
            message: "say `#![forbid(unsafe_code)]`".to_owned(),
            krate: file.krate,
            file: file.path,
            line: 1,
        })
        .collect()
}

/// Files with `unsafe` that SECURITY.md does not name, and files that it names without need.
pub(crate) fn unnamed() -> Vec<Finding> {
    const PAGE: &str = "SECURITY.md";
    let page = fs::read_to_string(source::root().join(PAGE)).unwrap();
    let finding = |krate, file, message: &str| Finding { krate, file, line: 1, message: message.to_owned() };
    let of = |file: source::Rust| {
        let has_it = ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|form| file.code.contains(form));
        match (has_it, page.contains(&format!("`{}`", file.path))) {
            (true, false) => Some(finding(file.krate, file.path, "name this file in SECURITY.md: it has `unsafe`")),
            (false, true) => Some(finding(file.krate, file.path, "SECURITY.md says that this file has `unsafe`")),
            _ => None,
        }
    };
    source::rust().into_iter().filter_map(of).collect()
}
