//! The connection to another relay: one task writes, so that reading never waits for a peer that reads nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use birdhouse_dial::relay::{Accepted, Answer, Link, LinkReader, LinkWriter, Opened, Received, authentication};
use birdhouse_dial::{Guard, PROXY_TIMEOUT, Scheme, Target};
use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::came::Came;
use crate::clock::WallClock;
use crate::limits::{CONNECT_TIMEOUT, MESSAGE_BYTES_MAX, PROOFS_MAX, SILENCE_TIMEOUT, UNWRITTEN_MAX};

/// Kind of the proof of an identity to a relay (NIP-42).
const AUTHENTICATION: Kind = Kind::CLIENT_AUTH;

/// A connection to another relay.
pub struct Peer {
    target: Target,
    /// Its address.
    pub address: SocketAddr,
    reader: LinkReader,
    to: mpsc::Sender<Order>,
    writing: JoinHandle<()>,
    keys: Option<Arc<Keys>>,
    clock: WallClock,
    /// Id of the proof of our identity that is not answered yet.
    proof: Option<String>,
    /// Number of proofs.
    proofs: u32,
    /// The ids of its events, if they are kept for a stream.
    came: Option<Arc<Came>>,
}

/// Something to be written.
enum Order {
    Message(String),
    Ping,
}

/// Parses the URL of a relay.
///
/// # Errors
/// The reason why it is none.
pub fn relay_url(url: &str) -> Result<Target, String> {
    Target::parse(url.trim(), &[Scheme::Wss, Scheme::Ws])
}

impl Peer {
    /// Connects to a relay. With keys, its challenges are answered.
    ///
    /// # Errors
    /// The reason, in one line without secrets.
    pub async fn connect(
        guard: &Guard,
        target: Target,
        keys: Option<Arc<Keys>>,
        clock: WallClock,
    ) -> Result<Self, String> {
        let patience = if target.has_proxy() { CONNECT_TIMEOUT + PROXY_TIMEOUT } else { CONNECT_TIMEOUT };
        let opened = timeout(patience, Link::open(guard, &target, MESSAGE_BYTES_MAX)).await;
        let late = |_| format!("{target} has not answered in {} s", patience.as_secs());
        let Opened { link: Link { reader, writer }, address } = opened.map_err(late)??;
        let (to, orders) = mpsc::channel(UNWRITTEN_MAX);
        let writing = tokio::spawn(write(writer, orders));
        Ok(Self { target, address, reader, to, writing, keys, clock, proof: None, proofs: 0, came: None })
    }

    /// The same connection, the ids of whose events are kept.
    pub(crate) fn noting(mut self, came: Option<Arc<Came>>) -> Self {
        self.came = came;
        self
    }

    /// Returns where the ids of its events are kept.
    pub(crate) fn came(&self) -> Option<Arc<Came>> {
        self.came.clone()
    }

    /// Returns the wall clock.
    pub(crate) fn clock(&self) -> &WallClock {
        &self.clock
    }

    /// Returns the relay's name, without path and query.
    pub fn name(&self) -> String {
        self.target.to_string()
    }

    /// Sends a message; returns its bytes.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) async fn send(&self, message: &Value) -> Result<usize, String> {
        self.send_text(message.to_string()).await
    }

    /// Sends a message; returns its bytes.
    ///
    /// # Errors
    /// The connection has ended, or the peer reads nothing.
    pub(crate) async fn send_text(&self, message: String) -> Result<usize, String> {
        let bytes = message.len();
        self.order(Order::Message(message)).await?;
        Ok(bytes)
    }

    /// Sends a ping.
    ///
    /// # Errors
    /// As [`Self::send_text`].
    pub(crate) async fn ping(&self) -> Result<(), String> {
        self.order(Order::Ping).await
    }

    async fn order(&self, order: Order) -> Result<(), String> {
        match timeout(SILENCE_TIMEOUT, self.to.send(order)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(format!("the connection to {} has ended", self.target)),
            Err(_) => Err(format!("{} has read nothing in {} s", self.target, SILENCE_TIMEOUT.as_secs())),
        }
    }

    /// Waits for the peer.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) async fn next(&mut self) -> Result<Received, String> {
        self.reader.next().await
    }

    /// Answers a challenge, if there are keys.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) async fn prove(&mut self, challenge: String) -> Result<(), String> {
        let Some(keys) = &self.keys else { return Ok(()) };
        self.proofs += 1;
        if self.proofs > PROOFS_MAX {
            return Err(format!("{} asks for a proof of identity again and again", self.target));
        }
        let tags = authentication(&self.target, challenge).into_iter().map(Tag).collect();
        let created_at = Timestamp(self.clock.seconds());
        let proof = UnsignedEvent { created_at, kind: AUTHENTICATION, tags, content: String::new() }.sign(keys);
        self.proof = Some(proof.id.to_string());
        self.send_text(format!("[\"AUTH\",{}]", proof.to_json())).await.map(drop)
    }

    /// Takes the outcome of the proof; `None` if an answer is no such outcome.
    ///
    /// # Errors
    /// The peer refuses the proof.
    pub(crate) fn proved(&mut self, answer: &Answer<'_>) -> Option<Result<(), String>> {
        let Answer::Ok { id, accepted, reason } = answer else { return None };
        if self.proof.as_ref() != Some(id) {
            return None;
        }
        self.proof = None;
        Some(match accepted {
            Accepted::Yes => Ok(()),
            Accepted::No => Err(format!("{} refuses our identity: {reason}", self.target)),
        })
    }

    /// True while a proof of our identity is not answered.
    pub(crate) fn is_proving(&self) -> bool {
        self.proof.is_some()
    }

    /// True if challenges are answered.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may wait for a peer that reads nothing.
        self.writing.abort();
    }
}

/// Writes messages; those that wait are written together.
async fn write(mut writer: LinkWriter, mut orders: mpsc::Receiver<Order>) {
    // Reading fails, too, and has the reason.
    while let Some(order) = orders.recv().await {
        let mut next = Some(order);
        while let Some(order) = next {
            let written = match order {
                Order::Message(message) => writer.put(message).await,
                Order::Ping => writer.ping().await,
            };
            if written.is_err() {
                return;
            }
            next = orders.try_recv().ok();
        }
        if writer.flush().await.is_err() {
            return;
        }
    }
}
