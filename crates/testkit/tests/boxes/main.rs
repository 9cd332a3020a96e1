//! Packages for node boxes (`contrib/boxes`) as a release has them: `scripts/release-files` fills in version, digest
//! and checksums, and each box's own tools accept the result.
//!
//! Tools come from Debian and npm (`scripts/prepare peers`). Where one is missing its test is left out. The settings in
//! these files are tested beside the server.
#![expect(clippy::unwrap_used, reason = "tests")]

mod release;
mod released;
mod startos;
mod tools;
mod umbrel;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file beside these tests.
fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boxes").join(name)
}

/// Returns `true` if a program is in `PATH`; else says which test is left out.
fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("LEFT OUT: {program} is not there; see scripts/prepare");
    }
    found
}

/// Returns the folder of the packages of npm, if they are there; else says what is left out.
fn packages() -> Option<PathBuf> {
    let cache = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache().or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let cached = cache.map(|cache| cache.join("birdhouse/box-checks-1/node_modules"));
    let found = std::env::var_os("BOX_CHECKS").map(PathBuf::from).or(cached).filter(|path| path.is_dir());
    if found.is_none() {
        eprintln!("LEFT OUT: the SDK of StartOS is not there; run `scripts/peers box-checks`");
    }
    found
}

/// All output of a command.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// Runs a command that must succeed; returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}
