//! Commands that a running server executes over its control socket, with more lines than one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use crate::config::ControlCommand;
use crate::operator::ctl;
use crate::operator::exchange::Line;

/// Sends a command.
pub(super) fn begin(socket: &Path, command: &ControlCommand) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).map_err(|error| ctl::refused(socket, &error))?;
    writeln!(stream, "{}", serde_json::to_string(command)?)?;
    Ok(stream)
}

/// Waits for the result, and takes the lines on the way; `None` if the server has ended.
pub(super) fn result<T: DeserializeOwned>(
    stream: UnixStream,
    mut on_the_way: impl FnMut(&Line<T>) -> Result<()>,
) -> Result<Option<T>> {
    for line in BufReader::new(stream).lines() {
        match parse(line.context("failed to read the server's answer")?.as_bytes())? {
            Line::Ok(result) => return Ok(Some(result)),
            Line::Error(why) => bail!(why),
            line => on_the_way(&line)?,
        }
    }
    Ok(None)
}

/// Reads a line.
pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<Line<T>> {
    serde_json::from_slice(line).context("failed to parse the server's answer; is it of this version?")
}
