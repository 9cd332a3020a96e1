//! The HTTP side: connections, their bounds, and a request's way to its endpoint and back.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::Snapshot;
use birdhouse_clients::PlaceBounds;
use birdhouse_net::{
    Accepted, ClientBounds, Compression, ConnectionGuard, ConnectionSlots, Listener, RequestBounds,
    Response as PlainResponse, Seated, Seats, SlowWrite, Stream, handshake, serve_requests, switch,
};
use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use crate::api::endpoints;
use crate::api::failure::Failure;
use crate::api::feed::{self, Caller};
use crate::api::item::Item;
use crate::api::params::{Params, query_pairs};
use crate::api::reply::{Content, NextPiece, Reply, TEXT};
use crate::api::routes::{self, Access, Found, NotFound, Route, Sender};
use crate::api::service::{Question, Service};
use crate::api::socket::{self, Switching};
use crate::api::wish::Feed;
use crate::limits::{
    API_BODY_BYTES_MAX, API_BODY_TIMEOUT, API_CONNECTIONS_MAX, API_HANDSHAKE_TIMEOUT, API_HEAD_BYTES_MAX,
    API_HEAD_TIMEOUT, API_WRITE_TIMEOUT,
};

/// Headers of every answer: nothing is kept, framed, guessed or shown to other sites. With `no-referrer` a browser
/// would send a form without its origin.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
];

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A request for a WebSocket.
struct Socket {
    /// Gives the stream once the answer is written.
    stream: OnUpgrade,
    answer: Box<PlainResponse>,
    /// The place of what follows the answer.
    switching: Arc<Mutex<Option<Switching>>>,
}

/// Serves clients on every socket until `shutdown` completes; requests in flight have `grace` to be answered.
pub(super) async fn serve(
    service: Arc<Service>,
    sockets: Vec<(TcpListener, Listener<()>)>,
    grace: Duration,
    shutdown: impl Future<Output = ()>,
) {
    let refused = Arc::clone(&service.refused);
    let seats = Seats::new(PlaceBounds::of_networks(None), Vec::new(), refused, Instant::now());
    let slots = ConnectionSlots::new(API_CONNECTIONS_MAX, seats);
    let registry = Arc::clone(&service.registry);
    let routes: Arc<[&'static Route]> = endpoints::all().into();
    let converse = move |accepted| converse(Arc::clone(&service), Arc::clone(&routes), accepted);
    birdhouse_net::serve(sockets, &registry, |()| slots.clone(), shutdown, grace, converse).await;
}

/// Serves one connection to its end, or until it must leave for a newcomer.
async fn converse(service: Arc<Service>, routes: Arc<[&'static Route]>, accepted: Accepted<()>) {
    let seat = Arc::clone(&accepted.seat);
    let conversation = async {
        let stopped = accepted.stopped.clone();
        let greeted = handshake(API_HANDSHAKE_TIMEOUT, stopped.clone(), greet(&service, accepted)).await;
        let Some((guard, stream, _permit)) = greeted else { return };
        serve_connection(&service, &routes, &guard, stream, stopped).await;
    };
    seat.hold(conversation).await;
}

async fn greet(
    service: &Service,
    mut accepted: Accepted<()>,
) -> std::io::Result<(ConnectionGuard, Stream, OwnedSemaphorePermit)> {
    let origin = accepted.origin().await?;
    let Accepted { id, listener, socket, permit, seat, .. } = accepted;
    let bounds = ClientBounds { connections: None, work: None, work_percent: 100, unsent_bytes: None };
    let entered = service.registry.enter(id, &listener.name, origin, &bounds, Instant::now());
    let guard = entered.map_err(std::io::Error::other)?;
    seat.complete(origin);
    Ok((guard, listener.transport.open(Seated::new(socket, seat)).await?, permit))
}

async fn serve_connection(
    service: &Arc<Service>,
    routes: &Arc<[&'static Route]>,
    guard: &ConnectionGuard,
    stream: Stream,
    stopped: watch::Receiver<()>,
) {
    let meter = Arc::clone(&guard.meter);
    let for_answers = stopped.clone();
    let switching = Arc::new(Mutex::new(None));
    let answer = service_fn(|request| {
        let caller = Caller { service: Arc::clone(service), meter: Arc::clone(&meter), stopped: for_answers.clone() };
        let (routes, switching) = (Arc::clone(routes), Arc::clone(&switching));
        async move { Ok::<_, Infallible>(respond(caller, &routes, request, switching).await) }
    });
    let bounds = RequestBounds {
        head_timeout: API_HEAD_TIMEOUT,
        head_bytes: API_HEAD_BYTES_MAX,
        write_timeout: API_WRITE_TIMEOUT,
    };
    if !serve_requests(stream, bounds, &meter, stopped, answer).await {
        return;
    }
    let Some(Switching { stream, caller, feed }) = switching.lock().take() else { return };
    if let Ok(stream) = stream.await
        && let Ok(parts) = stream.downcast::<TokioIo<SlowWrite<Stream>>>()
    {
        socket::converse(parts.io.into_inner().into_inner(), parts.read_buf.to_vec(), caller, feed).await;
    }
}

async fn respond(
    caller: Caller,
    routes: &[&'static Route],
    mut request: Request<Incoming>,
    switching: Arc<Mutex<Option<Switching>>>,
) -> Response<Body> {
    let is_head = *request.method() == Method::HEAD;
    let socket = socket::is_asked(request.headers()).then(|| {
        let switched = switch(request.method(), request.headers(), Compression::Off);
        let answer = switched.map_or_else(|refusal| refusal, |(answer, _)| Box::new(answer));
        Socket { stream: hyper::upgrade::on(&mut request), answer, switching }
    });
    let answer = answer(&caller, routes, request).await;
    let mut response = match answer {
        Ok((reply, at)) => response_of(caller, reply, at, socket),
        Err(failure) => {
            let (status, text) = failure.into_parts();
            let mut response = Response::new(whole(format!("{text}\n")));
            *response.status_mut() = status;
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(TEXT));
            if status == StatusCode::UNAUTHORIZED {
                let value = HeaderValue::from_static("Basic realm=\"Birdhouse\", charset=\"UTF-8\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
            }
            response
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if is_head {
        *response.body_mut() = whole(String::new());
    }
    response
}

async fn answer(
    caller: &Caller,
    routes: &[&'static Route],
    request: Request<Incoming>,
) -> Result<(Reply, Arc<Snapshot>), Failure> {
    let (head, body) = request.into_parts();
    let found = routes::find(routes, &head.method, head.uri.path());
    let is_open = matches!(&found, Ok(found) if found.route.access == Access::Open);
    let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let is_allowed =
        || text(header::AUTHORIZATION).is_some_and(|authorization| caller.service.settings.token.is_in(authorization));
    // Nobody without the token learns which paths there are.
    if !is_open && !is_allowed() {
        return Err(Failure::Refused(StatusCode::UNAUTHORIZED, "send the token of this server".into()));
    }
    let Found { route, parts } = found.map_err(|why| match why {
        NotFound::Path => Failure::not_found("there is no such path; /openapi.json lists them"),
        NotFound::Method => Failure::Refused(StatusCode::METHOD_NOT_ALLOWED, "this path has another method".into()),
    })?;
    check_origin(route, &head.headers)?;
    let body = if route.method == Method::POST { read(body).await? } else { Vec::new() };
    let last_event = text(HeaderName::from_static("last-event-id")).map(str::to_owned);
    let query = query_pairs(head.uri.query().unwrap_or_default());
    caller.meter.received(head.uri.path().len() + body.len(), 1);
    let params = Params { path: parts, query, body, last_event };
    let service = &*caller.service;
    let at = service.index.snapshot()?;
    if !service.wallets.are_known() {
        return Err(Failure::unavailable(
            "the watched wallets are not known yet; `birdhouse watch list` says why; try again later",
        ));
    }
    let ask = || (route.endpoint)(&Question { service, at: &at, params: &params });
    let reply = service.answer(route.lane, &caller.meter, ask).await?;
    Ok((reply, at))
}

/// Refuses what another web page makes the operator's browser send, which adds the password by itself.
fn check_origin(route: &Route, headers: &HeaderMap) -> Result<(), Failure> {
    let refused = || Err(Failure::Refused(StatusCode::FORBIDDEN, "a web page sent this request".into()));
    let is_read = route.method == Method::GET && !socket::is_asked(headers);
    if is_read {
        return Ok(());
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| ![&b"same-origin"[..], b"none"].contains(&site)) {
        return refused();
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let page = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    let is_own = page.is_some_and(|page| headers.get(header::HOST).is_some_and(|host| host == page));
    // A browser lets every page read a WebSocket.
    let may_be_own = route.method == Method::GET || route.sender == Sender::OwnPage;
    if is_own && may_be_own { Ok(()) } else { refused() }
}

async fn read(body: Incoming) -> Result<Vec<u8>, Failure> {
    let read = timeout(API_BODY_TIMEOUT, Limited::new(body, API_BODY_BYTES_MAX).collect()).await;
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Failure::Refused(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large".into()))
        }
        Ok(Err(_)) => Err(Failure::bad_request("Invalid body")),
        Err(_) => Err(Failure::Refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".into())),
    }
}

// === responses ===

fn response_of(
    caller: Caller,
    Reply { status, content, location }: Reply,
    at: Arc<Snapshot>,
    socket: Option<Socket>,
) -> Response<Body> {
    let (media_type, body) = match content {
        Content::Text(media_type, text) => {
            caller.meter.sent(text.len());
            (media_type, whole(text))
        }
        Content::Pieces(media_type, next) => (media_type, in_pieces(caller, next, at)),
        Content::Events(feed) => match socket {
            Some(socket) => return switched(caller, feed, socket),
            None => (super::reply::EVENTS, events(caller, feed)),
        },
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(location) = location.and_then(|location| HeaderValue::from_str(&location).ok()) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn whole(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A body that is made while the client reads it. A failure ends the connection: the client sees that the answer is not
/// whole.
fn in_pieces(caller: Caller, next: Box<NextPiece>, at: Arc<Snapshot>) -> Body {
    let pieces = stream::try_unfold((caller, next, at), |(caller, mut next, at)| async move {
        let piece = caller.service.read(&caller.meter, || next(&at)).await;
        let piece = piece.map_err(|failure| std::io::Error::other(failure.into_parts().1))?;
        let Some(piece) = piece else { return Ok(None) };
        caller.meter.sent(piece.len());
        Ok(Some((Frame::data(Bytes::from(piece)), (caller, next, at))))
    });
    boxed(pieces)
}

/// The answer after which the connection carries a WebSocket, or why it does not.
fn switched(caller: Caller, feed: Feed, Socket { stream, answer, switching }: Socket) -> Response<Body> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        *switching.lock() = Some(Switching { stream, caller, feed });
    }
    answer.map(|body| body.map_err(|never: Infallible| match never {}).boxed_unsync())
}

fn events(caller: Caller, feed: Feed) -> Body {
    let meter = Arc::clone(&caller.meter);
    boxed(feed::open(caller, feed).map(move |items| {
        let text: String = items.iter().map(Item::to_event_stream).collect();
        meter.notified(text.len());
        Ok(Frame::data(Bytes::from(text)))
    }))
}

fn boxed(frames: impl futures_util::Stream<Item = std::io::Result<Frame<Bytes>>> + Send + 'static) -> Body {
    UnsyncBoxBody::new(StreamBody::new(frames))
}
