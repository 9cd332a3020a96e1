//! Birdhouse with its relay alone.

use std::path::Path;

use birdhouse_regtest::child_guard::Launch;

use super::folder::{RelayFolder, quoted};
use crate::error::Result;

/// No search index and no limits by client, because the other relays have none.
pub(super) const SETTINGS: [(&str, &str); 4] = [
    ("bitcoin", "\"off\""),
    ("relay-search", "\"off\""),
    ("relay-private-messages", "\"everyone\""),
    ("limits.relay", "{ client-events = \"none\", client-work = \"none\", client-connections = \"none\" }"),
];

pub(super) fn serve(relay: &RelayFolder, port: u16) -> Result<Launch> {
    command(relay, &["run".into()], &[("relay-addr", quoted(format!("127.0.0.1:{port}")))])
}

pub(super) fn import(relay: &RelayFolder, events: &Path) -> Result<Launch> {
    command(relay, &["import".into(), events.into()], &[])
}

fn command(relay: &RelayFolder, verb: &[std::ffi::OsString], locations: &[(&str, String)]) -> Result<Launch> {
    let locations: Vec<(&str, String)> = [("data-dir", quoted(relay.events_dir())), ("log", quoted("warn"))]
        .into_iter()
        .chain(locations.to_vec())
        .collect();
    let config = relay.configure("birdhouse.toml", &locations, &SETTINGS)?;
    let args = verb.iter().cloned().chain(["--config".into(), config.into()]).collect();
    Ok(relay.launch(args))
}
