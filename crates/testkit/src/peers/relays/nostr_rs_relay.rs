//! `nostr-rs-relay` 0.8.12.
//!
//! Its bulk loader has an older schema: it leaves the tag columns empty that queries read, and applies no deletion.
//! Events are therefore published over a WebSocket.

use std::path::PathBuf;

use birdhouse_regtest::child_guard::Launch;
use birdhouse_regtest::program::find_program;

use super::folder::{RelayFolder, quoted};
use crate::error::Result;

pub(super) const SETTINGS: [(&str, &str); 3] = [
    ("limits.max_event_bytes", "4194304"),
    ("limits.max_ws_message_bytes", "4194304"),
    ("limits.max_ws_frame_bytes", "4194304"),
];

pub(super) fn program() -> Result<PathBuf> {
    let cached = "birdhouse/nostr-rs-relay-0.8.12/bin/nostr-rs-relay";
    Ok(find_program("nostr-rs-relay", "NOSTR_RS_RELAY", None, cached, "scripts/peers nostr-rs-relay")?)
}

pub(super) fn serve(relay: &RelayFolder, port: u16) -> Result<Launch> {
    let locations = [
        ("database.data_directory", quoted(relay.events_dir())),
        ("network.address", quoted("127.0.0.1")),
        ("network.port", port.to_string()),
    ];
    let config = relay.configure("nostr-rs-relay.toml", &locations, &SETTINGS)?;
    let mut launch = relay.launch(vec!["--config".into(), config.into()]);
    launch.envs.push(("RUST_LOG".to_owned(), "warn".into()));
    Ok(launch)
}
