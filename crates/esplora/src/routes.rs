//! The endpoints by path, and everything about HTTP around them: bodies, caching, CORS, compression.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Router, middleware};
use birdhouse_chain::{Height, Snapshot};
use birdhouse_net::{Meter, SHARE_BYTES, Unsent, offload};
use futures_util::stream;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};

use crate::endpoints::{self, Route};
use crate::failure::Failure;
use crate::limits::BLOCK_PIECE_BYTES;
use crate::params::Params;
use crate::reply::{Content, Reply};
use crate::service::Service;

/// Bytes above which an answer is compressed for clients that accept it.
const COMPRESS_ABOVE: u64 = 1024;
/// Seconds for which a browser may remember what CORS allows.
const CORS_S: &str = "86400";

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) meter: Arc<Meter>,
    pub(crate) unsent: Unsent,
}

/// Returns the service of all requests: every endpoint at its path, and under `/api`.
pub(crate) fn router(service: &Arc<Service>) -> Router {
    let mut api = Router::new();
    for route in endpoints::all() {
        api = api.route(route.path, handler(service, route));
    }
    let compressed = SizeAbove::new(COMPRESS_ABOVE).and(NotForContentType::const_new("application/octet-stream"));
    Router::new()
        .nest("/api", api.clone())
        .merge(api)
        .fallback(no_endpoint)
        .method_not_allowed_fallback(no_endpoint)
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(middleware::from_fn(with_cors))
}

fn handler(service: &Arc<Service>, route: &'static Route) -> MethodRouter {
    let filter = if route.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
    let service = Arc::clone(service);
    on(filter, move |request: Request| {
        let service = Arc::clone(&service);
        async move { respond(&service, route, request).await }
    })
}

async fn respond(service: &Arc<Service>, route: &'static Route, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let Some(caller) = parts.extensions.get::<Caller>().cloned() else {
        return failed(Failure::internal());
    };
    if let Err(overdrawn) = caller.meter.check(Instant::now()) {
        return too_many(overdrawn.wait.as_secs() + 1);
    }
    let Ok(path) = RawPathParams::from_request_parts(&mut parts, &()).await else {
        return failed(Failure::bad_request("Invalid path"));
    };
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let body = if route.method == Method::POST { read_body(service, body).await } else { Ok(Vec::new()) };
    let body = match body {
        Ok(body) => body,
        Err(failure) => return failed(failure),
    };
    caller.meter.received(parts.uri.path().len() + query.len() + body.len(), 1);
    if !caller.unsent.has_room(SHARE_BYTES + 1) {
        return failed(Failure::unavailable("memory for unread answers is used up; try again later"));
    }
    let snapshot = match service.index.snapshot() {
        Ok(snapshot) => snapshot,
        Err(syncing) => return failed(syncing.into()),
    };
    let params = Params { path, query, body };
    match service.answer(&caller.meter, (route.lane, route.endpoint), &params, &snapshot).await {
        Ok(reply) => {
            let answer = Answered { service: Arc::clone(service), caller, at: snapshot };
            answer.response(reply, &parts.headers)
        }
        Err(failure) => failed(failure),
    }
}

async fn read_body(service: &Service, body: Body) -> Result<Vec<u8>, Failure> {
    let limits = &service.settings.limits;
    match timeout(limits.body_timeout, Limited::new(body, limits.body_bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Failure::Refused(StatusCode::PAYLOAD_TOO_LARGE, "Request body too large".into()))
        }
        Ok(Err(_)) => Err(Failure::bad_request("Invalid body")),
        Err(_) => Err(Failure::Refused(StatusCode::REQUEST_TIMEOUT, "Request timeout".into())),
    }
}

// === responses ===

/// An answered request.
struct Answered {
    service: Arc<Service>,
    caller: Caller,
    at: Arc<Snapshot>,
}

impl Answered {
    fn response(self, reply: Reply, asked: &HeaderMap) -> Response {
        let Reply { content, cache, modified } = reply;
        let etag = content.etag().or_else(|| self.block_etag(&content));
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content.media_type()));
        headers.insert(header::CACHE_CONTROL, value(&cache.control()));
        if let Some(etag) = &etag {
            headers.insert(header::ETAG, value(etag));
        }
        if let Some(date) = modified.map(http_date) {
            headers.insert(header::LAST_MODIFIED, value(&date));
        }
        if etag.is_some_and(|etag| matches(asked, &etag)) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        let bytes = content.len();
        self.caller.meter.sent(bytes);
        *response.body_mut() = match content {
            Content::Json(bytes) | Content::Bytes(bytes) => self.held(bytes),
            Content::Text(text) => self.held(text.into_bytes()),
            Content::Block(height, bytes) => {
                headers.insert(header::CONTENT_LENGTH, value(&bytes.to_string()));
                self.block(height, bytes)
            }
        };
        response
    }

    fn block_etag(&self, content: &Content) -> Option<String> {
        let Content::Block(height, _) = content else { return None };
        self.at.block_hash(*height).map(|hash| format!("\"{hash}\""))
    }

    /// A body that counts as unsent until it is written.
    fn held(&self, bytes: Vec<u8>) -> Body {
        Body::from(Bytes::from_owner(Held::new(self.caller.unsent.clone(), bytes)))
    }

    /// A body that reads the block as the client takes it.
    fn block(self, height: Height, bytes: u32) -> Body {
        let pieces = stream::unfold((self, 0), move |(answered, start)| async move {
            if start >= bytes {
                return None;
            }
            let end = bytes.min(start + BLOCK_PIECE_BYTES);
            let turn = answered.service.disk.take(&answered.caller.meter).await;
            let piece = offload(|| answered.at.block_bytes(height, start..end));
            drop(turn);
            let piece = match piece {
                Ok(Some(piece)) => Ok(Bytes::from(piece)),
                Ok(None) => Err(std::io::Error::other("the block has ended")),
                Err(error) => {
                    tracing::error!(%error, "failed to read a block");
                    Err(std::io::Error::other("the block cannot be read"))
                }
            };
            Some((piece, (answered, end)))
        });
        Body::from_stream(pieces)
    }
}

/// An answer that its client has not read.
struct Held {
    unsent: Unsent,
    bytes: Vec<u8>,
}

impl Held {
    fn new(unsent: Unsent, bytes: Vec<u8>) -> Self {
        unsent.add(bytes.len());
        Self { unsent, bytes }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.unsent.subtract(self.bytes.len());
    }
}

fn failed(failure: Failure) -> Response {
    let (status, text) = failure.into_parts();
    plain(status, text.into_owned())
}

fn too_many(seconds: u64) -> Response {
    let text = format!("Too many requests; try again in {seconds} s");
    let mut response = plain(StatusCode::TOO_MANY_REQUESTS, text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

fn plain(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn no_endpoint(request: Request) -> Response {
    failed(Failure::not_found(format!("endpoint does not exist {:?}", request.uri().path())))
}

/// Lets pages of any origin read the answers, and answers a browser that asks if it may.
async fn with_cors(request: Request, next: middleware::Next) -> Response {
    let mut response = if request.method() == Method::OPTIONS {
        let mut allowed = Response::new(Body::empty());
        *allowed.status_mut() = StatusCode::NO_CONTENT;
        let headers = allowed.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, OPTIONS"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(CORS_S));
        allowed
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    response
}

/// True if the client has an answer with this validator.
fn matches(asked: &HeaderMap, etag: &str) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let known = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim() == "*" || weak(tag) == weak(etag))
}

/// A time as in RFC 9110, section 5.6.7.
fn http_date(seconds: u32) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into()))
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits, letters and punctuation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn validators_are_compared_weakly() {
        let asked =
            |text: &'static str| HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_static(text))]);
        for (text, expected) in
            [("W/\"a\"", true), ("\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false)]
        {
            assert_eq!(matches(&asked(text), "W/\"a\""), expected, "{text}");
        }
    }
}
