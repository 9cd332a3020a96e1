//! The door: one request of HTTP, which becomes a WebSocket, or is answered with what the relay says of itself (NIP-11).

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use birdhouse_clients::client_address;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CONNECTION,
    CONTENT_TYPE, HOST, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tracing::debug;

use crate::deflate::agree;
use crate::frames::{Compression, Frames};
use crate::info::document;
use crate::limits::{HEAD_BYTES, HEAD_TIMEOUT, Limits};
use crate::relay::Relay;
use crate::socket::Socket;
use crate::visitor::Visitor;

const INFO: &str = "application/nostr+json";
/// Where a reverse proxy says whose connection it passes on.
const FORWARDED_FOR: &str = "x-forwarded-for";
/// The only version of WebSocket that was ever a standard (RFC 6455, 4.1).
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// The socket of a client that speaks WebSocket.
pub(crate) type WebSocket = Socket<TokioIo<Upgraded>>;

/// A client, and where it believes to be: the `Host` of its request, empty without one.
pub(crate) struct Client {
    pub(crate) socket: WebSocket,
    pub(crate) host: String,
    pub(crate) visitor: Visitor,
}

/// A request that becomes a WebSocket.
struct Upgrading {
    upgrade: OnUpgrade,
    compression: Compression,
    host: String,
    visitor: Visitor,
}

/// Takes a request that becomes a WebSocket; `None` when it does not, and was answered.
pub(crate) async fn open(relay: &Relay, socket: TcpStream) -> Option<Client> {
    // Answers leave at once: a client that waits for one would wait for 40 ms more.
    socket.set_nodelay(true).ok()?;
    let from = socket.peer_addr().ok()?.ip();
    let (sender, mut upgrade) = oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let service = service_fn(|request: Request<Incoming>| {
        let mut response = answer(relay, request, from, |upgrading| {
            let sender = sender.lock().ok().and_then(|mut sender| sender.take());
            sender.is_some_and(|sender| sender.send(upgrading).is_ok())
        });
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            // Who is no WebSocket is counted for no client, so it has one request.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        async { Ok::<_, Infallible>(response) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        debug!(%error, "no request");
    }
    let Upgrading { upgrade, compression, host, visitor } = upgrade.try_recv().ok()?;
    let upgraded = upgrade.await.ok()?;
    let Limits { message_bytes, message_timeout, .. } = relay.settings.limits;
    let frames = Frames::new(message_bytes, compression);
    let socket = Socket::new(TokioIo::new(upgraded), frames, message_timeout, Arc::clone(&relay.beginnings));
    Some(Client { socket, host, visitor })
}

fn answer(
    relay: &Relay,
    mut request: Request<Incoming>,
    from: IpAddr,
    hand_over: impl FnOnce(Upgrading) -> bool,
) -> Response<Full<Bytes>> {
    let address = client_address(from, &all_of(&request, FORWARDED_FOR), &relay.settings.proxies);
    if !relay.gate.is_welcome(address) {
        return plain(StatusCode::FORBIDDEN, "your address is not wanted here\n");
    }
    if let Some(accept) = accept_key(&request) {
        if request.headers().get(SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
            let mut response = plain(StatusCode::UPGRADE_REQUIRED, "WebSocket is spoken here in its version 13\n");
            response.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
            return response;
        }
        let Some(visitor) = relay.visitors.enter(address, &relay.settings.limits, Instant::now()) else {
            return plain(StatusCode::TOO_MANY_REQUESTS, "too many connections from your address\n");
        };
        let host = all_of(&request, HOST.as_str());
        let agreed = match relay.settings.compression {
            Compression::Off => None,
            Compression::Deflate => agree(&all_of(&request, SEC_WEBSOCKET_EXTENSIONS.as_str())),
        };
        let compression = if agreed.is_some() { Compression::Deflate } else { Compression::Off };
        if !hand_over(Upgrading { upgrade: hyper::upgrade::on(&mut request), compression, host, visitor }) {
            return plain(StatusCode::BAD_REQUEST, "this connection is a WebSocket already\n");
        }
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if let Some(agreed) = agreed {
            headers.insert(SEC_WEBSOCKET_EXTENSIONS, agreed);
        }
        return response;
    }
    let is_info = request.headers().get(ACCEPT).is_some_and(wants_info);
    let mut response = match *request.method() {
        Method::OPTIONS => plain(StatusCode::NO_CONTENT, ""),
        Method::GET if is_info => {
            let document = document(&relay.settings, &relay.events);
            let mut response = Response::new(Full::from(document.to_string()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(INFO));
            response
        }
        Method::GET => plain(StatusCode::OK, "This is a Nostr relay: open it with a Nostr client.\n"),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET or a WebSocket\n"),
    };
    // Web pages of any origin may read it (NIP-11).
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, OPTIONS"));
    response
}

/// The values of a header, with commas between them.
fn all_of(request: &Request<Incoming>, header: &str) -> String {
    let values = request.headers().get_all(header).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

/// Whether the document is among the types that are accepted, of which each may have parameters (RFC 9110, 12.5.1).
fn wants_info(accept: &HeaderValue) -> bool {
    let types = accept.to_str().unwrap_or_default().split(',');
    types.filter_map(|one| one.split(';').next()).any(|one| one.trim().eq_ignore_ascii_case(INFO))
}

/// What answers a request for a WebSocket (RFC 6455, 4.2).
fn accept_key(request: &Request<Incoming>) -> Option<HeaderValue> {
    let upgrade = request.headers().get(UPGRADE)?.to_str().ok()?;
    let key = request.headers().get(SEC_WEBSOCKET_KEY)?;
    if *request.method() != Method::GET || !upgrade.eq_ignore_ascii_case("websocket") {
        return None;
    }
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
