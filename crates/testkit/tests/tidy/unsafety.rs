//! `unsafe` has three homes, the page map of `store`, the SHA lanes of `chain` and the field lanes of `silentpayments`;
//! every other crate forbids it.

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
