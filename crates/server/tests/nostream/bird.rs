//! The binary and the events of its relay.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use birdhouse_events::VerifiedEvent;
use tempfile::TempDir;

/// A data folder.
pub(crate) struct Bird(TempDir);

/// The outcome of an import.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) is_success: bool,
    /// Standard output.
    pub(crate) report: String,
    /// Standard error: log and error message.
    pub(crate) log: String,
}

impl Bird {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("birdhouse-nostream-").tempdir().unwrap())
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_birdhouse"));
        command.arg(name).arg("--data-dir").arg(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Imports from the database at this URL and waits for the end.
    pub(crate) fn import(&self, url: &str) -> Import {
        self.import_with(url, &[])
    }

    pub(crate) fn import_with(&self, url: &str, envs: &[(&str, PathBuf)]) -> Import {
        let mut command = self.command("import");
        let envs = envs.iter().map(|(name, value)| (*name, value));
        // The machine's setting may add trusted certificates.
        let command = command.arg("--nostream").arg(url).env_remove("SSL_CERT_DIR").envs(envs);
        Import::of(&command.output().unwrap())
    }

    /// Imports lines of JSON.
    pub(crate) fn import_lines(&self, events: &[&VerifiedEvent]) -> Import {
        let file = self.0.path().join("lines");
        std::fs::write(&file, events.iter().map(|event| event.to_json() + "\n").collect::<String>()).unwrap();
        Import::of(&self.command("import").arg(file).output().unwrap())
    }

    /// Starts an import. The caller must end it.
    pub(crate) fn begin_import(&self, url: &str) -> Child {
        let mut command = self.command("import");
        command.arg("--nostream").arg(url).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Returns the number of events in the relay's files.
    pub(crate) fn written(&self) -> u64 {
        let log = self.0.path().join("relay/arrays/event");
        std::fs::metadata(log).map_or(0, |file| file.len() / 48)
    }

    /// Returns all events of the relay.
    pub(crate) fn events(&self) -> BTreeSet<String> {
        let output = self.command("export").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), text.lines().count(), "each event once");
        lines
    }

    pub(crate) fn assert_has<'a>(&self, events: impl IntoIterator<Item = &'a VerifiedEvent>) {
        let (wanted, found) = (events.into_iter().map(|event| event.to_json()).collect::<BTreeSet<_>>(), self.events());
        let lost: Vec<_> = wanted.difference(&found).collect();
        let foreign: Vec<_> = found.difference(&wanted).collect();
        assert!(lost.is_empty() && foreign.is_empty(), "lost: {lost:?}\nforeign: {foreign:?}");
    }
}

impl Import {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { is_success: output.status.success(), report: text(&output.stdout), log: text(&output.stderr) }
    }

    /// Returns the number before these words in the report.
    pub(crate) fn count(&self, words: &str) -> u64 {
        let before = self.report.split_once(words).unwrap_or_else(|| panic!("no {words:?} in {self:?}")).0;
        before.trim_end().rsplit([' ', '(']).next().unwrap().parse().unwrap()
    }
}
