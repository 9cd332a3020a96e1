//! The entrance: a connection is encrypted if its listener says so, and its one request of HTTP becomes a WebSocket or
//! is answered with the relay's information document (NIP-11).

use std::io::Result;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Instant;

use birdhouse_clients::{Forwarding, Origin, is_private};
use birdhouse_net::{Accepted, ConnectionGuard, Response, StatusCode, Stream, Upgraded, plain_response, upgrade};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE,
    FORWARDED, HeaderValue,
};
use hyper::{Method, Request};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::warn;

use crate::info::document;
use crate::relay::Relay;

/// The media type of the information document.
const INFO: &str = "application/nostr+json";
/// Header in which a reverse proxy names the client whose request it passes on, beside the standard one.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// A client that may speak.
pub(crate) struct Client {
    pub(crate) upgraded: Upgraded<Stream>,
    /// Our end of its socket.
    pub(crate) local: SocketAddr,
    pub(crate) guard: ConnectionGuard,
    pub(crate) stopped: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
}

/// Completes everything that comes before the first message.
///
/// # Errors
/// No WebSocket came of it; a request that could be read was answered.
pub(crate) async fn open(relay: &Relay, mut accepted: Accepted<()>) -> Result<Client> {
    let from = accepted.origin().await?;
    let Accepted { id, listener, socket, permit, stopped, .. } = accepted;
    let local = socket.local_addr()?;
    let stream = listener.transport.open(socket).await?;
    let admit =
        |request: &Request<Incoming>, is_websocket| admit(relay, (id, &listener.name), from, request, is_websocket);
    let (upgraded, guard) = upgrade(stream, relay.settings.compression, admit).await?;
    Ok(Client { upgraded, local, guard, stopped, _permit: permit })
}

/// Lets a client in, or answers its request otherwise.
fn admit(
    relay: &Relay,
    (id, listener): (u64, &str),
    from: Origin,
    request: &Request<Incoming>,
    is_websocket: bool,
) -> std::result::Result<ConnectionGuard, Box<Response>> {
    let forwarding = Forwarding {
        x_forwarded_for: header_bytes(request, FORWARDED_FOR),
        forwarded: header_bytes(request, FORWARDED.as_str()),
    };
    let origin = match forwarding.origin(from.address(), &relay.settings.proxies) {
        // The PROXY header says more of it than its address.
        Origin::Client(address) if address == from.address() => from,
        origin => origin,
    };
    warn_of_strangers(relay, &forwarding, from.address(), origin);
    if !relay.gate().is_welcome(origin.address()) {
        return Err(plain_response(StatusCode::FORBIDDEN, "your address is not wanted here\n"));
    }
    if !is_endpoint(relay, request.uri().path()) {
        return Err(plain_response(StatusCode::NOT_FOUND, "the relay is at another path\n"));
    }
    if !is_websocket {
        return Err(about(relay, request));
    }
    let guard = relay.registry.enter(id, listener, origin, &relay.settings.limits.client(), Instant::now());
    let too_many = || plain_response(StatusCode::TOO_MANY_REQUESTS, "too many connections from your address\n");
    guard.ok_or_else(too_many)
}

fn header_bytes<'a>(request: &'a Request<Incoming>, name: &str) -> Vec<&'a [u8]> {
    request.headers().get_all(name).iter().map(HeaderValue::as_bytes).collect()
}

/// Warns once of a reverse proxy that is not trusted: its clients cannot be told apart.
fn warn_of_strangers(relay: &Relay, forwarding: &Forwarding<'_>, socket: IpAddr, origin: Origin) {
    let is_stranger = !forwarding.is_empty() && origin == Origin::Unnamed(socket.to_canonical()) && is_private(socket);
    if is_stranger && !relay.has_warned_of_proxy.swap(true, Ordering::Relaxed) {
        warn!(
            proxy = %socket,
            "a reverse proxy forwards clients whose addresses are not known, so they share one pool of limits; \
             set relay-proxy-from to its network, and let it write X-Forwarded-For or Forwarded"
        );
    }
}

/// True for the one path of the relay (NIP-01), or one that `relay-url` names: a reverse proxy may pass it on.
fn is_endpoint(relay: &Relay, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    path.is_empty() || relay.events.urls().iter().any(|url| url.path() == path)
}

/// Answers a request for something else than a WebSocket.
fn about(relay: &Relay, request: &Request<Incoming>) -> Box<Response> {
    let is_info = request.headers().get(ACCEPT).is_some_and(wants_info);
    let mut response = match *request.method() {
        Method::OPTIONS => plain_response(StatusCode::NO_CONTENT, ""),
        Method::GET | Method::HEAD if is_info => {
            let document = document(&relay.settings, &relay.events).to_string();
            let mut response = Box::new(Response::new(document.into()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(INFO));
            response
        }
        Method::GET | Method::HEAD => {
            plain_response(StatusCode::OK, "This is a Nostr relay: open it with a Nostr client.\n")
        }
        _ => plain_response(StatusCode::METHOD_NOT_ALLOWED, "GET or a WebSocket\n"),
    };
    // Web pages of any origin may read it (NIP-11).
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    response
}

/// True if the document is among the accepted types, of which each may have parameters (RFC 9110, 12.5.1).
fn wants_info(accept: &HeaderValue) -> bool {
    let types = accept.to_str().unwrap_or_default().split(',');
    types.filter_map(|one| one.split(';').next()).any(|one| one.trim().eq_ignore_ascii_case(INFO))
}
