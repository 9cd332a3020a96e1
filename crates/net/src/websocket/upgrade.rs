//! The upgrade to WebSocket: one request of HTTP, which its listener accepts or answers otherwise.
//!
//! hyper serves the request and gives the stream back as it was, with what it read beyond the request.
//!
//! Source: [RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), section 4.2.

use std::convert::Infallible;
use std::io::{Error, Result};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::deflate::{Compression, agree};
use crate::body::read_body;

/// Bytes of the head of a request.
pub const HEAD_BYTES: usize = 16 * 1024;
/// The only version of WebSocket that was ever a standard (RFC 6455, 4.1).
const VERSION: HeaderValue = HeaderValue::from_static("13");

pub use hyper::StatusCode;

/// An answer of HTTP.
pub type Response = hyper::Response<Full<Bytes>>;

/// A stream after its upgrade.
#[derive(Debug)]
pub struct Upgraded<S> {
    /// The stream.
    pub stream: S,
    /// Bytes that were read beyond the request.
    pub read: Vec<u8>,
    /// The agreed compression.
    pub compression: Compression,
}

/// The answer for which a request asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A WebSocket.
    WebSocket,
    /// A page or a document.
    Page,
}

/// Serves one request. `admit` decides on it: what it admits becomes one, with
/// compression if it is allowed and the client offers it; else its answer is sent and the stream closed. It may read
/// the request's body before it decides.
///
/// # Errors
/// The stream's, or that no WebSocket was admitted.
pub async fn upgrade<S, T, F>(
    stream: S,
    compression: Compression,
    admit: impl Fn(Request<Incoming>, Purpose) -> F,
) -> Result<(Upgraded<S>, T)>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = std::result::Result<T, Box<Response>>>,
{
    let admitted = Mutex::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        let is_upgrade = accept_key(request.method(), request.headers()).is_some();
        let purpose = if is_upgrade { Purpose::WebSocket } else { Purpose::Page };
        let switched = switch(request.method(), request.headers(), compression);
        let (welcome, admitted) = (admit(request, purpose), &admitted);
        async move {
            let answer = welcome.await.and_then(|welcome| {
                let (answer, agreed) = switched?;
                *admitted.lock() = Some((agreed, welcome));
                Ok(answer)
            });
            Ok::<_, Infallible>(answer.unwrap_or_else(|mut other| {
                // Only a WebSocket is counted for a client; others have one request.
                other.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                *other
            }))
        }
    });
    let mut connection = hyper::server::conn::http1::Builder::new();
    // The caller bounds the time of the whole handshake.
    connection.header_read_timeout(None).max_buf_size(HEAD_BYTES);
    let parts = connection.serve_connection(TokioIo::new(stream), service).without_shutdown().await;
    let parts = parts.map_err(Error::other)?;
    let (mut stream, read) = (parts.io.into_inner(), Vec::from(parts.read_buf));
    let Some((compression, welcome)) = admitted.into_inner() else {
        stream.shutdown().await?;
        return Err(Error::other("no WebSocket was asked for and admitted"));
    };
    Ok((Upgraded { stream, read, compression }, welcome))
}

/// Reads the body of a request; `None` if it has more bytes or breaks off.
pub async fn body(request: Request<Incoming>, bytes_max: usize) -> Option<Bytes> {
    read_body(request.into_body(), bytes_max).await.ok().map(Bytes::from)
}

/// Returns the answer to a request after which its stream carries a WebSocket, and the agreed compression. For servers
/// that have read the request themselves.
///
/// # Errors
/// The answer to a request for something else.
pub fn switch(
    method: &Method,
    headers: &HeaderMap,
    compression: Compression,
) -> std::result::Result<(Response, Compression), Box<Response>> {
    let key = accept_key(method, headers);
    let key = key.ok_or_else(|| plain_response(StatusCode::BAD_REQUEST, "WebSocket is spoken here\n"))?;
    if headers.get(SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        return Err(other_version());
    }
    let extension = match compression {
        Compression::Off => None,
        Compression::Deflate => agree(&values_of(headers, SEC_WEBSOCKET_EXTENSIONS.as_str())),
    };
    let agreed = if extension.is_some() { Compression::Deflate } else { Compression::Off };
    Ok((switching(key, extension), agreed))
}

/// A short answer for people.
pub fn plain_response(status: StatusCode, text: &'static str) -> Box<Response> {
    let mut response = Box::new(Response::new(Full::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The values of a header, with commas between them.
pub fn header_values(request: &Request<Incoming>, header: &str) -> String {
    values_of(request.headers(), header)
}

fn values_of(headers: &HeaderMap, header: &str) -> String {
    let values = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

/// Returns what answers the key of a request for a WebSocket; `None` if it is another request.
fn accept_key(method: &Method, headers: &HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(UPGRADE)?.to_str().ok()?;
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    if *method != Method::GET || !upgrade.eq_ignore_ascii_case("websocket") {
        return None;
    }
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()
}

fn switching(accept: HeaderValue, extension: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(extension) = extension {
        headers.insert(SEC_WEBSOCKET_EXTENSIONS, extension);
    }
    response
}

fn other_version() -> Box<Response> {
    let mut response = plain_response(StatusCode::UPGRADE_REQUIRED, "WebSocket is spoken here in its version 13\n");
    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
    response
}
