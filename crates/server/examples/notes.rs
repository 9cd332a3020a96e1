//! Prints the ten newest notes of a Nostr relay, then every new note as it arrives (NIP-01).
//!
//! ```text
//! cargo run -p birdhouse --example notes -- 127.0.0.1:7777
//! ```
#![forbid(unsafe_code)]

use std::net::TcpStream;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, client};

fn main() -> Result<()> {
    let addr = std::env::args().nth(1).context("usage: notes HOST:PORT")?;
    let stream = TcpStream::connect(&addr)?;
    let (mut socket, _) = client(format!("ws://{addr}"), stream).context("failed to open a WebSocket")?;

    let request = json!(["REQ", "notes", {"kinds": [1], "limit": 10}]);
    socket.send(Message::text(request.to_string()))?;
    loop {
        let Message::Text(text) = socket.read()? else { continue };
        let message: Value = serde_json::from_str(&text)?;
        match message[0].as_str() {
            Some("EVENT") => println!("{}", message[2]["content"]),
            Some("EOSE") => println!("-- stored notes end here; new ones follow --"),
            _ => println!("{text}"),
        }
    }
}
