//! The WebSocket to another relay.

use std::net::SocketAddr;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Bytes, Error as SocketError, Message as Frame, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::guard::{ANSWER_BYTES_MAX, Connection, Guard, Reached};
use crate::target::{Encryption, Target};

/// Bytes that are read from the socket at a time.
const READ_BYTES: usize = 64 * 1024;
/// Those of a conversation of a few messages.
const SHORT_READ_BYTES: usize = 4096;

/// A WebSocket to another relay. Its halves may be used by two tasks.
#[derive(Debug)]
pub struct Link {
    /// Messages of the relay.
    pub reader: LinkReader,
    /// Messages to it.
    pub writer: LinkWriter,
}

/// A WebSocket, and the address of the relay.
#[derive(Debug)]
pub struct Opened {
    /// The WebSocket.
    pub link: Link,
    /// The relay's address.
    pub address: SocketAddr,
}

/// The half that reads.
#[derive(Debug)]
pub struct LinkReader {
    stream: SplitStream<WebSocketStream<Connection>>,
    name: String,
}

/// The half that writes.
#[derive(Debug)]
pub struct LinkWriter {
    sink: SplitSink<WebSocketStream<Connection>, Frame>,
    name: String,
}

/// Something that the relay has sent.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(Utf8Bytes),
    /// A ping or a pong: the relay is there.
    Alive,
}

impl Link {
    /// Opens a WebSocket for a few messages, all together bounded by [`ANSWER_BYTES_MAX`]. The caller bounds the time.
    ///
    /// # Errors
    /// The reason, in one line without secrets.
    pub async fn open_short(guard: &Guard, relay: &Target) -> Result<Self, String> {
        let connection = guard.connect(relay).await?;
        Self::upgrade(connection, relay, ANSWER_BYTES_MAX, SHORT_READ_BYTES).await
    }

    /// Opens a WebSocket for a conversation of any length, whose messages have this many bytes at most. The caller
    /// bounds the time.
    ///
    /// # Errors
    /// As [`Self::open_short`].
    pub async fn open(guard: &Guard, relay: &Target, message_bytes: usize) -> Result<Opened, String> {
        let Reached { connection, address } = guard.connect_at_length(relay).await?;
        Ok(Opened { link: Self::upgrade(connection, relay, message_bytes, READ_BYTES).await?, address })
    }

    async fn upgrade(
        connection: Connection,
        relay: &Target,
        message_bytes: usize,
        read_bytes: usize,
    ) -> Result<Self, String> {
        let scheme = if relay.scheme.encryption() == Encryption::Tls { "wss" } else { "ws" };
        let url = format!("{scheme}://{}{}", relay.authority(), relay.path());
        let config = WebSocketConfig::default()
            .max_message_size(Some(message_bytes))
            .max_frame_size(Some(message_bytes))
            .read_buffer_size(read_bytes);
        let name = relay.to_string();
        let opened = client_async_with_config(url, connection, Some(config)).await;
        let (socket, _) = opened.map_err(|error| failed(&name, &error))?;
        let (sink, stream) = socket.split();
        Ok(Self { reader: LinkReader { stream, name: name.clone() }, writer: LinkWriter { sink, name } })
    }
}

impl LinkReader {
    /// Waits for the relay. Pings are answered.
    ///
    /// # Errors
    /// The reason why there will be nothing more.
    pub async fn next(&mut self) -> Result<Received, String> {
        loop {
            match self.stream.next().await {
                Some(Ok(Frame::Text(text))) => return Ok(Received::Message(text)),
                Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => return Ok(Received::Alive),
                Some(Ok(Frame::Close(_))) | None => return Err(format!("{} hung up", self.name)),
                // No relay sends binary messages.
                Some(Ok(Frame::Binary(_) | Frame::Frame(_))) => {}
                Some(Err(error)) => return Err(failed(&self.name, &error)),
            }
        }
    }

    /// Waits for a message of the relay.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn message(&mut self) -> Result<Utf8Bytes, String> {
        loop {
            if let Received::Message(text) = self.next().await? {
                return Ok(text);
            }
        }
    }
}

impl LinkWriter {
    /// Sends a message, and those that were put down before.
    ///
    /// # Errors
    /// The reason why it is not sent.
    pub async fn send(&mut self, message: String) -> Result<(), String> {
        let sent = self.sink.send(Frame::text(message)).await;
        sent.map_err(|error| failed(&self.name, &error))
    }

    /// Puts a message down, to be sent with the next one.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn put(&mut self, message: String) -> Result<(), String> {
        let put = self.sink.feed(Frame::text(message)).await;
        put.map_err(|error| failed(&self.name, &error))
    }

    /// Sends what was put down.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn flush(&mut self) -> Result<(), String> {
        let flushed = self.sink.flush().await;
        flushed.map_err(|error| failed(&self.name, &error))
    }

    /// Sends a ping.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn ping(&mut self) -> Result<(), String> {
        let sent = self.sink.send(Frame::Ping(Bytes::new())).await;
        sent.map_err(|error| failed(&self.name, &error))
    }

    /// Ends the conversation, as far as the relay takes the message.
    pub async fn close(mut self) {
        let _ = self.sink.close().await;
    }
}

/// Returns the tags of the answer to a relay's challenge, an event of kind 22242 (NIP-42).
pub fn authentication(relay: &Target, challenge: String) -> Vec<Vec<String>> {
    let tag = |name: &str, value: String| vec![name.to_owned(), value];
    vec![tag("relay", format!("{relay}{}", relay.path())), tag("challenge", challenge)]
}

fn failed(name: &str, error: &SocketError) -> String {
    match error {
        SocketError::Http(answer) => format!("{name} is no relay: it answered {}", answer.status()),
        error => format!("failed to talk to {name}: {error}"),
    }
}
