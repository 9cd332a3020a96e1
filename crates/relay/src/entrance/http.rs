//! The entrance: a connection is encrypted if its listener says so, and its one request of HTTP becomes a WebSocket or
//! is answered: with the relay's information document (NIP-11), with the page for people, or by the management API
//! (NIP-86).

use std::io::{Error, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use birdhouse_clients::{Forwarding, Origin, is_private, is_proxy};
use birdhouse_net::{
    Accepted, ConnectionGuard, Purpose, Response, Seat, Seated, StatusCode, Stream, Unwelcome, Upgraded,
    plain_response, upgrade,
};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, FORWARDED, HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::warn;

use crate::entrance::info::document;
use crate::entrance::management;
use crate::entrance::management::Ends;
use crate::entrance::page::{About, policy};
use crate::relay::Relay;

/// The media type of the information document.
const INFO: &str = "application/nostr+json";
/// The media type of the page for people.
const PAGE: &str = "text/html; charset=utf-8";
/// Header in which a reverse proxy names the client whose request it passes on, beside the standard one.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// A client that may speak.
pub(crate) struct Client {
    pub(crate) upgraded: Upgraded<Stream>,
    /// Our end of its socket.
    pub(crate) local: SocketAddr,
    pub(crate) guard: ConnectionGuard,
    pub(crate) seat: Arc<Seat>,
    pub(crate) stopped: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
}

/// A connection that was accepted.
#[derive(Clone, Copy)]
struct Arrival<'a> {
    id: u64,
    listener: &'a str,
    from: Origin,
    /// Our end of its socket.
    local: SocketAddr,
    /// It came over loopback, and no proxy announced it.
    is_local: bool,
    seat: &'a Seat,
    /// Work for which its client is charged once its request has said who that is.
    owed: Duration,
}

/// Completes everything that comes before the first message.
///
/// # Errors
/// No WebSocket came of it; a request that could be read was answered.
pub(crate) async fn open(relay: &Relay, mut accepted: Accepted<()>, seat: Arc<Seat>) -> Result<Client> {
    let from = accepted.origin().await?;
    let is_local = accepted.is_local();
    let Accepted { id, listener, socket, permit, stopped, .. } = accepted;
    let local = socket.local_addr()?;
    // Before the handshake, which costs more than anything that a stranger can ask for with as few bytes.
    let work = listener.transport.opening_work();
    let is_of_proxy = is_proxy(&from.address().to_canonical(), &relay.settings.proxies);
    if !is_of_proxy && !has_paid(relay, from, work) {
        return Err(Error::other("the client has used more than its share"));
    }
    let stream = listener.transport.open(Seated::new(socket, Arc::clone(&seat))).await?;
    let owed = if is_of_proxy { work } else { Duration::ZERO };
    let arrival = Arrival { id, listener: &listener.name, from, local, is_local, seat: &seat, owed };
    let admit = |request: Request<Incoming>, purpose| admit(relay, arrival, request, purpose);
    let (upgraded, guard) = upgrade(stream, relay.settings.compression, admit).await?;
    Ok(Client { upgraded, local, guard, seat, stopped, _permit: permit })
}

/// Charges a client for its connection; false if it has used more than its share.
fn has_paid(relay: &Relay, client: Origin, work: Duration) -> bool {
    let charged = relay.registry.charge(client, work, &relay.settings.limits.client(), Instant::now());
    charged.inspect_err(|_| relay.counters.refused_connection("overdrawn")).is_ok()
}

/// Lets a client in, or answers its request otherwise.
async fn admit(
    relay: &Relay,
    arrival: Arrival<'_>,
    request: Request<Incoming>,
    purpose: Purpose,
) -> std::result::Result<ConnectionGuard, Box<Response>> {
    let origin = origin(relay, arrival.from, &request);
    if !arrival.owed.is_zero() && !has_paid(relay, origin, arrival.owed) {
        return Err(plain_response(StatusCode::TOO_MANY_REQUESTS, "too many requests: try again later\n"));
    }
    let unwelcome = || plain_response(StatusCode::FORBIDDEN, "your address is not wanted here\n");
    if !relay.gate().is_welcome(origin.address(), &relay.rules()) {
        return Err(unwelcome());
    }
    if !relay.is_endpoint(request.uri().path()) {
        return Err(plain_response(StatusCode::NOT_FOUND, "the relay is at another path\n"));
    }
    if management::is_meant(relay, &request) {
        let ends = Ends { local: arrival.local, client: origin.address() };
        return Err(open_to_pages(management::answer(relay, ends, request).await));
    }
    if purpose == Purpose::Page {
        return Err(open_to_pages(about(relay, &request)));
    }
    if arrival.is_local {
        relay.settings.pages.check(request.headers())?;
    }
    let (bounds, now) = (relay.settings.limits.client(), Instant::now());
    let guard = relay.registry.enter(arrival.id, arrival.listener, origin, &bounds, now);
    let guard = guard.map_err(|why| match why {
        Unwelcome::TooMany => plain_response(StatusCode::TOO_MANY_REQUESTS, "too many connections from your address\n"),
        Unwelcome::Banned => unwelcome(),
    })?;
    arrival.seat.complete(origin);
    Ok(guard)
}

/// Returns the client's address as it is known.
fn origin(relay: &Relay, from: Origin, request: &Request<Incoming>) -> Origin {
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
    origin
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

/// Answers a request for something else than a WebSocket.
fn about(relay: &Relay, request: &Request<Incoming>) -> Box<Response> {
    let accepts = |media_type| request.headers().get(ACCEPT).is_some_and(|accept| names(accept, media_type));
    match *request.method() {
        Method::OPTIONS => plain_response(StatusCode::NO_CONTENT, ""),
        Method::GET | Method::HEAD if accepts(INFO) => typed(INFO, information(relay).to_string()),
        Method::GET | Method::HEAD if accepts(PAGE) => page(relay),
        Method::GET | Method::HEAD => {
            plain_response(StatusCode::OK, "This is a Nostr relay: open it with a Nostr client.\n")
        }
        _ => plain_response(StatusCode::METHOD_NOT_ALLOWED, "GET or a WebSocket\n"),
    }
}

/// Returns the information document.
fn information(relay: &Relay) -> Value {
    document(&relay.settings, &relay.events, &relay.gate(), &relay.rules())
}

/// Answers with the page for people.
fn page(relay: &Relay) -> Box<Response> {
    let document = information(relay);
    let private_messages = relay.settings.private_messages;
    let about = About { document: &document, urls: relay.events.urls(), private_messages };
    let mut response = typed(PAGE, about.page());
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Answers with a text of a media type.
fn typed(media_type: &'static str, text: String) -> Box<Response> {
    let mut response = Box::new(Response::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Lets web pages of any origin read an answer (NIP-11) and ask the management API, whose authorization is a signature
/// and nothing that a browser adds (NIP-98).
fn open_to_pages(mut response: Box<Response>) -> Box<Response> {
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    // The wildcard does not cover the first.
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("authorization, *"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, OPTIONS, POST"));
    response
}

/// True if a media type is named among the accepted ones, of which each may have parameters (RFC 9110, 12.5.1).
fn names(accept: &HeaderValue, media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default();
    let types = accept.to_str().unwrap_or_default().split(',');
    types.filter_map(|one| one.split(';').next()).any(|one| one.trim().eq_ignore_ascii_case(media_type))
}
