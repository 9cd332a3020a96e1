//! `birdhouse doctor`: a list of checks, each a pure function from facts to a finding, and a thin layer that gathers
//! the facts. It changes nothing.
//!
//! May use every folder.

mod checks;
mod facts;
mod finding;
mod gather;

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use self::checks::CHECKS;
pub(crate) use self::facts::Depth;
use self::facts::Facts;
use self::finding::{Finding, Verdict};
#[cfg(test)]
pub(crate) use self::gather::{METHODS, PRUNED_METHODS};
use crate::commands::Form;
use crate::config::Options;

/// A finding with the name of its check.
#[derive(Debug, Serialize)]
struct Line {
    check: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

/// Examines everything and prints the findings. The exit code is 1 if one of them keeps the server from serving.
pub(crate) fn run(options: &Options, depth: Depth, form: Form) -> Result<ExitCode> {
    let facts = gather::facts(options, depth);
    let lines = report(&facts);
    match form {
        Form::Json => println!("{}", serde_json::to_string(&lines)?),
        Form::Text => print!("{}", text(&lines)),
    }
    let worst = lines.iter().map(|line| line.finding.verdict).max();
    Ok(if worst == Some(Verdict::Fail) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs every check that applies.
fn report(facts: &Facts) -> Vec<Line> {
    CHECKS.iter().flat_map(|(check, run)| run(facts).into_iter().map(|finding| Line { check, finding })).collect()
}

/// Formats one finding a line, and below it the way to mend it.
fn text(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { check, finding: Finding { verdict, found, mend } } in lines {
        let verdict = match verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        writeln!(text, "{verdict}  {check:<14} {found}").expect("writing to memory never fails");
        if let Some(mend) = mend {
            writeln!(text, "{:21}-> {mend}", "").expect("writing to memory never fails");
        }
    }
    text
}
