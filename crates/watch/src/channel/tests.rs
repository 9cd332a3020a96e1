//! Values that the tests of all channels use.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dial::{Guard, Refused};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::clock::Clock;
use super::message::{Message, Outcome, Priority};

/// A message of a payment of 150 000 sat.
pub(super) fn message() -> Message {
    Message {
        id: "00112233445566778899aabbccddeeff".into(),
        created: 1_790_000_000,
        title: "Savings".into(),
        line: "Savings: received 0.00150000 BTC, unconfirmed, txid aa11".into(),
        line_without_amounts: "Savings: received, unconfirmed, txid aa11".into(),
        priority: Priority::Usual,
        click: Some("https://example.org/tx/aa11".into()),
        body: json!({
            "id": "00112233445566778899aabbccddeeff", "kind": "seen", "watch": "Savings", "txid": "aa11",
            "received": 150_000, "spent": 0, "balance": { "confirmed": 150_000, "unconfirmed": 0 },
            "outputs": [{ "vout": 1, "value": 150_000, "script": "0014" }],
            "inputs": [{ "vin": 0, "value": 700, "script": "0015" }],
        }),
    }
}

/// A request that a receiver got.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut of_name = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = of_name.next().map(|(_, value)| value.as_str());
        assert!(of_name.next().is_none(), "{name} is there twice");
        value
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A receiver of HTTP on loopback, which answers every request with the same bytes.
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    pub(super) received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub(super) async fn start(answer: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, received) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (answer, kept) = (answer.into(), Arc::clone(&received));
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let Some(request) = read_request(&mut socket).await else { continue };
                kept.lock().push(request);
                let _ = socket.write_all(&answer).await;
            }
        });
        Self { address, received }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn only(&self) -> Received {
        let received = self.received.lock();
        assert_eq!(received.len(), 1);
        received[0].clone()
    }
}

/// Reads one request with `Content-Length`.
pub(super) async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut lines = head.split("\r\n");
            let line = lines.next().unwrap().to_owned();
            let headers: Vec<_> = lines.map(|line| line.split_once(": ").unwrap()).collect();
            let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = bytes[end + 4..end + 4 + length].to_vec();
                let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                return Some(Received { line, headers, body });
            }
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A guard that refuses nothing.
pub(super) fn guard() -> Arc<Guard> {
    Arc::new(Guard::new(Refused::default()))
}

/// A clock that stands still, at the time of [`message`] and some seconds.
pub(super) fn clock() -> Clock {
    Clock::new(|| Duration::from_secs(1_790_000_042))
}

/// Returns the reason of a failure that may pass.
pub(super) fn why(outcome: Outcome) -> String {
    match outcome {
        Outcome::Retry { why, .. } => why,
        other => panic!("{other:?}"),
    }
}
