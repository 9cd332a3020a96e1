//! `birdhouse bench`: becomes the program that measures. It is a program of its own because a server needs none of it.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Error, anyhow};

const PROGRAM: &str = "birdhouse-bench";

/// Does not come back, unless the program cannot be run.
pub(crate) fn run(arguments: &[OsString]) -> Error {
    let this = match env::current_exe().context("where is this program?") {
        Ok(this) => this,
        Err(error) => return error,
    };
    let program = this.with_file_name(PROGRAM);
    if !program.is_file() {
        let build = "in the source, `cargo build --release -p birdhouse-bench` makes it";
        return anyhow!("{} is not there: {build}", program.display());
    }
    Error::new(Command::new(&program).args(arguments).exec()).context(format!("run {}", program.display()))
}
