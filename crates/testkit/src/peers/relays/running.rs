//! The process of a running relay.

use std::process::Command;
use std::time::Duration;

use birdhouse_regtest::child_guard::{ChildGuard, Launch};

use crate::clients::pipe;
use crate::error::{Error, Result};

/// The time that a start may take: SQLite may have a log to write back first.
const START_PATIENCE: Duration = Duration::from_mins(10);
const STOP_PATIENCE: Duration = Duration::from_mins(1);

/// A relay that accepts connections. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub struct Running {
    child: ChildGuard,
    port: u16,
}

impl Running {
    /// Starts a process and waits until it accepts WebSocket connections on `port`.
    pub(super) fn start(launch: Launch, port: u16) -> Result<Self> {
        let mut child = ChildGuard::spawn(launch)?;
        child.until(START_PATIENCE, || Ok::<_, Error>(pipe::tcp(port).and_then(pipe::ws).ok()))?;
        Ok(Self { child, port })
    }

    /// Returns the port of the WebSocket listener on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Ends the relay with SIGTERM and waits for its end.
    pub fn stop(mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status()?;
        if asked.success() {
            self.child.wait(STOP_PATIENCE)?;
        }
        Ok(())
    }
}
