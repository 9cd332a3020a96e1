//! From an accepted socket to a conversation: PROXY header, TLS, WebSocket upgrade, as the listener says.
//!
//! All of it must be done within [`Limits::handshake_timeout`](crate::Limits); until then a connection costs one task and
//! one socket.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tracing::debug;

use crate::client::Client;
use crate::connection;
use crate::frames::Frames;
use crate::framing::Framing;
use crate::lines::Lines;
use crate::listener::{self, Listener};
use crate::proxy;
use crate::service::Service;
use crate::sessions::Visit;
use crate::tls::Certificate;

/// A connection that was accepted.
pub(crate) struct Arrival {
    pub(crate) service: Arc<Service>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) socket: TcpStream,
    pub(crate) from: SocketAddr,
    pub(crate) place: OwnedSemaphorePermit,
    pub(crate) id: u64,
    /// Its sender is dropped when the server ends.
    pub(crate) stopped: watch::Receiver<()>,
}

/// A client that is known and may speak.
struct Guest {
    service: Arc<Service>,
    client: Arc<Client>,
    _place: OwnedSemaphorePermit,
    _visit: Visit,
    stopped: watch::Receiver<()>,
}

/// The bounds of what comes before the first message.
struct Shaking {
    deadline: Instant,
    stopped: watch::Receiver<()>,
}

/// Lines over TCP.
pub(crate) async fn tcp(arrival: Arrival) {
    let shaking = arrival.shaking();
    let arrived = shaking.finish(arrival.greet::<Lines>());
    let Some((guest, mut socket)) = arrived.await else { return };
    let (reader, writer) = socket.split();
    guest.converse::<Lines>(reader, writer).await;
}

/// Lines over TLS.
pub(crate) async fn tls(arrival: Arrival, certificate: Arc<Certificate>) {
    let shaking = arrival.shaking();
    let arrived = shaking.finish(async {
        let (guest, socket) = arrival.greet::<Lines>().await?;
        Ok((guest, certificate.accept(socket).await?))
    });
    let Some((guest, stream)) = arrived.await else { return };
    let (reader, writer) = tokio::io::split(stream);
    guest.converse::<Lines>(reader, writer).await;
}

/// WebSocket messages over TCP.
pub(crate) async fn ws(arrival: Arrival) {
    let shaking = arrival.shaking();
    let arrived = shaking.finish(async {
        let (guest, socket) = arrival.greet::<Frames>().await?;
        Ok((guest, upgrade(socket).await?))
    });
    let Some((guest, mut socket)) = arrived.await else { return };
    let (reader, writer) = socket.split();
    guest.converse::<Frames>(reader, writer).await;
}

/// WebSocket messages over TLS.
pub(crate) async fn wss(arrival: Arrival, certificate: Arc<Certificate>) {
    let shaking = arrival.shaking();
    let arrived = shaking.finish(async {
        let (guest, socket) = arrival.greet::<Frames>().await?;
        Ok((guest, upgrade(certificate.accept(socket).await?).await?))
    });
    let Some((guest, stream)) = arrived.await else { return };
    let (reader, writer) = tokio::io::split(stream);
    guest.converse::<Frames>(reader, writer).await;
}

/// Does the server's side of a WebSocket handshake. Nothing is read past it: the client must wait for its end.
async fn upgrade<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Result<S> {
    // The buffers would be for messages.
    let config = WebSocketConfig::default().read_buffer_size(0).write_buffer_size(0);
    let upgraded = accept_async_with_config(stream, Some(config)).await.map_err(Error::other)?;
    Ok(upgraded.into_inner())
}

impl Shaking {
    /// In time, and while the server runs, or not at all. On the heap, for a handshake is soon over, and its memory
    /// would stay with the task.
    async fn finish<T>(mut self, handshake: impl Future<Output = Result<T>>) -> Option<T> {
        let handshake = timeout_at(self.deadline, Box::pin(handshake));
        let shaken = tokio::select! {
            shaken = handshake => shaken.map_err(Error::from).flatten(),
            _ = self.stopped.changed() => return None,
        };
        shaken.inspect_err(|error| debug!(%error, "no handshake")).ok()
    }
}

impl Arrival {
    fn shaking(&self) -> Shaking {
        Shaking { deadline: Instant::now() + self.listener.limits.handshake_timeout, stopped: self.stopped.clone() }
    }

    /// Learns whose connection it is, and lets it in.
    async fn greet<F: Framing>(mut self) -> Result<(Guest, TcpStream)> {
        // Answers are written whole; waiting for more would only delay them. It fails on dead sockets only.
        let _ = self.socket.set_nodelay(true);
        let address = proxy::client_address(&self.listener.proxy, &mut self.socket, self.from).await?;
        let visit = match self.service.sessions.enter(self.id, &self.listener, address, std::time::Instant::now()) {
            Ok(visit) => visit,
            Err(error) => {
                listener::refuse(&self.socket, &self.listener.transport, &error);
                return Err(Error::other("the client has too many connections"));
            }
        };
        let meter = Arc::clone(&visit.meter);
        let client = Client::new::<F>(self.listener, address, meter, &self.service.unsent);
        let (service, stopped) = (self.service, self.stopped);
        let guest = Guest { service, client, _place: self.place, _visit: visit, stopped };
        Ok((guest, self.socket))
    }
}

impl Guest {
    async fn converse<F: Framing>(mut self, reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin) {
        // The dropped sender is what `changed` reports as an error.
        let shutdown = async { drop(self.stopped.changed().await) };
        connection::run::<F>(self.service, self.client, reader, writer, shutdown).await;
    }
}
