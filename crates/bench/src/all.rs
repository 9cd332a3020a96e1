//! Everything, one after the other, on a chain and events of its own: the report of one machine.
//!
//! Each part is a run of this program, so its command line in the report makes its table again, and a part that breaks ends
//! alone. What a part printed is beside its record.

mod made;
mod parts;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use self::parts::{Part, parts};
use crate::record::{Cell, Layout, Record, Table, Unit};
use crate::report;

const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// A folder for the chain, the events, the indexes, the records and the report. What is made there is used again.
    #[arg(long)]
    out: PathBuf,
    /// How much of everything.
    #[arg(long, value_enum, default_value_t = Size::Small)]
    size: Size,
    /// The binary to measure: by default the one beside this program.
    #[arg(long, default_value_os_t = crate::birdhouse_beside())]
    birdhouse: PathBuf,
    /// Only parts whose names contain this.
    #[arg(long)]
    only: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Size {
    /// 200 MB of blocks, 100 000 events: minutes.
    Small,
    /// 2.7 GB of blocks, a million events: an hour or more.
    Full,
}

/// Who is measured beside Birdhouse: a peer is there when the variable names its program.
const ELECTRUM_PEERS: [(&str, &str); 3] = [("FULCRUM", "fulcrum"), ("ELECTRUMX_SERVER", "ex"), ("ELECTRS", "electrs")];
const RELAY_PEERS: [(&str, &str); 3] =
    [("RNOSTR", "rnostr"), ("NOSTR_RS_RELAY", "nostr-rs-relay"), ("STRFRY", "strfry")];

impl Size {
    /// After this a part is ended.
    fn patience(self) -> Duration {
        match self {
            Self::Small => Duration::from_mins(5),
            Self::Full => Duration::from_hours(3),
        }
    }
}

pub(crate) fn run(plan: &Plan) -> Result<ExitCode> {
    fs::create_dir_all(&plan.out).with_context(|| format!("make {}", plan.out.display()))?;
    let began = Instant::now();
    let mut records = vec![made::what_is_measured_on(&plan.out, plan.size)?];
    let peers = |known: &[(&str, &'static str)]| {
        let named = known.iter().filter(|(variable, _)| env::var_os(variable).is_some_and(|value| !value.is_empty()));
        named.map(|(_, name)| *name).collect::<Vec<&str>>()
    };
    let (electrum, relays) = (peers(&ELECTRUM_PEERS), peers(&RELAY_PEERS));
    for (variable, name) in ELECTRUM_PEERS.iter().chain(&RELAY_PEERS) {
        if !electrum.contains(name) && !relays.contains(name) {
            records[0].note(format!("{name} is left out: {variable} names no program."));
        }
    }
    for part in parts(plan.size, &plan.out, &plan.birdhouse, &electrum, &relays) {
        if plan.only.as_ref().is_none_or(|only| part.name.contains(only.as_str())) {
            records.push(record_of(&part, plan));
        }
    }
    let page = plan.out.join("bench-report.html");
    report::write(&records, Some(&page), Some(&page.with_extension("md")))?;
    println!("{} after {} s", page.display(), began.elapsed().as_secs());
    Ok(crate::exit_code(&records))
}

/// Runs a part. One that leaves no record has one that says so.
fn record_of(part: &Part, plan: &Plan) -> Record {
    let (json, log) = (file(plan, part, "json"), file(plan, part, "log"));
    let started = Instant::now();
    eprintln!("{} ..", part.name);
    let record = run_part(part, &json, &log, plan.size.patience()).unwrap_or_else(|error| {
        let mut record = Record::begin(part.name, &plan.out);
        record.command = part.args.join(" ");
        let mut table = Table::new(part.name, "The run broke.", Layout::OneServer, [("", Unit::Words)]);
        table.push("the whole run", [Cell::failed(&error)]);
        record.tables.push(table);
        record
    });
    eprintln!("{}: {} s, {} failures", part.name, started.elapsed().as_secs(), record.failures().len());
    record
}

fn run_part(part: &Part, json: &Path, log: &Path, patience: Duration) -> Result<Record> {
    if json.exists() {
        fs::remove_file(json)?;
    }
    let output = File::create(log).with_context(|| format!("write {}", log.display()))?;
    let mut child = Command::new(env::current_exe()?)
        .args(&part.args)
        .arg("--json")
        .arg(json)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("ended after {} s", patience.as_secs());
        }
        thread::sleep(POLL);
    }
    Record::read(json).map_err(|_| anyhow!("{}", last_words(log)))
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let error = text.lines().find(|line| line.to_lowercase().starts_with("error: "));
    error.or_else(|| text.lines().rfind(|line| !line.trim().is_empty())).unwrap_or("it said nothing").to_owned()
}

fn file(plan: &Plan, part: &Part, extension: &str) -> PathBuf {
    plan.out.join(part.name).with_extension(extension)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_leaves_no_record_fails_alone_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan { out: folder.path().to_owned(), size: Size::Small, birdhouse: PathBuf::new(), only: None };
        // The program of a unit test does not know this argument.
        let part = Part { name: "build", args: vec!["--no-such-argument".into()] };
        let failures = record_of(&part, &plan).failures();
        assert!(failures.len() == 1 && failures[0].starts_with("build, the whole run: "), "{failures:?}");
        assert!(failures[0].contains("no-such-argument") || failures[0].contains("usage"), "{failures:?}");
    }

    #[test]
    fn every_part_is_a_command_of_this_program() {
        use clap::Parser as _;
        for size in [Size::Small, Size::Full] {
            for part in parts(size, Path::new("out"), Path::new("birdhouse"), &["ex"], &["strfry"]) {
                let words = ["birdhouse-bench"].into_iter().chain(part.args.iter().map(String::as_str));
                crate::CommandLine::try_parse_from(words).unwrap_or_else(|error| panic!("{}: {error}", part.name));
            }
        }
    }
}
