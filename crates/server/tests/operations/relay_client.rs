//! A client of a server's relay.

use std::io::{Read, Write};
use std::net::TcpStream;

use birdhouse_testkit::pipe;
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use crate::process::Birdhouse;

/// Opens a WebSocket to the relay of a server.
pub(crate) fn connect(server: &Birdhouse) -> WebSocket<TcpStream> {
    pipe::ws(pipe::tcp(server.port("serving the relay").unwrap()).unwrap()).unwrap()
}

/// Sends a message; returns the first answer that is not an AUTH challenge.
pub(crate) fn ask<S: Read + Write>(socket: &mut WebSocket<S>, message: &Value) -> Value {
    socket.send(Message::text(message.to_string())).unwrap();
    loop {
        if let Message::Text(text) = socket.read().unwrap()
            && !text.starts_with("[\"AUTH\"")
        {
            return serde_json::from_str(&text).unwrap();
        }
    }
}
