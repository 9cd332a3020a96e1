//! Events as lines of JSON, one event a line, as strfry and nak export them.
//!
//! An import can be run again: events that the relay has are skipped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result};
use birdhouse_events::{Event, Events};
use indicatif::{ProgressBar, ProgressStyle};

use super::intake::{self, Batch, Candidate, Counts, Skipped};

/// The name of standard input and output.
pub(super) const STANDARD: &str = "-";
/// Lines of one batch, verified in parallel and made durable together.
const LINES: usize = 4096;
/// Bytes of one batch; its last line may go beyond.
const BATCH_BYTES: u64 = 8 << 20;

/// A line and its number.
struct Line {
    number: u64,
    text: String,
}

/// Imports the events of a file.
pub(super) fn import(events: &Events, file: &Path) -> Result<Counts> {
    let (lines, bytes): (Box<dyn BufRead>, u64) = if file == Path::new(STANDARD) {
        (Box::new(std::io::stdin().lock()), 0)
    } else {
        let opened = File::open(file).with_context(|| format!("failed to read {}", file.display()))?;
        let bytes = opened.metadata()?.len();
        (Box::new(BufReader::with_capacity(1 << 20, opened)), bytes)
    };
    let style = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    let bar = ProgressBar::new(bytes).with_style(ProgressStyle::with_template(style)?);
    let counts = import_lines(events, lines, &bar)?;
    bar.finish_and_clear();
    Ok(counts)
}

fn import_lines(events: &Events, mut lines: impl BufRead, bar: &ProgressBar) -> Result<Counts> {
    let mut number = 0;
    let next = || next_lines(&mut lines, &mut number);
    intake::import(events, next, |bytes, counts| {
        bar.inc(bytes);
        bar.set_message(format!("{} events", counts.stored));
    })
}

/// Reads the next batch of lines, without empty ones. `number` counts all lines read so far.
fn next_lines(lines: &mut impl BufRead, number: &mut u64) -> Result<Option<Batch<Line>>> {
    let (mut candidates, mut steps) = (Vec::new(), 0);
    while candidates.len() < LINES && steps < BATCH_BYTES {
        let mut text = String::new();
        let bytes = lines.read_line(&mut text).with_context(|| format!("failed to read line {}", *number + 1))?;
        if bytes == 0 {
            break;
        }
        *number += 1;
        steps += bytes as u64;
        let text = text.trim_end();
        if !text.is_empty() {
            candidates.push(Line { number: *number, text: text.to_owned() });
        }
    }
    Ok((steps > 0).then_some(Batch { candidates, steps, present: 0 }))
}

impl Candidate for Line {
    fn name(&self) -> String {
        format!("line {}", self.number)
    }

    fn event(&self) -> Result<Event, Skipped> {
        Event::from_json(&self.text).map_err(|malformed| Skipped::Malformed(malformed.rejection.to_string()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::tests::{event, tagged};
    use super::*;
    use birdhouse_events::Tag;

    use crate::config::Options;
    use crate::services::relay;

    #[test]
    fn a_batch_has_a_bound_of_lines_and_of_bytes() {
        let batches = |text: &str| {
            let (mut lines, mut number) = (text.as_bytes(), 0);
            let next = || next_lines(&mut lines, &mut number).unwrap();
            std::iter::from_fn(next).map(|batch| batch.candidates.len()).collect::<Vec<_>>()
        };
        assert_eq!(batches(&"x\n".repeat(LINES + 1)), [LINES, 1]);
        let line = "x".repeat(1 << 20) + "\n";
        assert_eq!(batches(&line.repeat(20)), [8, 8, 4], "more than a mebibyte each");
    }

    #[test]
    fn invalid_lines_are_counted_and_the_others_imported() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { data_dir: Some(folder.path().to_owned()), ..Options::default() };
        let forged = event(1, 1, 5).replace("\"kind\":1,", "\"kind\":2,");
        let lines = ["{}".to_owned(), event(1, 1, 5), forged, event(1, 20_001, 5)].join("\n");
        let counts = import_lines(&relay::events(&options).unwrap(), lines.as_bytes(), &ProgressBar::hidden()).unwrap();
        assert_eq!(counts, Counts { stored: 1, malformed: 1, forged: 1, ephemeral: 1, ..Counts::default() });
    }

    /// A dump of another relay has what authors asked of that one (NIP-62).
    #[test]
    fn requests_to_vanish_from_other_relays_delete_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let relay_url = Some(vec!["wss://birds.example".to_owned()]);
        let options = Options { data_dir: Some(folder.path().to_owned()), relay_url, ..Options::default() };
        let events = relay::events(&options).unwrap();
        let vanish = |second, url: &str| tagged(1, 62, second, vec![Tag(vec!["relay".into(), url.into()])]);
        let elsewhere = ["ws://127.0.0.1:7777", "wss://203.0.113.5", "wss://fish.example"];
        let lines: Vec<String> = (6..).zip(elsewhere).map(|(second, url)| vanish(second, url)).collect();
        let lines = [vec![event(1, 1, 5)], lines].concat().join("\n");
        let counts = import_lines(&events, lines.as_bytes(), &ProgressBar::hidden()).unwrap();
        assert_eq!((counts, events.live_events()), (Counts { stored: 1, elsewhere: 3, ..Counts::default() }, 1));
        let counts = import_lines(&events, vanish(9, "ws://birds.example/in").as_bytes(), &ProgressBar::hidden());
        assert_eq!((counts.unwrap().stored, events.live_events()), (1, 1), "the note is gone, and the request there");
    }
}
