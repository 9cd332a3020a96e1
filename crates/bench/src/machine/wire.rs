//! The load generators' end of a connection. Requests are written before the clock starts and answers are parsed after
//! it stopped, so a measurement covers the server and the socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The time that an answer may take; the slowest of any server took 15 s.
const PATIENCE: Duration = Duration::from_mins(2);
const BUFFER_BYTES: usize = 256 << 10;
/// Most bytes of one read of [`Wire::skip_lines`].
const READ_BYTES: usize = 64 << 10;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Wire {
    reader: BufReader<TcpStream>,
    /// Number of bytes of answers so far.
    received: u64,
}

/// One answer with an unparsed result.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Wire {
    /// Connects to `HOST:PORT` and negotiates the version.
    pub(crate) fn connect(addr: &str) -> Result<Self> {
        let stream = TcpStream::connect(addr).with_context(|| format!("failed to connect to {addr}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut wire = Self { reader: BufReader::with_capacity(BUFFER_BYTES, stream), received: 0 };
        let greeting = br#"{"jsonrpc":"2.0","id":0,"method":"server.version","params":["bench",["1.4","1.6"]]}"#;
        let mut greeting = greeting.to_vec();
        greeting.push(b'\n');
        result(&wire.ask(&greeting)?)?;
        Ok(wire)
    }

    /// Sends lines, newlines included.
    pub(crate) fn send(&mut self, lines: &[u8]) -> Result<()> {
        Ok(self.reader.get_mut().write_all(lines)?)
    }

    /// Returns the next line.
    pub(crate) fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).context("failed to read an answer")?;
        ensure!(line.last() == Some(&b'\n'), "the server closed the connection");
        self.received += line.len() as u64;
        Ok(line)
    }

    /// Sends a line and returns the next one received.
    pub(crate) fn ask(&mut self, line: &[u8]) -> Result<Vec<u8>> {
        self.send(line)?;
        self.line()
    }

    /// Reads `count` lines and drops them.
    pub(crate) fn skip_lines(&mut self, count: usize) -> Result<()> {
        let mut left = count;
        let mut buffer = vec![0; READ_BYTES];
        while left > 0 {
            let read = self.reader.read(&mut buffer).context("failed to read an answer")?;
            ensure!(read > 0, "the server closed the connection");
            self.received += read as u64;
            let ends = buffer[..read].split(|byte| *byte == b'\n').count() - 1;
            left = left.checked_sub(ends).context("more answers than requests")?;
        }
        Ok(())
    }

    /// Returns the number of bytes of answers so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }
}

/// Returns the server's own name and version.
pub(crate) fn version_at(addr: &str) -> Result<String> {
    let mut wire = Wire::connect(addr)?;
    let features = wire.ask(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"server.features\",\"params\":[]}\n")?;
    let features: Features = serde_json::from_str(result(&features)?)?;
    Ok(features.server_version)
}

#[derive(Deserialize)]
struct Features {
    server_version: String,
}

/// Returns a request as a line; `argument` is JSON.
pub(crate) fn request(method: &str, argument: &str) -> Vec<u8> {
    (object(0, method, argument) + "\n").into_bytes()
}

/// Returns a batch of the same request as a line; `arguments` are JSON.
pub(crate) fn batch(method: &str, arguments: &[String]) -> Vec<u8> {
    let requests: Vec<String> = arguments.iter().enumerate().map(|(id, some)| object(id, method, some)).collect();
    format!("[{}]\n", requests.join(",")).into_bytes()
}

fn object(id: usize, method: &str, argument: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":[{argument}]}}"#)
}

/// Returns text as a JSON string; the text is hexadecimal and needs no escapes.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Returns the result of an answer.
///
/// # Errors
/// The server's error object.
pub(crate) fn result(line: &[u8]) -> Result<&str> {
    outcome(serde_json::from_slice(line).context("failed to parse an answer")?)
}

/// Returns the results of the answer to a batch, in the order received.
pub(crate) fn results(line: &[u8]) -> Result<Vec<&str>> {
    let replies: Vec<Reply<'_>> = serde_json::from_slice(line).context("failed to parse the answer to a batch")?;
    replies.into_iter().map(outcome).collect()
}

fn outcome(reply: Reply<'_>) -> Result<&str> {
    match reply {
        Reply { error: Some(error), .. } if error.get() != "null" => bail!("refused: {:.200}", error.get()),
        Reply { result, .. } => Ok(result.map_or("null", RawValue::get)),
    }
}
