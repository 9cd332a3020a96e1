//! Channels against the libraries and programs that receive notices.
#![expect(clippy::unwrap_used, reason = "tests")]

mod mail;
mod ntfy;
mod peers;
mod secrets;
mod webhook;

use std::path::Path;
use std::sync::Arc;

use birdhouse_watch::channel::{Channel, Channels, Clock, Message, Priority, Refused, Surroundings};
use birdhouse_watch::{ChannelKind, ChannelName, ChannelSettings};
use serde_json::json;

/// A message of a payment of 150 000 sat, of now.
fn message() -> Message {
    Message {
        id: "00112233445566778899aabbccddeeff".into(),
        created: Clock::system().now().as_secs(),
        title: "Savings".into(),
        line: "Savings: received 0.00150000 BTC, unconfirmed, txid aa11 — ü".into(),
        line_without_amounts: "Savings: received, unconfirmed, txid aa11 — ü".into(),
        priority: Priority::Usual,
        click: Some("https://example.org/tx/aa11".into()),
        body: json!({ "kind": "seen", "watch": "Savings", "txid": "aa11", "received": 150_000 }),
    }
}

fn channels(folder: &Path) -> Channels {
    let key_file = folder.join("watch.nsec");
    Channels::new(Surroundings {
        refused: Refused::default(),
        key_file,
        relay: None,
        relay_sockets: Vec::new(),
        clock: Clock::system(),
    })
}

/// Opens a channel whose messages have amounts.
fn open(channels: &Channels, kind: ChannelKind) -> Arc<dyn Channel> {
    channels.open(&ChannelSettings { name: ChannelName::new("me"), kind, amounts: true }).unwrap()
}
