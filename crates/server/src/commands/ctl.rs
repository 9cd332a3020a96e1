//! `birdhouse ctl`: sends a command to a running server and prints its answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Form;
use crate::config::ControlCommand;
use crate::operator::{Answer, answer_text, ctl};

/// Time for the server to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn run(index_dir: &Path, command: &ControlCommand, form: Form) -> Result<ExitCode> {
    match ask(&ctl::path(index_dir), command)? {
        Answer::Ok(answer) => {
            let mut out = std::io::stdout().lock();
            match form {
                Form::Json => writeln!(out, "{answer}")?,
                Form::Text => write!(out, "{}", answer_text::text(&answer))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Answer::Error(error) => {
            eprintln!("birdhouse: {error}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Returns the status of the server whose control socket lies in this folder; `None` if none runs.
pub(crate) fn status(dir: &Path) -> Option<Value> {
    match ask(&ctl::path(dir), &ControlCommand::Status) {
        Ok(Answer::Ok(status)) => Some(status),
        _ => None,
    }
}

/// Sends a command that takes a moment.
pub(super) fn ask(socket: &Path, command: &ControlCommand) -> Result<Answer> {
    ask_within(socket, command, Some(ANSWER_TIMEOUT))
}

/// Sends a command that may take hours.
pub(super) fn ask_at_length(socket: &Path, command: &ControlCommand) -> Result<Answer> {
    ask_within(socket, command, None)
}

fn ask_within(socket: &Path, command: &ControlCommand, time: Option<Duration>) -> Result<Answer> {
    let mut stream = UnixStream::connect(socket).map_err(|error| ctl::refused(socket, &error))?;
    stream.set_read_timeout(time)?;
    writeln!(stream, "{}", serde_json::to_string(command)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("failed to read the server's answer")?;
    ensure!(line.ends_with('\n'), "the server ended before it answered; look at its log, and start it");
    serde_json::from_str(&line).context("failed to parse the server's answer; are server and ctl of the same version?")
}
