//! Birdhouse itself, its relay alone.

use std::path::Path;

use birdhouse_regtest::child_guard::Launch;

use super::{Relay, quoted};
use crate::error::Result;

/// No search index: the others have none. What clients of one address may do is not bounded on loopback.
pub(super) const SETTINGS: [(&str, &str); 3] =
    [("bitcoin", "\"off\""), ("relay-search", "\"off\""), ("relay-private-messages", "\"everybody\"")];

pub(super) fn serve(relay: &Relay, port: u16) -> Result<Launch> {
    command(relay, &["run".into()], &[("relay-addr", quoted(format!("127.0.0.1:{port}")))])
}

pub(super) fn import(relay: &Relay, events: &Path) -> Result<Launch> {
    command(relay, &["import".into(), events.into()], &[])
}

fn command(relay: &Relay, verb: &[std::ffi::OsString], place: &[(&str, String)]) -> Result<Launch> {
    let place: Vec<(&str, String)> =
        [("data-dir", quoted(relay.events_dir())), ("log", quoted("warn"))].into_iter().chain(place.to_vec()).collect();
    let config = relay.configure("birdhouse.toml", &place)?;
    let args = verb.iter().cloned().chain(["--config".into(), config.into()]).collect();
    Ok(relay.launch(args))
}
