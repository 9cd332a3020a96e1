//! The binary `birdhouse`: reads the configuration, wires the crates together, and runs one command.

mod commands;
mod config;
mod listeners;
mod progress;
mod setup;
mod shutdown;
mod usage;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::config::{Command, CommandLine};

fn main() -> ExitCode {
    match run(CommandLine::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // The chain of causes in one line: what failed, and why.
            eprintln!("birdhouse: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    usage::raise_file_limit();
    match command {
        Command::Run { options } => {
            let options = options.with_file()?;
            start_log(options.log.as_deref())?;
            commands::run::run(&options)
        }
        Command::Index { options, json } => {
            let options = options.with_file()?;
            start_log(options.log.as_deref())?;
            commands::index::run(&options, json)
        }
        Command::Verify { options, from, to, all } => {
            let options = options.with_file()?;
            start_log(options.log.as_deref())?;
            commands::verify::run(&options, from, to, all)
        }
        Command::Demo { once } => {
            start_log(Some("warn"))?;
            commands::demo::run(once)
        }
    }
}

/// Logs go to standard error; standard output is for answers.
fn start_log(level: Option<&str>) -> Result<()> {
    let filter = EnvFilter::try_new(level.unwrap_or("info"))?;
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    Ok(())
}
