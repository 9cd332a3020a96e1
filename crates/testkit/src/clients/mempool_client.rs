//! `@mempool/electrum-client` from npm, the client of mempool.space's backend, run by Node.js.
//!
//! `mempool_client.js` beside this file drives it: it reads calls, and prints answers and notifications.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use birdhouse_regtest::program::find_program;
use serde_json::{Value, json};

use crate::error::{Error, Result};

const CACHED: &str = "birdhouse/mempool-electrum-client-1.1.9/node_modules/@mempool/electrum-client/index.js";
const SCRIPT: &str = include_str!("mempool_client.js");
const PATIENCE: Duration = Duration::from_mins(1);
/// Most lines of output that wait to be read.
const LINES_MAX: usize = 1000;

/// A running client, connected and subscribed to the tip and one script. Dropping it ends the process.
#[derive(Debug)]
pub struct MempoolClient {
    child: Child,
    calls: ChildStdin,
    lines: Receiver<Output>,
}

/// An answer or a notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The function called, or the method of the notification; at the start `version`, `tip`, `status` and `ready`.
    pub what: String,
    /// The result, or the notification's parameters.
    pub value: Value,
}

impl MempoolClient {
    /// Connects to a loopback port and subscribes to the tip and to one script.
    pub fn start(port: u16, scripthash: &str) -> Result<Self> {
        let program = "@mempool/electrum-client";
        let package = find_program(program, "MEMPOOL_CLIENT", None, CACHED, "scripts/peers mempool-client")?;
        let folder = package.parent().map(Path::to_owned).unwrap_or(package);
        let mut child = Command::new("node")
            .args(["--eval", SCRIPT])
            .args([folder.as_os_str(), port.to_string().as_ref(), scripthash.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let calls = child.stdin.take().expect("stdin was piped");
        let output = BufReader::new(child.stdout.take().expect("stdout was piped"));
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            // Ends with the client or with the receiver.
            for line in output.lines().map_while(std::result::Result::ok) {
                let Ok(line) = serde_json::from_str::<Value>(&line) else { return };
                let what = line["what"].as_str().unwrap_or_default().to_owned();
                if sender.send(Output { what, value: line["value"].clone() }).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, calls, lines })
    }

    /// Calls one of the client's functions; [`Self::next_output`] returns the answer.
    #[expect(clippy::needless_pass_by_value, reason = "call sites pass json!([..])")]
    pub fn call(&mut self, function: &str, params: Value) -> Result<()> {
        let mut call = vec![json!(function)];
        call.extend(params.as_array().cloned().unwrap_or_default());
        Ok(writeln!(self.calls, "{}", Value::Array(call))?)
    }

    /// Returns the next answer or notification.
    pub fn next_output(&mut self) -> Result<Output> {
        self.lines.recv_timeout(PATIENCE).map_err(|error| {
            let why = if error == RecvTimeoutError::Timeout { "printed nothing within a minute" } else { "has ended" };
            Error::Protocol(format!("@mempool/electrum-client {why}"))
        })
    }
}

impl Drop for MempoolClient {
    fn drop(&mut self) {
        // Both fail only after the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
