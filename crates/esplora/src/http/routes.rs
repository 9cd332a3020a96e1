//! Endpoints and pages by path, and everything about HTTP around them: bodies, caching, CORS, compression.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Router, middleware};
use birdhouse_chain::{Height, Snapshot};
use birdhouse_clients::Slowest;
use birdhouse_net::{Compression, Meter, SHARE_BYTES, Unfinished};
use bitcoin::Network;
use futures_util::stream;
use http_body_util::{BodyExt as _, Limited};
use hyper::upgrade::OnUpgrade;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::endpoints;
use crate::endpoints::Route;
use crate::http::whole_body::WholeBody;
use crate::limits::BLOCK_PIECE_BYTES;
use crate::live::event_stream;
use crate::pages::{Pages, Surroundings};
use crate::service::{Caller, Service, Switching};
use crate::wire::{
    AnswerMemory, AskedRange, BUFFERING, Cache, Content, Failure, HTML, Params, Part, Refusal, Reply, Rows,
};
use crate::work::ApiRequest;

/// The reason for which the tip is not the newest: [`birdhouse_chain::Waiting::kind`].
const WAITING: HeaderName = HeaderName::from_static("birdhouse-waiting");
/// The header with the id of the last event that a client has received.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Seconds for which a browser may remember what CORS allows.
const CORS_S: &str = "86400";

/// Returns the service of requests to the API: every endpoint at its path, and under `/api`.
pub(crate) fn api_router(service: &Arc<Service>) -> Router {
    let settings = &service.settings;
    let has_files = settings.filters.is_some() || settings.tweaks.is_some();
    let bare = endpoints::of_filters().filter(|_| has_files).chain(endpoints::of_silent_payments());
    of_api(routed(service, endpoints::all()), routed(service, bare), settings.network)
        .layer(middleware::from_fn(with_cors))
}

/// Returns the same with the endpoints that only private listeners serve. Pages of other origins may not read it: a
/// browser on the operator's machine reaches a listener on loopback, and so do the pages that it shows.
pub(crate) fn private_router(service: &Arc<Service>) -> Router {
    of_api(routed(service, endpoints::all().chain(endpoints::internal())), Router::new(), service.settings.network)
}

/// Adds the API where clients of mempool's site ask another network than mainnet: under `/signet/api`.
fn of_network(router: Router, api: &Router, network: Network) -> Router {
    if network == Network::Bitcoin { router } else { router.nest(&format!("/{network}/api"), api.clone()) }
}

/// Returns the API bare, under `/api` and under the network's name, and paths that are served bare alone.
pub(crate) fn of_api(api: Router, bare: Router, network: Network) -> Router {
    of_network(Router::new(), &api, network)
        .nest("/api", api.clone())
        .merge(api)
        .merge(bare)
        .fallback(no_endpoint)
        .method_not_allowed_fallback(no_endpoint)
}

/// Returns the service of requests to pages, with the API under `/api`.
pub(crate) fn pages_router(service: &Arc<Service>, pages: &'static Pages) -> Router {
    let api = routed(service, endpoints::all())
        .fallback(no_endpoint)
        .method_not_allowed_fallback(no_endpoint)
        .layer(middleware::from_fn(with_cors));
    let no_page = async || refusal(Failure::not_found("There is no such page."));
    let routes = routed(service, pages.routes.iter().copied().flatten());
    of_network(routes, &api, service.settings.network)
        .fallback(no_page)
        .method_not_allowed_fallback(no_page)
        .layer(middleware::from_fn_with_state((Arc::clone(service), pages), with_pages))
        .nest("/api", api)
}

fn routed(service: &Arc<Service>, routes: impl Iterator<Item = &'static Route>) -> Router {
    routes.fold(Router::new(), |router, route| router.route(route.path, handler(service, route)))
}

fn handler(service: &Arc<Service>, route: &'static Route) -> MethodRouter {
    let filter = if route.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
    let service = Arc::clone(service);
    on(filter, move |request: Request| {
        let service = Arc::clone(&service);
        async move { respond(&service, route, request).await.unwrap_or_else(refusal) }
    })
}

async fn respond(service: &Arc<Service>, route: &'static Route, request: Request) -> Result<Response, Failure> {
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(Failure::internal)?;
    if let Err(overdrawn) = caller.meter.check(Instant::now()) {
        return Err(Failure::TooMany { seconds: overdrawn.wait.as_secs() + 1 });
    }
    let path = named_parts(&mut parts).await?;
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let mut held = Unfinished::new(caller.unsent.clone(), usize::MAX);
    let body = if route.method == Method::POST { read_body(service, body, &mut held).await? } else { Vec::new() };
    caller.meter.received(parts.uri.path().len() + query.len() + body.len(), 1);
    if !caller.unsent.has_room(SHARE_BYTES + 1) {
        return Err(Failure::no_memory());
    }
    let snapshot = service.snapshot(&caller)?;
    let last_event = text(&parts, LAST_EVENT_ID);
    let asked_range = AskedRange { range: text(&parts, header::RANGE), if_range: text(&parts, header::IF_RANGE) };
    let params = Params { path, query, body: body.into(), last_event, asked_range };
    let asked = Arc::new(ApiRequest {
        meter: Arc::clone(&caller.meter),
        lane: route.lane,
        endpoint: route.endpoint,
        at: Arc::clone(&snapshot),
        params,
        way: caller.way.with(&parts.headers),
        room: AnswerMemory::new(caller.unsent.clone()),
    });
    let began = Instant::now();
    let reply = service.answer(&asked).await;
    let took = began.elapsed();
    if took >= Slowest::SLOW_MIN {
        service.slowest.record(took, began + took, || format!("{} {}", route.method, route.path));
    }
    let mut reply = reply?;
    drop(held);
    finish(service, &parts, &mut reply.content);
    let counted = asked.room.settle(reply.content.len())?;
    if let Content::Events(watch) = &reply.content {
        event_stream::admit(service, &caller, watch)?;
    }
    if matches!(reply.content, Content::WebSocket) {
        return Ok(switched(&caller, &mut parts));
    }
    Ok(Answered { service: Arc::clone(service), caller, at: snapshot, counted }.response(reply, &parts.headers))
}

/// The text of a header.
fn text(parts: &Parts, name: HeaderName) -> Option<String> {
    parts.headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Makes the links of an answer relative, so that proxies may serve everything below a path of theirs.
fn finish(service: &Service, parts: &Parts, content: &mut Content) {
    let surroundings = Surroundings::of(service, parts.uri.path());
    match (content, parts.extensions.get::<&'static Pages>().copied()) {
        (Content::Html(text), Some(pages)) => *text = (pages.finish)(text, &surroundings),
        (Content::GrowingPage(begun, rows), Some(pages)) => {
            *begun = (pages.finish)(begun, &surroundings);
            let finish = move |piece: &str| (pages.finish)(piece, &surroundings);
            rows.make_texts(finish);
        }
        (Content::Elsewhere(path), _) => *path = surroundings.relative(path),
        _ => {}
    }
}

/// Returns the parts of the path by their names in the route, decoded.
pub(crate) async fn named_parts(parts: &mut Parts) -> Result<Vec<(String, String)>, Failure> {
    let path = RawPathParams::from_request_parts(parts, &()).await;
    let path = path.map_err(|_| Failure::bad_request("Invalid path"))?;
    Ok(path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Reads a body. Its bytes count with those that wait to be written.
async fn read_body(service: &Service, body: Body, held: &mut Unfinished) -> Result<Vec<u8>, Failure> {
    let limits = &service.settings.limits;
    let mut body = Limited::new(body, limits.body_bytes);
    let read = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await.transpose()? {
            let Ok(data) = frame.into_data() else { continue };
            if !held.has_room(data.len()) {
                return Ok(Err(Failure::no_memory()));
            }
            held.add(data.len());
            bytes.extend_from_slice(&data);
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Ok(bytes))
    };
    match timeout(limits.body_timeout, read).await {
        Ok(Ok(read)) => read,
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
    /// The bytes that it has in memory.
    counted: Unfinished,
}

impl Answered {
    fn response(self, reply: Reply, asked: &HeaderMap) -> Response {
        let Reply { status, content, cache, modified, age, ranged } = reply;
        let (known, part) = ranged.map_or((None, None), |ranged| (Some(ranged.etag), ranged.part));
        let is_ranged = known.is_some();
        let etag = known.or_else(|| content.etag()).or_else(|| self.block_etag(&content));
        let is_found = matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT);
        let etag = etag.filter(|_| cache != Cache::NoStore && is_found);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content.media_type()));
        headers.insert(header::CACHE_CONTROL, value(&cache.control()));
        if let Some(etag) = &etag {
            headers.insert(header::ETAG, value(etag));
        }
        if let Some(date) = modified.map(http_date) {
            headers.insert(header::LAST_MODIFIED, value(&date));
        }
        if let Some(age) = age {
            headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
        }
        if etag.is_some_and(|etag| matches(asked, &etag)) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        if let Some(reason) = self.service.index.waiting() {
            headers.insert(WAITING, value(reason.kind()));
        }
        if is_ranged {
            headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        }
        if let Some(Part { bytes, len }) = part {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.end - bytes.start));
            headers.insert(header::CONTENT_RANGE, value(&format!("bytes {}-{}/{len}", bytes.start, bytes.end - 1)));
        }
        let bytes = content.len();
        self.caller.meter.sent(bytes);
        *response.body_mut() = match content {
            Content::Json(bytes) | Content::Bytes(bytes) => self.held(bytes),
            Content::Text(text) | Content::Html(text) => self.held(text.into_bytes()),
            Content::Asset(_, text) => Body::from(text),
            Content::Elsewhere(path) => {
                headers.insert(header::LOCATION, value(&path));
                Body::empty()
            }
            Content::Block(height, bytes) => {
                headers.insert(header::CONTENT_LENGTH, value(&bytes.to_string()));
                self.block(height, bytes)
            }
            Content::Pieces(pieces) => self.rows(pieces),
            Content::Events(watch) => event_stream::body(self.service, self.caller, *watch),
            Content::Csv(name, rows) => {
                headers.insert(header::CONTENT_DISPOSITION, value(&format!("attachment; filename=\"{name}\"")));
                self.rows(rows)
            }
            Content::List(rows) => self.rows(rows),
            Content::GrowingPage(begun, rows) => {
                headers.insert(BUFFERING, HeaderValue::from_static("no"));
                self.rows(rows.after(begun.into_bytes()))
            }
            // It has an answer of its own.
            Content::WebSocket => Body::empty(),
        };
        response
    }

    fn block_etag(&self, content: &Content) -> Option<String> {
        let Content::Block(height, _) = content else { return None };
        self.at.block_hash(*height).map(|hash| format!("\"{hash}\""))
    }

    /// A body that counts as unsent until it is written.
    fn held(self, bytes: Vec<u8>) -> Body {
        Body::new(WholeBody::new(Bytes::from_owner(Held { bytes, _counted: self.counted })))
    }

    /// A body that reads the block as the client takes it.
    fn block(self, height: Height, bytes: u32) -> Body {
        let mut start = 0;
        self.pieces(move |at, _| {
            let end = bytes.min(start + BLOCK_PIECE_BYTES);
            let piece = if start < end { at.block_bytes(height, start..end)? } else { None };
            start = end;
            Ok(piece)
        })
    }

    /// A body that makes rows as the client takes them.
    fn rows(self, rows: Rows) -> Body {
        let Rows(next) = rows;
        self.pieces(next)
    }

    /// A body of pieces, each made when the client has taken the one before.
    fn pieces(
        self,
        next: impl FnMut(&Snapshot, &AnswerMemory) -> Result<Option<Vec<u8>>, Failure> + Send + 'static,
    ) -> Body {
        let deadline = Deadline::new(self.service.settings.limits.download_timeout, &self.caller.meter);
        let pieces = stream::unfold((self, next, deadline), |(answered, mut next, deadline)| async move {
            let room = AnswerMemory::new(answered.caller.unsent.clone());
            let read = || next(&answered.at, &room);
            let piece = answered.service.read(&answered.caller.meter, read).await;
            let piece = match piece.transpose()? {
                Ok(bytes) => room.settle(bytes.len()).map(|counted| Held { bytes, _counted: counted }),
                Err(failure) => Err(failure),
            };
            let piece = match piece {
                Ok(held) => {
                    answered.caller.meter.sent(held.bytes.len());
                    Ok(Bytes::from_owner(held))
                }
                Err(failure) => {
                    let text = failure.into_refusal().text;
                    tracing::debug!(reason = %text, "failed to make the rest of an answer");
                    Err(std::io::Error::other("the rest cannot be read"))
                }
            };
            Some((piece, (answered, next, deadline)))
        });
        Body::from_stream(pieces)
    }
}

/// Answers a request for a WebSocket, which the connection carries afterwards.
fn switched(caller: &Caller, parts: &mut Parts) -> Response {
    let allowed = caller.pages.as_ref().map_or(Ok(()), |pages| pages.check(&parts.headers));
    let answer = allowed.and_then(|()| birdhouse_net::switch(&parts.method, &parts.headers, Compression::Deflate));
    let answer = match (answer, parts.extensions.remove::<OnUpgrade>()) {
        (Ok((answer, compression)), Some(stream)) => {
            *caller.switching.lock() = Some(Switching { stream, compression });
            answer
        }
        (Ok(_), None) => *birdhouse_net::plain_response(StatusCode::BAD_REQUEST, "WebSocket needs HTTP/1.1\n"),
        (Err(refused), _) => *refused,
    };
    answer.map(Body::new)
}

/// Ends a connection after a time, unless it is dropped before.
struct Deadline(AbortHandle);

impl Deadline {
    fn new(within: Duration, meter: &Arc<Meter>) -> Self {
        let meter = Arc::clone(meter);
        let ending = tokio::spawn(async move {
            sleep(within).await;
            meter.disconnect();
        });
        Self(ending.abort_handle())
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer that its client has not read.
struct Held {
    bytes: Vec<u8>,
    _counted: Unfinished,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub(crate) fn refusal(failure: Failure) -> Response {
    let refusal = failure.into_refusal();
    let mut response = Response::new(Body::from(refusal.text.clone().into_owned()));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = refusal.retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.extensions_mut().insert(refusal);
    response
}

/// Makes a page of a refusal, and gives every page its headers.
async fn with_pages(
    State((service, pages)): State<(Arc<Service>, &'static Pages)>,
    mut request: Request,
    next: middleware::Next,
) -> Response {
    request.extensions_mut().insert(pages);
    let surroundings = Surroundings::of(&service, request.uri().path());
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        *response.body_mut() = Body::from((pages.finish)(&(pages.refusal)(&refusal), &surroundings));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML));
    }
    for (name, text) in pages.headers {
        response.headers_mut().insert(name, HeaderValue::from_static(text));
    }
    response
}

async fn no_endpoint(request: Request) -> Response {
    refusal(Failure::not_found(format!("endpoint does not exist {:?}", request.uri().path())))
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
