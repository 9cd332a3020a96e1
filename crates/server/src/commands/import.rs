//! `birdhouse import` and `birdhouse export`: the relay's events as lines of JSON, one event a line, as strfry and nak have them.
//!
//! An import can be run again: what is there is not taken twice, so one that was cut off goes on where it was.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, Result};
use birdhouse_events::{Accepted, Audience, Event, Events, Filter, KindClass, Query, VerifiedEvent};
use indicatif::{ProgressBar, ProgressStyle};
use tracing::warn;

use crate::config::Options;
use crate::relay;

/// Lines that are verified side by side, and made durable together.
const LINES: usize = 4096;
/// Lines that are no events of which the log says why; the others are only counted.
const EXPLAINED: u64 = 10;
/// Events of one page.
const PAGE: usize = 1000;
/// What stands for standard input and output.
const STANDARD: &str = "-";

/// What became of the lines.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    stored: u64,
    duplicates: u64,
    superseded: u64,
    deleted: u64,
    refused: u64,
}

/// Takes in the events of a file.
pub(crate) fn import(options: &Options, file: &Path) -> Result<ExitCode> {
    let events = relay::events(options)?;
    let (lines, bytes): (Box<dyn BufRead>, u64) = if file == Path::new(STANDARD) {
        (Box::new(std::io::stdin().lock()), 0)
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
        let bytes = opened.metadata()?.len();
        (Box::new(BufReader::with_capacity(1 << 20, opened)), bytes)
    };
    let style = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    let bar = ProgressBar::new(bytes).with_style(ProgressStyle::with_template(style)?);
    let counts = take_in(&events, lines, &bar)?;
    bar.finish_and_clear();
    println!(
        "{} events stored; {} were there, {} have newer versions, {} are deleted, {} lines are no valid events",
        counts.stored, counts.duplicates, counts.superseded, counts.deleted, counts.refused
    );
    Ok(if counts.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn take_in(events: &Events, mut lines: impl BufRead, bar: &ProgressBar) -> Result<Counts> {
    let (mut counts, mut number) = (Counts::default(), 0);
    loop {
        let some = next_lines(&mut lines).with_context(|| format!("after line {number}"))?;
        if some.is_empty() {
            return Ok(counts);
        }
        let verified = verify(&some);
        for (place, event) in verified.iter().enumerate() {
            if let Err(reason) = event {
                counts.refused += 1;
                if counts.refused <= EXPLAINED {
                    warn!(line = number + place as u64 + 1, reason, "no valid event");
                }
            }
        }
        let kept: Vec<&VerifiedEvent> = verified.iter().flatten().collect();
        for outcome in events.accept(&kept)? {
            *match outcome {
                Accepted::Stored(_) => &mut counts.stored,
                Accepted::Duplicate => &mut counts.duplicates,
                Accepted::Superseded => &mut counts.superseded,
                Accepted::Deleted => &mut counts.deleted,
            } += 1;
        }
        while events.tend()? {}
        number += some.len() as u64;
        bar.inc(some.iter().map(|line| line.len() as u64 + 1).sum());
        bar.set_message(format!("{} events", counts.stored));
    }
}

fn next_lines(lines: &mut impl BufRead) -> Result<Vec<String>> {
    let mut some = Vec::new();
    while some.len() < LINES {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            break;
        }
        let line = line.trim_end();
        if !line.is_empty() {
            some.push(line.to_owned());
        }
    }
    Ok(some)
}

/// The events of these lines, or why they are none. Signatures cost most: every processor checks its part.
fn verify(lines: &[String]) -> Vec<Result<VerifiedEvent, String>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let parts = lines.chunks(lines.len().div_ceil(processors).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| part.iter().map(|line| one(line)).collect())).collect();
        let verified = threads.into_iter().map(|thread| thread.join().expect("verifying never panics"));
        verified.collect::<Vec<Vec<_>>>().into_iter().flatten().collect()
    })
}

fn one(line: &str) -> Result<VerifiedEvent, String> {
    let event = Event::from_json(line).map_err(|malformed| malformed.rejection.to_string())?;
    if event.kind.class() == KindClass::Ephemeral {
        return Err("ephemeral events are not kept".to_owned());
    }
    event.verify().map_err(|rejection| rejection.to_string())
}

/// Writes all events that can be found, the newest first.
pub(crate) fn export(options: &Options, file: &Path) -> Result<ExitCode> {
    let events = relay::events(options)?;
    let out: Box<dyn Write> = if file == Path::new(STANDARD) {
        Box::new(std::io::stdout().lock())
    } else {
        Box::new(File::create(file).with_context(|| format!("cannot write {}", file.display()))?)
    };
    let mut out = BufWriter::new(out);
    let filter = Filter::default();
    // What has expired is kept as it is until it is swept: an export is a copy.
    let query = Query { filter: &filter, end: events.end(), now: 0, audience: Audience::Operator };
    let mut from = None;
    loop {
        let mut lines = Vec::new();
        let mut is_whole = true;
        from = events.page(query, from, PAGE, &mut |_, packed| {
            is_whole &= packed.write_json(&mut lines).is_some();
            lines.push(b'\n');
        })?;
        anyhow::ensure!(is_whole, "an event is damaged on disk");
        out.write_all(&lines).and_then(|()| out.flush()).with_context(|| format!("cannot write {}", file.display()))?;
        if from.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};

    use super::*;

    fn event(author: u8, kind: u16, second: u64) -> String {
        let keys = Keys::from_secret([author; 32]).unwrap();
        let (created_at, kind) = (Timestamp(second), Kind(kind));
        UnsignedEvent { created_at, kind, tags: Vec::new(), content: "ä\n\u{1}".to_owned() }.sign(&keys).to_json()
    }

    #[test]
    fn what_is_exported_is_imported_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Options { data_dir: Some(folder.path().join(name)), ..Options::default() };
        let file = folder.path().join("events.jsonl");
        let lines = [event(1, 1, 5), event(1, 0, 4), event(1, 0, 6), String::new(), event(2, 1, 7), event(1, 1, 5)];
        std::fs::write(&file, lines.join("\n")).unwrap();
        assert_eq!(import(&at("one"), &file).unwrap(), ExitCode::SUCCESS);
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        export(&at("one"), &first).unwrap();
        let exported = std::fs::read_to_string(&first).unwrap();
        assert_eq!(exported.lines().collect::<Vec<_>>(), [&*lines[4], &*lines[2], &*lines[0]]);
        import(&at("two"), &first).unwrap();
        import(&at("two"), &first).unwrap();
        export(&at("two"), &second).unwrap();
        assert_eq!(std::fs::read_to_string(&second).unwrap(), exported);
    }

    #[test]
    fn lines_that_are_no_valid_events_are_counted_and_the_others_taken() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { data_dir: Some(folder.path().to_owned()), ..Options::default() };
        let forged = event(1, 1, 5).replace("\"kind\":1,", "\"kind\":2,");
        let lines = ["{}".to_owned(), event(1, 1, 5), forged, event(1, 20_001, 5)].join("\n");
        let counts = take_in(&relay::events(&options).unwrap(), lines.as_bytes(), &ProgressBar::hidden()).unwrap();
        assert_eq!(counts, Counts { stored: 1, refused: 3, ..Counts::default() });
    }
}
