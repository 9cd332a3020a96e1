//! Nostr relays: what clients ask, what they publish, and what others hear of it.
//!
//! A relay's CPU time and memory are read from `/proc` when its process is known. Who is asked makes no difference to how.

mod differences;
mod fan_out;
mod ingest;
mod queries;
mod questions;
mod servers;
mod socket;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use birdhouse_testkit::relays::Running;
use serde_json::Value;

pub(crate) use self::fan_out::{Plan as FanOutPlan, run as fan_out};
pub(crate) use self::ingest::{Plan as IngestPlan, run as ingest};
pub(crate) use self::queries::{Plan as QueriesPlan, run as queries};
pub(crate) use self::questions::{Answer, Figures, alike, by_shape, up_to_eose};
pub(crate) use self::servers::filled;
pub(crate) use self::socket::{Socket, frame};
use crate::process::cpu_time;
use crate::server_at::addr_and_pid;

/// Who is measured: `NAME=ws://HOST:PORT`, or `NAME=ws://HOST:PORT#PID` for its CPU time.
#[derive(Debug, Clone)]
pub(crate) struct RelayAt {
    pub(crate) name: String,
    /// `HOST:PORT`.
    pub(crate) addr: String,
    pub(crate) pid: Option<u32>,
}

impl RelayAt {
    /// A relay that was started here.
    pub(crate) fn started(name: &str, relay: &Running) -> Self {
        Self { name: name.to_owned(), addr: format!("127.0.0.1:{}", relay.port()), pid: Some(relay.pid()) }
    }

    /// CPU time of its process so far, if that is known.
    pub(crate) fn cpu(&self) -> Result<Option<Duration>> {
        self.pid.map(cpu_time).transpose()
    }
}

impl FromStr for RelayAt {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, url) = text.split_once('=').context("NAME=ws://HOST:PORT")?;
        let rest = url.strip_prefix("ws://").context("relays are asked without TLS: ws://HOST:PORT")?;
        let (addr, pid) = addr_and_pid(rest)?;
        let addr = addr.trim_end_matches('/');
        ensure!(addr.contains(':'), "ws://HOST:PORT has a port");
        Ok(Self { name: name.to_owned(), addr: addr.to_owned(), pid })
    }
}

/// A relay may leave Nagle's algorithm on: then its last bytes wait for our acknowledgement, which must not wait for more bytes.
const NAGLE: &str = "The client sends at once (TCP_NODELAY) and acknowledges at once (TCP_QUICKACK, set anew after each read, as Linux \
    forgets it), so that a relay that leaves Nagle's algorithm on waits for a round trip on loopback and no longer.";

/// Events of a file, one a line.
fn events(file: &Path, skip: usize, count: usize) -> Result<Vec<String>> {
    let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = BufReader::new(opened).lines().skip(skip).take(count);
    let events: Vec<String> = lines.collect::<Result<_, _>>()?;
    ensure!(events.len() == count, "{} has {} events from {skip} on, not {count}", file.display(), events.len());
    Ok(events)
}

/// An event's id, in hexadecimal digits.
pub(crate) type Id = [u8; 64];

/// The id in the JSON of an event, or of a message that carries one.
pub(crate) fn id(json: &[u8]) -> Option<Id> {
    // In content the quotes would be escaped.
    let at = memchr::memmem::find(json, b"\"id\":\"")? + 6;
    json.get(at..at + 64)?.try_into().ok()
}

/// The string of a field.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("no {name} in {value:.200}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_named_with_its_address_and_process() {
        let relay: RelayAt = "ours=ws://127.0.0.1:7777/#12".parse().expect("well formed");
        assert_eq!((&*relay.name, &*relay.addr, relay.pid), ("ours", "127.0.0.1:7777", Some(12)));
    }

    #[test]
    fn an_id_is_not_looked_for_in_content() {
        let json = format!(r#"["EVENT","q",{{"content":"{{\"id\":\"no\"}}","id":"{}"}}]"#, "a".repeat(64));
        assert_eq!(id(json.as_bytes()), Some([b'a'; 64]));
        assert_eq!(id(b"[\"EOSE\",\"q\"]"), None);
    }
}
