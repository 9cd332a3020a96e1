//! A relay at an address.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::relays::Running;
use birdhouse_testkit::usage::cpu_of_threads;

use crate::machine::process::cpu_time;
use crate::machine::server_at::addr_and_pid;

/// Name of the thread of Birdhouse that stores events.
const WRITER: &str = "events";

/// A relay to measure: `NAME=ws://HOST:PORT`, or `NAME=ws://HOST:PORT#PID` for its CPU time.
#[derive(Debug, Clone)]
pub(crate) struct RelayAt {
    pub(crate) name: String,
    /// `HOST:PORT`.
    pub(crate) addr: String,
    pub(crate) pid: Option<u32>,
}

impl RelayAt {
    /// Makes the entry of a relay that this program started.
    pub(crate) fn started(name: &str, relay: &Running) -> Self {
        Self { name: name.to_owned(), addr: format!("127.0.0.1:{}", relay.port()), pid: Some(relay.pid()) }
    }

    /// Returns the CPU time of its process, if the process is known.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>> {
        self.pid.map(cpu_time).transpose()
    }

    /// Returns the CPU time of Birdhouse's one writer of events, if the process is known and has such a thread.
    pub(crate) fn cpu_of_writer(&self) -> Result<Option<Duration>> {
        Ok(self.pid.map(|pid| cpu_of_threads(pid, WRITER)).transpose()?.flatten())
    }
}

impl FromStr for RelayAt {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, url) = text.split_once('=').context("NAME=ws://HOST:PORT")?;
        let rest = url.strip_prefix("ws://").context("a relay has an address without TLS: ws://HOST:PORT")?;
        let (addr, pid) = addr_and_pid(rest)?;
        let addr = addr.trim_end_matches('/');
        ensure!(addr.contains(':'), "the address has no port: ws://HOST:PORT");
        Ok(Self { name: name.to_owned(), addr: addr.to_owned(), pid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_named_with_its_address_and_process() {
        let relay: RelayAt = "ours=ws://127.0.0.1:7777/#12".parse().expect("well formed");
        assert_eq!((&*relay.name, &*relay.addr, relay.pid), ("ours", "127.0.0.1:7777", Some(12)));
    }
}
