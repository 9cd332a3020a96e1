//! Paths of the programs that tests and the demo run.

use std::env;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// The path below the user's cache folder where `scripts/bitcoind` puts the node it built.
const CACHED_BITCOIND: &str = "birdhouse/bitcoind-31.99/bin/bitcoind";

/// Returns the path of Bitcoin Core: `$BITCOIND`, else `bitcoind` in `PATH`, else the one that `scripts/bitcoind`
/// built.
///
/// # Errors
/// [`Error::Missing`] when there is none of the three.
pub fn find_bitcoind() -> Result<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&folders).map(|folder| folder.join("bitcoind")).find(|path| path.is_file());
    find_program("bitcoind", "BITCOIND", in_path, CACHED_BITCOIND, "scripts/bitcoind")
}

/// Returns the path that the environment variable `variable` names, else `other`, else `cached` below the user's cache
/// folder.
///
/// # Errors
/// [`Error::Missing`], naming `script`, when there is none of the three.
pub fn find_program(
    program: &'static str,
    variable: &'static str,
    other: Option<PathBuf>,
    cached: &str,
    script: &'static str,
) -> Result<PathBuf> {
    set(variable)
        .or(other)
        .or_else(|| cache_dir().map(|cache| cache.join(cached)).filter(|path| path.is_file()))
        .ok_or(Error::Missing { program, script, variable })
}

fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns `$XDG_CACHE_HOME`, else `~/.cache`.
fn cache_dir() -> Option<PathBuf> {
    set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))
}
