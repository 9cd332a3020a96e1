//! From a listener to conversations: limits, PROXY header, TLS and WebSocket upgrade, as the listener says.

use std::io::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

use birdhouse_net::{
    Accepted, Certificate, ClientBounds, Compression, ConnectionGuard, Frames, Framing, Handshake, Lines, StatusCode,
    Transport, Upgraded, WhenFull, plain_response, upgrade,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::{Instrument as _, debug_span};

use crate::client::Client;
use crate::connection;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::limits::Limits;
use crate::response::error_reply;
use crate::service::Service;
use crate::settings::Listener;

/// A connection that was accepted.
struct Newcomer {
    service: Arc<Service>,
    id: u64,
    accepted: Accepted<Limits>,
}

/// A client that may speak.
struct Welcome {
    service: Arc<Service>,
    client: Arc<Client>,
    _permit: OwnedSemaphorePermit,
    _guard: ConnectionGuard,
    stopped: watch::Receiver<()>,
}

/// Serves clients of a listener until the sender of `stopped` is dropped; then waits for what is in flight.
pub(crate) async fn serve(
    socket: TcpListener,
    listener: Arc<Listener>,
    service: Arc<Service>,
    stopped: watch::Receiver<()>,
) {
    let places = Arc::new(Semaphore::new(listener.limits.connections.min(Semaphore::MAX_PERMITS)));
    let grace = service.settings.limits.shutdown_timeout;
    birdhouse_net::accept(
        socket,
        listener,
        (places, WhenFull::Refuse(refuse_full)),
        (stopped, grace),
        |accepted, all| {
            let (service, id) = (Arc::clone(&service), service.registry.next_id());
            let span = debug_span!("connection", listener = accepted.listener.name, id);
            let newcomer = Newcomer { service, id, accepted };
            // Each has a task that is no larger than its transport needs.
            match newcomer.accepted.listener.transport.clone() {
                Transport::Tcp => all.spawn(tcp(newcomer).instrument(span)),
                Transport::Tls(certificate) => all.spawn(tls(newcomer, certificate).instrument(span)),
                Transport::Ws => all.spawn(ws(newcomer).instrument(span)),
                Transport::Wss(certificate) => all.spawn(wss(newcomer, certificate).instrument(span)),
            };
        },
    )
    .await;
}

/// Lines over TCP.
async fn tcp(newcomer: Newcomer) {
    let Some((welcome, mut socket)) = newcomer.handshake().finish(newcomer.greet::<Lines>()).await else { return };
    let (reader, writer) = socket.split();
    welcome.converse(Lines::default(), Vec::new(), reader, writer).await;
}

/// Lines over TLS.
async fn tls(newcomer: Newcomer, certificate: Arc<Certificate>) {
    let opened = newcomer.handshake().finish(async {
        let (welcome, socket) = newcomer.greet::<Lines>().await?;
        Ok((welcome, certificate.accept(socket).await?))
    });
    let Some((welcome, stream)) = opened.await else { return };
    let (reader, writer) = tokio::io::split(stream);
    welcome.converse(Lines::default(), Vec::new(), reader, writer).await;
}

/// WebSocket messages over TCP.
async fn ws(newcomer: Newcomer) {
    let opened = newcomer.handshake().finish(async {
        let (welcome, socket) = newcomer.greet::<Frames>().await?;
        Ok((welcome, upgraded(socket).await?))
    });
    let Some((welcome, Upgraded { mut stream, read, compression })) = opened.await else { return };
    let (reader, writer) = stream.split();
    welcome.converse(Frames::new(compression), read, reader, writer).await;
}

/// WebSocket messages over TLS.
async fn wss(newcomer: Newcomer, certificate: Arc<Certificate>) {
    let opened = newcomer.handshake().finish(async {
        let (welcome, socket) = newcomer.greet::<Frames>().await?;
        Ok((welcome, upgraded(certificate.accept(socket).await?).await?))
    });
    let Some((welcome, Upgraded { stream, read, compression })) = opened.await else { return };
    let (reader, writer) = tokio::io::split(stream);
    welcome.converse(Frames::new(compression), read, reader, writer).await;
}

/// Accepts any request for a WebSocket, without compression: replies leave in the pieces in which they were made.
async fn upgraded<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Result<Upgraded<S>> {
    let (upgraded, ()) = upgrade(stream, Compression::Off, |_, is_websocket| {
        is_websocket.then_some(()).ok_or_else(|| plain_response(StatusCode::BAD_REQUEST, "WebSocket is spoken here\n"))
    })
    .await?;
    Ok(upgraded)
}

impl Newcomer {
    fn handshake(&self) -> Handshake {
        self.accepted.handshake(self.accepted.listener.limits.handshake_timeout)
    }

    /// Reads the client's address, and registers the connection.
    ///
    /// # Errors
    /// The PROXY header is malformed, or the client has too many connections.
    async fn greet<F: Framing>(mut self) -> Result<(Welcome, TcpStream)> {
        let origin = self.accepted.origin().await?;
        let (service, Accepted { listener, socket, permit, stopped, .. }) = (self.service, self.accepted);
        let Limits { client_connections, client_work, client_work_percent, client_unsent_bytes, .. } = listener.limits;
        let bounds = ClientBounds {
            connections: client_connections,
            work: client_work,
            work_percent: client_work_percent,
            unsent_bytes: client_unsent_bytes,
        };
        let Some(guard) = service.registry.enter(self.id, &listener.name, origin, &bounds, Instant::now()) else {
            refuse(&socket, &listener.transport, &RpcError::excessive("too many connections from one address"));
            return Err(Error::other("the client has too many connections"));
        };
        let client = Client::new::<F>(listener, origin.address(), Arc::clone(&guard.meter), &service.unsent);
        Ok((Welcome { service, client, _permit: permit, _guard: guard, stopped }, socket))
    }
}

impl Welcome {
    /// Serves the client. `read` are bytes that the handshake has read already.
    async fn converse<F: Framing>(
        mut self,
        framing: F,
        read: Vec<u8>,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
    ) {
        // The dropped sender is what `changed` reports as an error.
        let shutdown = async { drop(self.stopped.changed().await) };
        connection::run(self.service, self.client, (framing, read), reader, writer, shutdown).await;
    }
}

fn refuse_full(socket: &TcpStream, transport: &Transport) {
    refuse(socket, transport, &RpcError::excessive("the server has no place for another connection"));
}

/// Sends the error to a connection that needs no handshake. Any other connection just closes: refusing must cost less
/// than serving.
fn refuse(socket: &TcpStream, transport: &Transport, error: &RpcError) {
    if !matches!(transport, Transport::Tcp) {
        return;
    }
    let mut line = error_reply(&Id::null(), error);
    line.push(b'\n');
    // The send buffer of a new connection is empty: the line fits, or the client is gone.
    let _ = socket.try_write(&line);
}
