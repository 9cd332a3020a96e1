//! The plugin's process: lines in, lines out, and its standard error into the log.

use std::io;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tracing::warn;

use crate::limits::PLUGIN_LINE_BYTES;

/// Bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;
/// Bytes of a line of standard error that go into the log.
const COMPLAINT_BYTES: u64 = 2000;

/// A running plugin. Dropping it kills it with all processes that it has started.
pub(super) struct Process {
    child: Child,
    leader: Option<Pid>,
    input: ChildStdin,
    output: ChildStdout,
    unwritten: Vec<u8>,
    unread: Vec<u8>,
}

impl Process {
    pub(super) fn start(command: &str) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(|name| is_ours(name)) {
            shell.env_remove(name);
        }
        let mut child = shell
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let leader = child.id().and_then(|id| id.try_into().ok()).map(Pid::from_raw);
        let missing = || io::Error::other("it has no pipes");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        tokio::spawn(log(child.stderr.take().ok_or_else(missing)?));
        Ok(Self { child, leader, input, output, unwritten: Vec::new(), unread: Vec::new() })
    }

    /// Queues bytes, which [`Self::talk`] writes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.unwritten.extend_from_slice(bytes);
    }

    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Writes and reads a little; returns a line that it sent, if there is one. Dropping the future loses nothing.
    pub(super) async fn talk(&mut self) -> Result<Option<Vec<u8>>, String> {
        if let Some(line) = self.line() {
            return Ok(Some(line));
        }
        if self.unread.len() > PLUGIN_LINE_BYTES {
            return Err("it sent a line without an end".to_owned());
        }
        self.unread.reserve(READ_BYTES);
        tokio::select! {
            read = self.output.read_buf(&mut self.unread) => match read {
                Ok(0) => Err(self.last_words().await),
                Ok(_) => Ok(self.line()),
                Err(error) => Err(error.to_string()),
            },
            written = self.input.write(&self.unwritten), if !self.unwritten.is_empty() => match written {
                Ok(written) => {
                    self.unwritten.drain(..written);
                    Ok(None)
                }
                // It has ended, or will: its remaining output is of no use.
                Err(error) => Err(format!("it does not read its input: {error}")),
            },
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.unread.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    async fn last_words(&mut self) -> String {
        self.kill();
        match self.child.wait().await {
            Ok(status) => format!("it has ended: {status}"),
            Err(error) => format!("it has ended: {error}"),
        }
    }

    fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            // It may have ended by itself.
            let _ = killpg(leader, Signal::SIGKILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns `true` for a variable of this server, which may hold a secret, or of the service manager, which would take
/// the plugin's messages for ours.
fn is_ours(variable: &str) -> bool {
    variable.starts_with("BIRDHOUSE_")
        || ["CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"].contains(&variable)
}

/// Copies standard error into the log, line by line, until it ends.
async fn log(complaints: impl AsyncRead + Unpin) {
    let mut complaints = BufReader::new(complaints);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut complaints).take(COMPLAINT_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => warn!(line = %String::from_utf8_lossy(&line).trim_end(), "standard error of the plugin"),
        }
    }
}
