//! The folder of a relay: its program, its configuration, its events and its log.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use birdhouse_regtest::child_guard::Launch;

use crate::error::{Result, at};

/// A program and the folder that it runs in.
#[derive(Debug)]
pub(super) struct RelayFolder {
    pub(super) program: PathBuf,
    pub(super) path: PathBuf,
}

impl RelayFolder {
    /// Returns the folder of the events, which holds nothing else of size.
    pub(super) fn events_dir(&self) -> PathBuf {
        self.path.join("events")
    }

    /// Makes a command of the program with these arguments.
    pub(super) fn launch(&self, args: Vec<OsString>) -> Launch {
        Launch { program: self.program.clone(), args, envs: Vec::new(), log: self.path.join("log") }
    }

    /// Writes a configuration of lines `name = value`, which all relays read, and returns its path; names have dots.
    pub(super) fn configure(
        &self,
        name: &str,
        locations: &[(&str, String)],
        settings: &[(&str, &str)],
    ) -> Result<PathBuf> {
        let own = locations.iter().map(|(name, value)| (*name, value.as_str()));
        let text = own.chain(settings.iter().copied()).fold(String::new(), |mut text, (name, value)| {
            writeln!(text, "{name} = {value}").expect("writing to a string never fails");
            text
        });
        let path = self.path.join(name);
        fs::write(&path, text).map_err(at(&path))?;
        Ok(path)
    }
}

/// Quotes a path or a text as a value of a configuration.
pub(super) fn quoted(text: impl AsRef<Path>) -> String {
    format!("{:?}", text.as_ref().to_string_lossy())
}
