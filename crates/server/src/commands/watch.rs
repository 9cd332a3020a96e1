//! `birdhouse watch`: changes the watch file, and asks a running server what it knows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use birdhouse_watch::channel::Clock;
use birdhouse_watch::{NewWatch, WatchFile};
use serde_json::Value;

use super::Form;
use super::ctl;
use crate::app;
use crate::config::{ControlCommand, Options, WatchCommand};
use crate::operator::{Answer, watch_text};
use crate::process::users::OtherUser;

pub(crate) fn run(options: &Options, command: WatchCommand) -> Result<ExitCode> {
    let folder = app::ctl_dir(options)?;
    let ask = |command: &ControlCommand, form| ctl::run(&folder, command, form);
    match command {
        WatchCommand::List { json: true } => ask(&ControlCommand::Watches, Form::Json),
        WatchCommand::List { json: false } => list(&folder),
        WatchCommand::Notices { from, count } => notices(&folder, from, count),
        WatchCommand::Test { channel } => ask(&ControlCommand::TestChannel { channel }, Form::Text),
        WatchCommand::Export => export(options),
        WatchCommand::Add { name, source, channels, confirmations, cold } => {
            let network = app::network(options)?;
            let new = NewWatch { name, source: read_source(source)?, channels, confirmations, is_cold: cold };
            let path = own_file(options)?;
            WatchFile::add(&path, &new, network)?;
            println!("added the watch to {}", path.display());
            reload(&folder)
        }
        WatchCommand::Remove { name } => {
            let path = own_file(options)?;
            if !WatchFile::remove(&path, &name, app::network(options)?)? {
                bail!("{} has no watch with the name {name:?}", path.display());
            }
            println!("removed the watch from {}", path.display());
            reload(&folder)
        }
    }
}

/// Returns the path of the watch file, which the change replaces by one of this user.
fn own_file(options: &Options) -> Result<PathBuf> {
    let (path, data_dir) = (options.watch_file()?, options.data_dir()?);
    if path.parent() == Some(&data_dir) {
        OtherUser::refuse(&data_dir)?;
    }
    Ok(path)
}

/// Returns the source; `-` is a line of standard input. Others see the arguments of a program, so a scan key must come
/// that way.
fn read_source(source: String) -> Result<String> {
    if source == "-" {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        return Ok(line.trim().to_owned());
    }
    if source.contains("spscan1") || source.contains("spspend1") {
        bail!("other users see the arguments of a program: give - and write the key to standard input");
    }
    Ok(source)
}

fn reload(folder: &Path) -> Result<ExitCode> {
    if crate::operator::ctl::is_served(folder)? {
        return ctl::run(folder, &ControlCommand::ReloadWatches, Form::Text);
    }
    println!("no server runs; the next one takes it up");
    Ok(ExitCode::SUCCESS)
}

fn list(folder: &Path) -> Result<ExitCode> {
    print!("{}", watch_text::text(answer(folder, &ControlCommand::Watches)?, Clock::system().now().as_secs()));
    Ok(ExitCode::SUCCESS)
}

fn notices(folder: &Path, from: Option<u64>, count: u32) -> Result<ExitCode> {
    let notices = answer(folder, &ControlCommand::Notices { from, count })?;
    for notice in notices.as_array().into_iter().flatten() {
        println!("{notice}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the running server.
fn answer(folder: &Path, command: &ControlCommand) -> Result<Value> {
    match ctl::ask(&crate::operator::ctl::path(folder), command)? {
        Answer::Ok(answer) => Ok(answer),
        Answer::Error(error) => bail!(error),
    }
}

fn export(options: &Options) -> Result<ExitCode> {
    let path = options.watch_file()?;
    match WatchFile::read(&path, app::network(options)?)? {
        None => bail!("there is no watch file {}", path.display()),
        // Checked by reading it; the text has the comments, too.
        Some(_) => print!("{}", std::fs::read_to_string(&path)?),
    }
    Ok(ExitCode::SUCCESS)
}
