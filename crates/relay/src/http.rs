//! The entrance: a connection is encrypted if its listener says so, and its one request of HTTP becomes a WebSocket or
//! is answered with the relay's information document (NIP-11).

use std::io::Result;
use std::net::IpAddr;
use std::time::Instant;

use birdhouse_clients::client_address;
use birdhouse_net::{
    Accepted, ConnectionGuard, Response, StatusCode, Transport, Upgraded, header_values, plain_response, upgrade,
};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE,
    HOST, HeaderValue,
};
use hyper::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::info::document;
use crate::relay::Relay;

/// The media type of the information document.
const INFO: &str = "application/nostr+json";
/// Header in which a reverse proxy names the client whose request it passes on.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// A stream with or without TLS.
pub(crate) type Stream = Box<dyn Io>;

/// Both directions of a stream. One type for all transports, so that the connection's code exists once.
pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Io for S {}

/// A client that may speak.
pub(crate) struct Client {
    pub(crate) upgraded: Upgraded<Stream>,
    /// The `Host` of its request, empty without one: the name by which it knows the relay.
    pub(crate) host: String,
    pub(crate) guard: ConnectionGuard,
    pub(crate) stopped: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
}

/// Completes everything that comes before the first message.
///
/// # Errors
/// No WebSocket came of it; a request that could be read was answered.
pub(crate) async fn open(relay: &Relay, mut accepted: Accepted<()>) -> Result<Client> {
    let address = accepted.client_address().await?;
    let Accepted { listener, socket, permit, stopped, .. } = accepted;
    let stream: Stream = match &listener.transport {
        Transport::Tcp | Transport::Ws => Box::new(socket),
        Transport::Tls(certificate) | Transport::Wss(certificate) => Box::new(certificate.accept(socket).await?),
    };
    let admit =
        |request: &Request<Incoming>, is_websocket| admit(relay, &listener.name, address, request, is_websocket);
    let (upgraded, (guard, host)) = upgrade(stream, relay.settings.compression, admit).await?;
    Ok(Client { upgraded, host, guard, stopped, _permit: permit })
}

/// Lets a client in, or answers its request otherwise.
fn admit(
    relay: &Relay,
    listener: &str,
    from: IpAddr,
    request: &Request<Incoming>,
    is_websocket: bool,
) -> std::result::Result<(ConnectionGuard, String), Box<Response>> {
    let address = client_address(from, &header_values(request, FORWARDED_FOR), &relay.settings.proxies);
    if !relay.gate.is_welcome(address) {
        return Err(plain_response(StatusCode::FORBIDDEN, "your address is not wanted here\n"));
    }
    if !is_websocket {
        return Err(about(relay, request));
    }
    let (id, bounds) = (relay.registry.next_id(), relay.settings.limits.client());
    let guard = relay.registry.enter(id, listener, address, &bounds, Instant::now());
    let too_many = || plain_response(StatusCode::TOO_MANY_REQUESTS, "too many connections from your address\n");
    Ok((guard.ok_or_else(too_many)?, header_values(request, HOST.as_str())))
}

/// Answers a request for something else than a WebSocket.
fn about(relay: &Relay, request: &Request<Incoming>) -> Box<Response> {
    let is_info = request.headers().get(ACCEPT).is_some_and(wants_info);
    let mut response = match *request.method() {
        Method::OPTIONS => plain_response(StatusCode::NO_CONTENT, ""),
        Method::GET if is_info => {
            let document = document(&relay.settings, &relay.events).to_string();
            let mut response = Box::new(Response::new(document.into()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(INFO));
            response
        }
        Method::GET => plain_response(StatusCode::OK, "This is a Nostr relay: open it with a Nostr client.\n"),
        _ => plain_response(StatusCode::METHOD_NOT_ALLOWED, "GET or a WebSocket\n"),
    };
    // Web pages of any origin may read it (NIP-11).
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, OPTIONS"));
    response
}

/// True if the document is among the accepted types, of which each may have parameters (RFC 9110, 12.5.1).
fn wants_info(accept: &HeaderValue) -> bool {
    let types = accept.to_str().unwrap_or_default().split(',');
    types.filter_map(|one| one.split(';').next()).any(|one| one.trim().eq_ignore_ascii_case(INFO))
}
