//! `birdhouse backup` and `birdhouse verify --quick`: by the running server, or by this process if none runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use serde::de::DeserializeOwned;

use crate::app;
use crate::commands::ctl::ask_at_length;
use crate::config::{ControlCommand, Options};
use crate::operator::{Answer, BackedUp, Checked, Pace, Part, Stores, check_is_new, ctl};
use crate::services::{blossom, relay};

/// File in the folder of every store.
const VERSION: &str = "VERSION";

/// Writes a data folder with the published state of index and relay.
pub(crate) fn back_up(options: &Options, folder: &Path) -> Result<ExitCode> {
    let folder = std::path::absolute(folder).with_context(|| format!("invalid folder {}", folder.display()))?;
    // The server may see another folder under this name.
    check_is_new(&folder)?;
    let done: BackedUp = match by_server(options, &ControlCommand::Backup { folder: folder.clone() })? {
        Some(done) => {
            check_is_here(options, &folder, &done)?;
            done
        }
        None => Stores::open(options)?.back_up(&folder, Pace::Full)?,
    };
    for part in Part::all() {
        match (done.parts.contains(&part), part) {
            (true, _) => println!("{}: backed up", part.name()),
            // One that is off is no news.
            (false, Part::Derived(_)) => {}
            (false, _) => println!("{}: nothing to back up", part.name()),
        }
    }
    if let Some(files) = done.media_files {
        println!("media store: backed up, {files} files");
        if done.media_missing > 0 {
            println!("media store: {} files are missing, and not in the backup", done.media_missing);
        }
    }
    println!("wrote {} and proved the checksums of {} bytes", folder.display(), done.proved_bytes);
    Ok(ExitCode::SUCCESS)
}

/// Checks that this process finds what the server has written.
///
/// # Errors
/// A part is missing, as where the unit of the server has `PrivateTmp=` and the folder lies in `/tmp`.
fn check_is_here(options: &Options, folder: &Path, done: &BackedUp) -> Result<()> {
    let mut written = Vec::new();
    for part in &done.parts {
        let inside = match part {
            Part::Index => PathBuf::from(app::network(options)?.to_string()),
            Part::Derived(name) => Path::new(&app::network(options)?.to_string()).join(name),
            Part::Relay => relay::FOLDER.into(),
        };
        written.push((part.name(), inside.join(VERSION)));
    }
    written.extend(done.media_files.map(|_| ("media store", blossom::FOLDER.into())));
    for (name, inside) in written {
        ensure!(
            folder.join(inside).exists(),
            "failed to find the backup: the server has written {folder}, and here is no {name} in it: the service has \
             a /tmp of its own (PrivateTmp=), or another root; choose a folder that both see, such as one in {}",
            options.data_dir()?.display(),
            folder = folder.display(),
        );
    }
    Ok(())
}

/// Proves the checksums of every file.
pub(crate) fn check(options: &Options) -> Result<ExitCode> {
    let Checked { bytes, damaged, places } = match by_server(options, &ControlCommand::Verify)? {
        Some(checked) => checked,
        None => Stores::open(options)?.check(Pace::Full)?,
    };
    println!("verified {bytes} bytes, {damaged} damaged places");
    for (_, place) in &places {
        println!("  {place}");
    }
    for part in Part::all().filter(|part| places.iter().any(|(damaged, _)| damaged == part)) {
        println!("{}: {}", part.name(), advice(part));
    }
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the remedy for damage of a part.
fn advice(part: Part) -> &'static str {
    match part {
        Part::Index => "restore a backup, or remove the index's folder and have it built anew",
        Part::Derived(_) => "remove its folder in that of the index, and it is made again",
        Part::Relay => "restore a backup, or export what can be read and import it into an empty folder",
    }
}

/// Has the running server do it; `None` if none runs.
pub(super) fn by_server<T: DeserializeOwned>(options: &Options, command: &ControlCommand) -> Result<Option<T>> {
    let dir = app::ctl_dir(options)?;
    if !ctl::is_served(&dir)? {
        return Ok(None);
    }
    match ask_at_length(&ctl::path(&dir), command)? {
        Answer::Ok(answer) => Ok(Some(serde_json::from_value(answer).context("failed to parse the server's answer")?)),
        Answer::Error(error) => bail!("{error}"),
    }
}
