//! `birdhouse bench`: replaces this process with `birdhouse-bench`, which is a program of its own because a server
//! needs none of it.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Error, anyhow};

const PROGRAM: &str = "birdhouse-bench";

/// Runs the program in place of this one; returns only if that fails.
pub(crate) fn run(arguments: &[OsString]) -> Error {
    let this = match env::current_exe().context("failed to find the folder of this program") {
        Ok(this) => this,
        Err(error) => return error,
    };
    let program = this.with_file_name(PROGRAM);
    if !program.is_file() {
        let build = "build it with `cargo build --release -p birdhouse-bench` in the source";
        return anyhow!("failed to run {}: no such file; {build}", program.display());
    }
    Error::new(Command::new(&program).args(arguments).exec()).context(format!("failed to run {}", program.display()))
}
