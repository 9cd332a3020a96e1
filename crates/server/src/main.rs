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
mod private;
mod progress;
mod relay;
mod relay_settings;
mod rest;
mod secrets;
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
    let (CommandLine { command }, secrets_shown) = CommandLine::parse_or_exit();
    match run(command, &secrets_shown) {
        Ok(code) => code,
        Err(error) => {
            // The chain of causes in one line.
            eprintln!("birdhouse: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, secrets_shown: &[&str]) -> Result<ExitCode> {
    usage::raise_file_limit();
    if !matches!(command, Command::Bench { .. }) {
        private::restrict_new_files();
    }
    let start = |options| start(options, secrets_shown);
    match command {
        Command::Run { options } => {
            let (options, level) = start(options)?;
            commands::run::run(&options, level)
        }
        Command::Index { options, json } => commands::index::run(&start(options)?.0, json),
        Command::Verify { options, from, to, all } => commands::verify::run(&start(options)?.0, from, to, all),
        Command::Import { options, file, nostream, nostream_file } => {
            let (options, _) = start(options)?;
            match file {
                Some(file) => commands::import::import(&options, &file),
                None => {
                    let url = secrets::nostream(nostream, nostream_file.as_deref())?;
                    commands::import::import_nostream(&options, &url)
                }
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

/// Completes the settings with those of the configuration file, starts to log, and warns of settings that do nothing or
/// harm.
fn start(options: Options, secrets_shown: &[&str]) -> Result<(Options, Level)> {
    let options = options.with_file()?;
    let level = log::start(options.log.as_deref())?;
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (variable, nearest) in CommandLine::unknown_variables(variables) {
        tracing::warn!(variable, nearest, "ignored an unknown environment variable");
    }
    for flag in secrets_shown {
        tracing::warn!(flag, "other users can read this secret on the command line; use the file of the same name");
    }
    Ok((options, level))
}
