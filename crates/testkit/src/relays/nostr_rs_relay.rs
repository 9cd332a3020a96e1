//! `nostr-rs-relay` 0.8.12.
//!
//! Its bulk loader is of an older schema: it leaves the columns of tags empty that queries look at, and follows no deletion. So its
//! events are published.

use std::path::PathBuf;

use birdhouse_regtest::child_guard::Launch;
use birdhouse_regtest::program::find_program;

use super::{Relay, quoted};
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

pub(super) fn serve(relay: &Relay, port: u16) -> Result<Launch> {
    let place = [
        ("database.data_directory", quoted(relay.events_dir())),
        ("network.address", quoted("127.0.0.1")),
        ("network.port", port.to_string()),
    ];
    let config = relay.configure("nostr-rs-relay.toml", &place)?;
    let mut launch = relay.launch(vec!["--config".into(), config.into()]);
    launch.envs.push(("RUST_LOG".to_owned(), "warn".into()));
    Ok(launch)
}
