//! The binary `birdhouse`: reads the settings, connects the crates and runs one command.
//!
//! # Folders
//!
//! Each may use those above it, and the files beside them.
//!
//! | folder | what lives there |
//! |---|---|
//! | `process` | this process in its operating system: signals, systemd, limits, users, the log |
//! | `config` | settings and commands, from flags, variables and the configuration file; secrets |
//! | `sockets` | listeners, from settings to bound sockets, and their addresses for users and Tor |
//! | `storage` | the stores of index and events: files, or a cluster |
//! | `cluster` | more than one process: an index on a cluster, replicas, fronts of a relay |
//! | `index` | the index of the chain, its sources, and the list of derived indexes |
//! | `services` | the protocols that clients speak: Electrum, REST, Nostr |
//! | `operator` | the operator's tools: `birdhouse ctl`, dashboard, metrics, health, backups |
//! | `app` | the server: all parts that the settings enable |
//! | `commands` | one file for each command |
//! | `doctor` | `birdhouse doctor`: it looks for what is wrong |
//!
//! `manual` has the tests that compare the documentation with the settings.
#![forbid(unsafe_code)]

mod process;

mod config;

mod sockets;
mod storage;

mod cluster;
mod index;

mod operator;
mod services;

mod app;
mod commands;
mod doctor;

#[cfg(test)]
mod manual;

use std::process::ExitCode;

use anyhow::Result;
use birdhouse_mirror::Purpose;
use birdhouse_watch::channel::Clock;
use tikv_jemallocator::Jemalloc;

use crate::commands::Form;
#[cfg(feature = "demo")]
use crate::commands::demo::Lasting;
use crate::commands::import::Invalid;
use crate::commands::prune::Consent;
use crate::commands::verify::Blocks;
use crate::config::{Command, CommandLine, Given, MigrateCommand, Options, SyncRequest, secrets};
use crate::process::{Level, Signals, file_limit, log, private};

/// Short requests make many small allocations; long ones make a few of megabytes.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let (CommandLine { command }, given) = CommandLine::parse_or_exit();
    let can_diagnose = matches!(command, Command::Run { .. } | Command::Index { .. });
    match run(command, &given) {
        Ok(code) => code,
        Err(error) => {
            // The chain of causes in one line.
            eprintln!("birdhouse: {error:#}");
            if can_diagnose {
                eprintln!("birdhouse: `birdhouse doctor` with the same settings looks for the cause");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, given: &Given) -> Result<ExitCode> {
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    CommandLine::refuse_unknown_variables(variables)?;
    file_limit::raise();
    if !matches!(command, Command::Bench { .. } | Command::Man { .. }) {
        private::restrict_new_files();
    }
    let start = |options| start(options, given);
    let form = |json| if json { Form::Json } else { Form::Text };
    match command {
        Command::Run { options } => {
            // Before everything that may wait for a disk or the node: until then SIGHUP would end the process.
            let signals = Signals::watch()?;
            let flags = options.clone();
            let (options, level) = start(options)?;
            // A later reading takes the same file.
            commands::run::run(&signals, Options { config: options.config.clone(), ..flags }, &options, level)
        }
        Command::Index { options, json } => commands::index::run(&start(options)?.0, form(json)),
        Command::Verify { options, quick: true, .. } => commands::backup::check(&start(options)?.0),
        Command::Verify { options, from, to, all, quick: false } => {
            let blocks = if all { Blocks::All } else { Blocks::Between { from, to } };
            commands::verify::run(&start(options)?.0, blocks)
        }
        Command::Backup { options, folder } => commands::backup::back_up(&start(options)?.0, &folder),
        Command::Prune { options, keep, yes } => {
            let consent = if yes { Consent::Given } else { Consent::Asked };
            commands::prune::run(&start(options)?.0, keep, consent)
        }
        Command::Import { options, file, nostream, nostream_file, strict } => {
            let invalid = if strict { Invalid::Failure } else { Invalid::Skipped };
            let (options, _) = start(options)?;
            if let Some(file) = file {
                return commands::import::import(&options, &file, invalid);
            }
            let url = secrets::nostream(nostream, nostream_file.as_deref())?;
            commands::import::import_nostream(&options, &url, invalid)
        }
        Command::Export { options, file } => commands::import::export(&start(options)?.0, &file),
        Command::Sync { options, relay: url, dir, filter, since, until, print_missing, key_file, proxy } => {
            let (options, _) = start(options)?;
            let purpose = if print_missing { Purpose::List } else { Purpose::Transfer(dir.into()) };
            let now = Clock::system().now().as_secs();
            let [since, until] = [since, until].map(|moment| moment.map(|moment| moment.seconds(now)));
            commands::sync::run(&options, SyncRequest { url, purpose, filter, since, until, key_file, proxy })
        }
        Command::Migrate { from: MigrateCommand::StrfryRouter { file } } => commands::migrate::strfry_router(&file),
        Command::Connect { options, qr: true } => commands::connect::run_with_qr(&ask(options)?),
        Command::Connect { options, qr: false } => commands::connect::run(&ask(options)?),
        Command::Config { example: true, .. } => {
            print!("{}", config::example());
            Ok(ExitCode::SUCCESS)
        }
        Command::Config { options, example: false } => {
            let options = options.with_file()?;
            let settings = given.settings(options.config.as_deref())?;
            Ok(commands::config::run(&options, &settings))
        }
        Command::Doctor { options, json, checksums } => {
            log::start(Some("off"))?;
            let depth = if checksums { doctor::Depth::Checksums } else { doctor::Depth::Quick };
            doctor::run(&options, depth, form(json))
        }
        Command::Man { folder } => commands::man::run(&folder),
        Command::Bench { arguments } => Err(commands::bench::run(&arguments)),
        #[cfg(feature = "demo")]
        Command::Demo { once } => {
            let lasting = if once { Lasting::Requests } else { Lasting::UntilSignal };
            commands::demo::run(lasting, log::start(Some("warn"))?)
        }
        #[cfg(feature = "top")]
        Command::Top { options, once: true } => commands::top::print(&app::ctl_dir(&ask(options)?)?),
        #[cfg(feature = "top")]
        Command::Top { options, once: false } => commands::top::run(&app::ctl_dir(&ask(options)?)?),
        Command::Watch { options, command } => commands::watch::run(&ask(options)?, command),
        Command::Ctl { options, json, command } => {
            commands::ctl::run(&app::ctl_dir(&ask(options)?)?, &command, form(json))
        }
    }
}

/// Completes the settings of a command that logs nothing with those of the configuration file, and says which file that
/// is.
fn ask(options: Options) -> Result<Options> {
    let options = options.with_file()?;
    if let Some(file) = &options.config {
        eprintln!("birdhouse: settings of {}", file.display());
    }
    Ok(options)
}

/// Completes the settings with those of the configuration file, starts to log, and warns of settings that do nothing or
/// harm.
fn start(options: Options, given: &Given) -> Result<(Options, Level)> {
    let options = options.with_file()?;
    let level = log::start(options.log.as_deref())?;
    if let Some(file) = &options.config {
        tracing::info!(file = %file.display(), "read the configuration file");
    }
    for warning in options.warnings() {
        tracing::warn!("{warning}");
    }
    for flag in given.secrets_shown() {
        tracing::warn!(flag, "other users can read this value on the command line; use the file of the same name");
    }
    Ok((options, level))
}
