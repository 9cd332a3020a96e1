//! `birdhouse ctl`: sends a command to a running server and prints its answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use crate::ctl::{self, Answer, Command};

/// Time for the server to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Fields that are printed first.
const FIRST: [&str; 10] =
    ["verdict", "type", "value", "id", "listener", "client", "age_s", "version", "network", "health"];

/// Formats of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Text,
}

pub(crate) fn run(index_dir: &Path, command: &Command, form: Form) -> Result<ExitCode> {
    match ask(&ctl::path(index_dir), command)? {
        Answer::Ok(answer) => {
            let mut out = std::io::stdout().lock();
            match form {
                Form::Json => writeln!(out, "{answer}")?,
                Form::Text => write!(out, "{}", text(&answer))?,
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
    match ask(&ctl::path(dir), &Command::Status) {
        Ok(Answer::Ok(status)) => Some(status),
        _ => None,
    }
}

fn ask(socket: &Path, command: &Command) -> Result<Answer> {
    ask_within(socket, command, Some(ANSWER_TIMEOUT))
}

/// Sends a command that may take hours.
pub(crate) fn ask_at_length(socket: &Path, command: &Command) -> Result<Answer> {
    ask_within(socket, command, None)
}

fn ask_within(socket: &Path, command: &Command, time: Option<Duration>) -> Result<Answer> {
    let mut stream = UnixStream::connect(socket).with_context(|| {
        format!("failed to connect to {}; is the server running, with this --data-dir and --network?", socket.display())
    })?;
    stream.set_read_timeout(time)?;
    writeln!(stream, "{}", serde_json::to_string(command)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("failed to read the server's answer")?;
    serde_json::from_str(&line).context("failed to parse the server's answer; are server and ctl of the same version?")
}

/// Formats an object as lines of names and values, a list of objects as a table.
fn text(answer: &Value) -> String {
    match answer {
        Value::Object(fields) => {
            let rows: Vec<_> = names(fields).into_iter().map(|name| vec![title(name), cell(&fields[name])]).collect();
            table(&rows)
        }
        Value::Array(items) => {
            let objects: Vec<&Map<String, Value>> = items.iter().filter_map(Value::as_object).collect();
            let Some(first) = objects.first() else { return "none\n".into() };
            let names = names(first);
            let titles = names.iter().map(|name| title(name)).collect();
            let rows = objects.iter().map(|object| names.iter().map(|name| cell(&object[*name])).collect());
            table(&std::iter::once(titles).chain(rows).collect::<Vec<_>>())
        }
        other => format!("{}\n", cell(other)),
    }
}

/// Returns the names of an object's fields in the order of printing.
fn names(object: &Map<String, Value>) -> Vec<&str> {
    let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
    names.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    names
}

fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn title(name: &str) -> String {
    name.replace('_', " ")
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_printed_in_columns() {
        assert_eq!(text(&json!({ "network": "regtest", "tip_height": null })), "network     regtest\ntip height  -\n");
        let connections =
            json!([{ "id": 7, "bytes_in": 10, "listener": "tcp" }, { "id": 123, "bytes_in": 9, "listener": "wss" }]);
        assert_eq!(text(&connections), "id   listener  bytes in\n7    tcp       10\n123  wss       9\n");
        assert_eq!(text(&json!([])), "none\n");
    }
}
