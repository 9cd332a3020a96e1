//! From a listener to conversations: limits, PROXY header, TLS and WebSocket upgrade, as the listener says.

use std::future::ready;
use std::io::{Error, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use birdhouse_net::{
    Accepted, ClientBounds, Compression, ConnectionGuard, Frames, Lines, Purpose, Response, Seated, StatusCode, Stream,
    Transport, Upgraded, handshake, plain_response, upgrade,
};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::client::Client;
use crate::connection::{Parts, run};
use crate::error::RpcError;
use crate::limits::Limits;
use crate::protocol::Id;
use crate::response::error_reply;
use crate::service::Service;
use crate::settings::Listener;

/// A client that may speak.
struct Newcomer {
    listener: Arc<Listener>,
    guard: ConnectionGuard,
    stream: Framed,
    permit: OwnedSemaphorePermit,
}

/// A connection after its handshake.
type Conversation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The client's stream, by the way in which messages lie in it.
enum Framed {
    Lines(Stream),
    Frames(Upgraded<Stream>),
}

/// Serves one client, until it goes or must leave for a newcomer.
pub(crate) fn converse(service: Arc<Service>, accepted: Accepted<Limits>) -> impl Future<Output = ()> + Send {
    let seat = Arc::clone(&accepted.seat);
    // The handshake and what follows have memory of their own size: the task has that of its largest state.
    let opening = Box::pin(open(service, accepted));
    async move {
        let serving = async {
            if let Some(conversation) = opening.await {
                conversation.await;
            }
        };
        seat.hold(serving).await;
    }
}

async fn open(service: Arc<Service>, accepted: Accepted<Limits>) -> Option<Conversation> {
    let (within, stopped) = (accepted.listener.limits.handshake_timeout, accepted.stopped.clone());
    let Newcomer { listener, guard, stream, permit } = handshake(within, stopped, greet(&service, accepted)).await?;
    let meter = Arc::clone(&guard.meter);
    Some(match stream {
        Framed::Lines(stream) => {
            let (client, framing) = (Client::new::<Lines>(listener, meter, &service.unsent), Lines::default());
            Box::pin(run(Parts { service, client, framing, read_already: Vec::new(), stream, guard, permit }))
        }
        Framed::Frames(Upgraded { stream, read: read_already, compression }) => {
            let (client, framing) = (Client::new::<Frames>(listener, meter, &service.unsent), Frames::new(compression));
            Box::pin(run(Parts { service, client, framing, read_already, stream, guard, permit }))
        }
    })
}

/// Reads the client's address, registers the connection, and completes its handshake. A WebSocket has no compression:
/// replies leave in the pieces in which they were made.
///
/// # Errors
/// The handshake failed, or the client is banned or has too many connections.
async fn greet(service: &Service, mut accepted: Accepted<Limits>) -> Result<Newcomer> {
    let origin = accepted.origin().await?;
    let is_local = accepted.is_local();
    let Accepted { id, listener, socket, permit, seat, .. } = accepted;
    let Limits { client_connections, client_work, client_work_percent, client_unsent_bytes, .. } = listener.limits;
    let bounds = ClientBounds {
        connections: client_connections,
        work: client_work,
        work_percent: client_work_percent,
        unsent_bytes: client_unsent_bytes,
    };
    let entered = service.registry.enter(id, &listener.name, origin, &bounds, Instant::now());
    let guard = entered.map_err(|why| {
        refuse(&socket, &listener.transport, &RpcError::excessive(why));
        Error::other(why)
    })?;
    // Before the handshake, which costs more than anything that a stranger can ask for with as few bytes.
    if let Err(overdrawn) = guard.meter.charge(listener.transport.opening_work(), Instant::now()) {
        refuse(&socket, &listener.transport, &RpcError::overdrawn(overdrawn));
        return Err(Error::other("the client has used more than its share"));
    }
    seat.complete(origin);
    let stream = listener.transport.open(Seated::new(socket, seat)).await?;
    let stream = match &listener.transport {
        Transport::Tcp | Transport::Tls(_) => Framed::Lines(stream),
        Transport::Ws | Transport::Wss(_) => {
            let pages = is_local.then_some(&service.settings.pages);
            let admitted = upgrade(stream, Compression::Off, |request, purpose| {
                let allowed = pages.map_or(Ok(()), |pages| pages.check(request.headers()));
                ready(if purpose == Purpose::WebSocket { allowed } else { Err(no_websocket()) })
            });
            Framed::Frames(admitted.await?.0)
        }
    };
    Ok(Newcomer { listener, guard, stream, permit })
}

/// Returns the answer to a request for anything else.
fn no_websocket() -> Box<Response> {
    plain_response(StatusCode::BAD_REQUEST, "WebSocket is spoken here\n")
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
