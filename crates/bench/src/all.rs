//! All measurements in sequence, on a generated chain and events: the report of one machine.
//!
//! Each part is a run of this program. Its command line in the report thus makes its table again, and a part that fails
//! ends alone. The output of a part is in a log beside its record.

mod inputs;
mod parts;
mod size;

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use self::parts::{Part, parts};
use self::size::Size;
use crate::report;
use crate::report::record::{Cell, Layout, Record, Table, Unit, exit_code};

const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// Folder for the chain, the events, the indexes, the records and the report. Existing ones are used again.
    #[arg(long)]
    out: PathBuf,
    /// Size of chain and events.
    #[arg(long, value_enum, default_value_t = Size::Small)]
    size: Size,
    /// Server binary to measure [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::machine::args::default_birdhouse(), hide_default_value = true)]
    birdhouse: PathBuf,
    /// Run only parts whose names contain this.
    #[arg(long)]
    only: Option<String>,
}

/// Servers measured beside Birdhouse when the variable names their program.
const ELECTRUM_PEERS: [(&str, &str); 3] = [("FULCRUM", "fulcrum"), ("ELECTRUMX_SERVER", "ex"), ("ELECTRS", "electrs")];
const RELAY_PEERS: [(&str, &str); 3] =
    [("RNOSTR", "rnostr"), ("NOSTR_RS_RELAY", "nostr-rs-relay"), ("STRFRY", "strfry")];

pub(crate) fn run(plan: &Plan) -> Result<ExitCode> {
    fs::create_dir_all(&plan.out).with_context(|| format!("failed to make {}", plan.out.display()))?;
    let began = Instant::now();
    let mut records = vec![inputs::make(&plan.out, plan.size)?];
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
    Ok(exit_code(&records))
}

/// Runs a part. A part that leaves no record gets one with the failure.
fn record_of(part: &Part, plan: &Plan) -> Record {
    let (json, log) = (file(plan, part, "json"), file(plan, part, "log"));
    let started = Instant::now();
    eprintln!("{} ..", part.name);
    let record = run_part(part, &json, &log, plan.size.patience()).unwrap_or_else(|error| {
        let mut record = Record::begin(part.name, &plan.out);
        record.command = part.args.join(" ");
        let mut table = Table::new(part.name, "The run failed.", Layout::OneServer, [("", Unit::Words)]);
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
    let output = File::create(log).with_context(|| format!("failed to write {}", log.display()))?;
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
            bail!("stopped after {} s", patience.as_secs());
        }
        thread::sleep(POLL);
    }
    Record::read(json).map_err(|_| anyhow!("{}", error_in(log)))
}

fn error_in(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let error = text.lines().find(|line| line.to_lowercase().starts_with("error: "));
    error.or_else(|| text.lines().rfind(|line| !line.trim().is_empty())).unwrap_or("the log is empty").to_owned()
}

fn file(plan: &Plan, part: &Part, extension: &str) -> PathBuf {
    plan.out.join(part.name).with_extension(extension)
}

/// Returns the command lines of all parts, for a test of the command line.
#[cfg(test)]
pub(crate) fn command_lines() -> Vec<Vec<String>> {
    let of = |size| parts(size, Path::new("out"), Path::new("birdhouse"), &["ex"], &["strfry"]);
    [Size::Small, Size::Full].into_iter().flat_map(of).map(|part| part.args).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn part_without_a_record_fails_alone_with_the_error_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan { out: folder.path().to_owned(), size: Size::Small, birdhouse: PathBuf::new(), only: None };
        // The program of a unit test does not know this argument.
        let part = Part { name: "build", args: vec!["--no-such-argument".into()] };
        let failures = record_of(&part, &plan).failures();
        assert!(failures.len() == 1 && failures[0].starts_with("build, the whole run: "), "{failures:?}");
        assert!(failures[0].contains("no-such-argument") || failures[0].contains("usage"), "{failures:?}");
    }
}
