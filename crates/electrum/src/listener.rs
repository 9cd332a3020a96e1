//! One address where clients connect: what is spoken there, accepting, and the end of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, debug_span, info, warn};

use crate::envelope::Id;
use crate::error::RpcError;
use crate::limits::Limits;
use crate::proxy::Proxy;
use crate::response::error_reply;
use crate::service::Service;
use crate::tls::Certificate;
use crate::transport::{self, Arrival};

/// How long to wait when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a listener is to its clients.
#[derive(Debug, Clone)]
pub struct Listener {
    /// Its name in logs.
    pub name: String,
    /// What is spoken.
    pub transport: Transport,
    /// Whether a reverse proxy stands before it.
    pub proxy: Proxy,
    /// Its bounds.
    pub limits: Limits,
}

/// What lies between TCP and the messages.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Lines.
    Tcp,
    /// Lines in TLS.
    Tls(Arc<Certificate>),
    /// WebSocket messages.
    Ws,
    /// WebSocket messages in TLS.
    Wss(Arc<Certificate>),
}

impl Transport {
    /// Its name in settings.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls(_) => "tls",
            Self::Ws => "ws",
            Self::Wss(_) => "wss",
        }
    }
}

/// Accepts until `stopped`, whose sender is dropped; then waits for what is in flight.
pub(crate) async fn run(
    socket: TcpListener,
    listener: Arc<Listener>,
    service: Arc<Service>,
    mut stopped: watch::Receiver<()>,
) {
    let places = Arc::new(Semaphore::new(listener.limits.connections.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    let mut accepted_count: u64 = 0;
    let for_connections = stopped.clone();
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            accepted = socket.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (socket, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(listener = listener.name, %error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            let error = RpcError::excessive("the server has no place for another connection");
            refuse(&socket, &listener.transport, &error);
            continue;
        };
        accepted_count += 1;
        let id = service.sessions.next_id();
        let span = debug_span!("connection", listener = listener.name, id);
        let (service, listener) = (Arc::clone(&service), Arc::clone(&listener));
        let arrival = Arrival { service, listener, socket, from, place, id, stopped: for_connections.clone() };
        welcome(arrival, span, &mut connections);
    }
    drop(socket);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let in_time = timeout(service.settings.limits.shutdown_timeout, all_ended).await.is_ok();
    info!(listener = listener.name, connections = accepted_count, in_time, "stopped listening");
}

/// Gives each connection a task that is no larger than its transport needs.
fn welcome(arrival: Arrival, span: tracing::Span, connections: &mut JoinSet<()>) {
    match arrival.listener.transport.clone() {
        Transport::Tcp => connections.spawn(transport::tcp(arrival).instrument(span)),
        Transport::Tls(certificate) => connections.spawn(transport::tls(arrival, certificate).instrument(span)),
        Transport::Ws => connections.spawn(transport::ws(arrival).instrument(span)),
        Transport::Wss(certificate) => connections.spawn(transport::wss(arrival, certificate).instrument(span)),
    };
}

/// Says that there is no place, where that takes no handshake. Elsewhere the connection just closes: refusing must
/// cost less than serving.
pub(crate) fn refuse(socket: &TcpStream, transport: &Transport, error: &RpcError) {
    if !matches!(transport, Transport::Tcp) {
        return;
    }
    let mut line = error_reply(&Id::null(), error);
    line.push(b'\n');
    // The newcomer's send buffer is empty: the line fits, or the client is gone.
    let _ = socket.try_write(&line);
}
