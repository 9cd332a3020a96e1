//! The binary `birdhouse`: reads the settings, connects the crates and runs one command.
#![forbid(unsafe_code)]

mod accept;
mod app;
mod commands;
mod config;
mod control;
mod ctl;
mod health;
mod listeners;
mod log;
#[cfg(test)]
mod manual;
mod metrics;
mod node_watch;
mod ops;
mod progress;
mod relay;
mod relay_settings;
mod rest;
mod setup;
mod shutdown;
mod systemd;
mod usage;

use std::process::ExitCode;

use anyhow::Result;
use tikv_jemallocator::Jemalloc;

use crate::config::{Command, CommandLine, Options};
use crate::log::Level;

/// Short requests make many small allocations; long ones make a few of megabytes.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    match run(CommandLine::parse_or_exit().command) {
        Ok(code) => code,
        Err(error) => {
            // The chain of causes in one line.
            eprintln!("birdhouse: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    usage::raise_file_limit();
    match command {
        Command::Run { options } => {
            let (options, level) = start(options)?;
            commands::run::run(&options, level)
        }
        Command::Index { options, json } => commands::index::run(&start(options)?.0, json),
        Command::Verify { options, from, to, all } => commands::verify::run(&start(options)?.0, from, to, all),
        Command::Import { options, file, nostream } => {
            let (options, _) = start(options)?;
            match (file, nostream) {
                (Some(file), _) => commands::import::import(&options, &file),
                (None, url) => commands::import::import_nostream(&options, &url.unwrap_or_default()),
            }
        }
        Command::Export { options, file } => commands::import::export(&start(options)?.0, &file),
        Command::Bench { arguments } => Err(commands::bench::run(&arguments)),
        Command::Demo { once } => commands::demo::run(once, log::start(Some("warn"))?),
        Command::Ctl { options, json, command } => {
            let options = options.with_file()?;
            let form = if json { commands::ctl::Form::Json } else { commands::ctl::Form::Text };
            commands::ctl::run(&app::ctl_dir(&options)?, &command, form)
        }
    }
}

/// Completes the settings with those of the configuration file, and starts to log.
fn start(options: Options) -> Result<(Options, Level)> {
    let options = options.with_file()?;
    let level = log::start(options.log.as_deref())?;
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (variable, nearest) in CommandLine::unknown_variables(variables) {
        tracing::warn!(variable, nearest, "ignored an unknown environment variable");
    }
    Ok((options, level))
}
