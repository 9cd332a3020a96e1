//! The receiving side of a webhook, on a connected socket of HTTP/1.1.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// A request of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The header `webhook-id`.
    pub id: String,
    /// The body.
    pub body: Value,
}

/// Reads a request; `None` if the connection ends before.
///
/// # Panics
/// Its body is not JSON.
pub fn read(socket: &mut TcpStream) -> Option<Delivery> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if body.len() < header("content-length:")?.parse().ok()? {
            continue;
        }
        let body = serde_json::from_str(body).expect("the body is JSON");
        return Some(Delivery { id: header("webhook-id:")?.to_owned(), body });
    }
}

/// Accepts the request; `None` if the connection has ended.
pub fn accept(socket: &mut TcpStream) -> Option<()> {
    socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()
}
