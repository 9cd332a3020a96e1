//! `rnostr` 0.4.8.

use std::path::{Path, PathBuf};

use birdhouse_regtest::child_guard::Launch;
use birdhouse_regtest::program::find_program;

use super::folder::{RelayFolder, quoted};
use crate::error::Result;

/// Settings that raise its limits. The time for a query has no bound unless it is set.
pub(super) const SETTINGS: [(&str, &str); 6] = [
    ("limitation.max_message_length", "4194304"),
    ("limitation.max_limit", "5000"),
    ("limitation.max_filters", "200"),
    ("limitation.max_subscriptions", "200"),
    ("limitation.max_event_tags", "10000"),
    ("limitation.max_event_time_older_than_now", "0"),
];

pub(super) fn program() -> Result<PathBuf> {
    Ok(find_program("rnostr", "RNOSTR", None, "birdhouse/rnostr-0.4.8/bin/rnostr", "scripts/peers rnostr")?)
}

pub(super) fn serve(relay: &RelayFolder, port: u16) -> Result<Launch> {
    // rnostr adds a folder `events` to this path.
    let data = relay.events_dir();
    let locations =
        [("data.path", quoted(data)), ("network.host", quoted("127.0.0.1")), ("network.port", port.to_string())];
    let config = relay.configure("rnostr.toml", &locations, &SETTINGS)?;
    Ok(relay.launch(vec!["relay".into(), "-c".into(), config.into()]))
}

pub(super) fn import(relay: &RelayFolder, events: &Path) -> Launch {
    relay.launch(vec!["import".into(), relay.events_dir().join("events").into(), events.into()])
}
