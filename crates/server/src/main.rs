//! The binary `birdhouse`: reads the configuration, wires the crates together, and runs one command.

mod accept;
mod commands;
mod config;
mod control;
mod ctl;
mod health;
mod house;
mod listeners;
mod log;
#[cfg(test)]
mod manual;
mod metrics;
mod node_watch;
mod ops;
mod progress;
mod relay;
mod relay_options;
mod setup;
mod shutdown;
mod systemd;
mod usage;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use tikv_jemallocator::Jemalloc;

use crate::config::{Command, CommandLine};

/// Short requests are many small allocations, in Rust and in RocksDB; long ones are a few of megabytes.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

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
            let level = log::start(options.log.as_deref())?;
            commands::run::run(&options, level)
        }
        Command::Index { options, json } => {
            let options = options.with_file()?;
            log::start(options.log.as_deref())?;
            commands::index::run(&options, json)
        }
        Command::Verify { options, from, to, all } => {
            let options = options.with_file()?;
            log::start(options.log.as_deref())?;
            commands::verify::run(&options, from, to, all)
        }
        Command::Import { options, file, nostream } => {
            let options = options.with_file()?;
            log::start(options.log.as_deref())?;
            match (file, nostream) {
                (Some(file), _) => commands::import::import(&options, &file),
                (None, url) => commands::import::import_nostream(&options, &url.unwrap_or_default()),
            }
        }
        Command::Export { options, file } => {
            let options = options.with_file()?;
            log::start(options.log.as_deref())?;
            commands::import::export(&options, &file)
        }
        Command::Bench { arguments } => Err(commands::bench::run(&arguments)),
        Command::Demo { once } => {
            let level = log::start(Some("warn"))?;
            commands::demo::run(once, level)
        }
        Command::Ctl { options, json, command } => {
            let options = options.with_file()?;
            let form = if json { commands::ctl::Form::Json } else { commands::ctl::Form::Text };
            commands::ctl::run(&house::ctl_dir(&options)?, &command, form)
        }
    }
}
