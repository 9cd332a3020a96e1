//! `birdhouse import` and `birdhouse export`: events as lines of JSON, one event a line, like the exports of strfry and
//! nak; and imports from the PostgreSQL database of a Nostream. Where a server runs, it stores and reads the events of
//! lines.
//!
//! An import can be run again: events that the relay has are skipped, so an interrupted import resumes where it was.

mod beside;
mod intake;
mod lines;
#[cfg(feature = "import-nostream")]
mod nostream;
mod output;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use birdhouse_events::{Events, Filter, Query};

use self::intake::Counts;
use crate::app;
use crate::config::Options;
use crate::operator::ctl;
use crate::operator::exchange::Imported;
use crate::process::users::OtherUser;
use crate::services::relay;

/// Events of one page, and bytes of JSON; its last event may go beyond.
const PAGE: usize = 1000;
const PAGE_BYTES: usize = 4 << 20;

/// Meaning of invalid events for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// They are counted.
    Skipped,
    /// The command fails, after it has imported the others.
    Failure,
}

/// Imports the events of a file.
pub(crate) fn import(options: &Options, file: &Path, invalid: Invalid) -> Result<ExitCode> {
    if let Some(dir) = app::relay_ctl_dir(options)? {
        let Imported { tally, invalid: found, events } = beside::import(&ctl::path(&dir), file)?;
        println!("{} events stored; skipped {} duplicates", tally.stored, tally.duplicates);
        for (reason, count) in &tally.refused_here.0 {
            println!("refused {count}: {reason}");
        }
        return Ok(ended(events, found, invalid));
    }
    OtherUser::refuse(&options.data_dir()?)?;
    let events = relay::events(options)?;
    Ok(report(lines::import(&events, file)?, &events, invalid))
}

/// Imports the events of a Nostream from the database at this URL.
#[cfg(feature = "import-nostream")]
pub(crate) fn import_nostream(options: &Options, url: &str, invalid: Invalid) -> Result<ExitCode> {
    OtherUser::refuse(&options.data_dir()?)?;
    // The database first: if that fails, no folder is created.
    let database = nostream::Database::open(url)?;
    let events = relay::events(options)?;
    Ok(report(database.import(&events)?, &events, invalid))
}

/// The error of a build that imports no Nostream.
#[cfg(not(feature = "import-nostream"))]
pub(crate) fn import_nostream(_: &Options, _: &str, _: Invalid) -> Result<ExitCode> {
    anyhow::bail!("failed to import a Nostream: this build cannot; build it with the feature `import-nostream`")
}

/// Prints the counts, and the number of events that the relay will show: a stored event may replace or delete others.
fn report(counts: Counts, events: &Events, invalid: Invalid) -> ExitCode {
    println!("{counts}");
    ended(events.live_events(), counts.invalid(), invalid)
}

/// Prints the number of events that the relay shows, and returns the code for a number of invalid ones.
fn ended(events: u64, found: u64, invalid: Invalid) -> ExitCode {
    println!("the relay has {events} events now");
    if found == 0 || invalid == Invalid::Skipped { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes all events, newest first.
pub(crate) fn export(options: &Options, file: &Path) -> Result<ExitCode> {
    let served = app::relay_ctl_dir(options)?;
    let events = if served.is_some() {
        None
    } else {
        OtherUser::refuse(&options.data_dir()?)?;
        Some(relay::existing_events(options)?)
    };
    output::write(file, |out| match (&served, &events) {
        (Some(dir), _) => beside::export(&ctl::path(dir), out),
        (None, Some(events)) => write_all(events, out),
        (None, None) => unreachable!("they are open where no server runs"),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all events of an open store.
fn write_all(events: &Events, out: &mut dyn Write) -> Result<()> {
    let filter = Filter::default();
    // Includes expired events that are not swept yet: an export is a copy.
    let query = Query { end: events.end(), ..Query::of(&filter) };
    let mut from = None;
    loop {
        let mut lines = Vec::new();
        let mut is_whole = true;
        from = events.page(query, from, PAGE, &mut |_, packed| {
            is_whole &= packed.write_json(&mut lines).is_some();
            lines.push(b'\n');
            if lines.len() < PAGE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        anyhow::ensure!(is_whole, "failed to read an event: it is damaged on disk");
        out.write_all(&lines).context("failed to write the events")?;
        if from.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};

    use super::*;

    pub(super) fn event(author: u8, kind: u16, second: u64) -> String {
        tagged(author, kind, second, Vec::new())
    }

    pub(super) fn tagged(author: u8, kind: u16, second: u64, tags: Vec<Tag>) -> String {
        let keys = Keys::from_secret([author; 32]).unwrap();
        let (created_at, kind) = (Timestamp(second), Kind(kind));
        UnsignedEvent { created_at, kind, tags, content: "ä\n\u{1}".to_owned() }.sign(&keys).to_json()
    }

    #[test]
    fn an_invalid_line_fails_the_command_only_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { data_dir: Some(folder.path().join("data")), ..Options::default() };
        let file = folder.path().join("events.jsonl");
        std::fs::write(&file, format!("{{}}\n{}\n", event(1, 1, 5))).unwrap();
        assert_eq!(import(&options, &file, Invalid::Skipped).unwrap(), ExitCode::SUCCESS);
        assert_eq!(import(&options, &file, Invalid::Failure).unwrap(), ExitCode::FAILURE);
        assert_eq!(relay::events(&options).unwrap().live_events(), 1);
        std::fs::write(&file, event(1, 1, 6)).unwrap();
        assert_eq!(import(&options, &file, Invalid::Failure).unwrap(), ExitCode::SUCCESS);
    }

    #[test]
    fn what_is_exported_is_imported_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Options { data_dir: Some(folder.path().join(name)), ..Options::default() };
        let file = folder.path().join("events.jsonl");
        let lines = [event(1, 1, 5), event(1, 0, 4), event(1, 0, 6), String::new(), event(2, 1, 7), event(1, 1, 5)];
        std::fs::write(&file, lines.join("\n")).unwrap();
        assert_eq!(import(&at("one"), &file, Invalid::Skipped).unwrap(), ExitCode::SUCCESS);
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        export(&at("one"), &first).unwrap();
        let exported = std::fs::read_to_string(&first).unwrap();
        assert_eq!(exported.lines().collect::<Vec<_>>(), [&*lines[4], &*lines[2], &*lines[0]]);
        import(&at("two"), &first, Invalid::Skipped).unwrap();
        import(&at("two"), &first, Invalid::Skipped).unwrap();
        export(&at("two"), &second).unwrap();
        assert_eq!(std::fs::read_to_string(&second).unwrap(), exported);
    }
}
