//! One connection: PROXY header, TLS, then requests one after the other.

use std::io::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use birdhouse_clients::Overdrawn;
use birdhouse_net::{
    Accepted, ConnectionGuard, Meter, RequestBounds, Seated, SlowWrite, StatusCode, Stream, Transport, Unsent,
    Unwelcome, Upgraded, WebPages, handshake, serve_requests,
};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use crate::http::slashes;
use crate::limits::{HEAD_BYTES, OVERDRAWN_PAUSE, REQUEST_WORK};
use crate::live;
use crate::service::{Caller, Service, Switching, Way};

/// A client that may ask.
struct Welcome {
    service: Arc<Service>,
    guard: ConnectionGuard,
    /// As in [`Caller`].
    pages: Option<WebPages>,
    way: Way,
    _permit: OwnedSemaphorePermit,
    stopped: watch::Receiver<()>,
}

/// Serves one connection to its end, or until it must leave for a newcomer.
pub(crate) async fn serve(service: Arc<Service>, accepted: Accepted<Router>) {
    let seat = Arc::clone(&accepted.seat);
    seat.hold(serve_seated(service, accepted)).await;
}

async fn serve_seated(service: Arc<Service>, accepted: Accepted<Router>) {
    let router = accepted.listener.limits.clone();
    let (within, stopped) = (service.settings.limits.handshake_timeout, accepted.stopped.clone());
    let pages = accepted.is_local().then(|| service.settings.pages.clone());
    let is_closed = pages.is_some() || accepted.listener.transport.certificate().is_some();
    let way = if is_closed { Way::Closed } else { Way::Open };
    let greeted = handshake(within, stopped.clone(), greet(&service, accepted)).await;
    let Some((guard, stream, permit)) = greeted else { return };
    Welcome { service, guard, pages, way, _permit: permit, stopped }.converse(router, stream).await;
}

/// Reads the client's address, registers the connection, and does its TLS handshake.
async fn greet(
    service: &Service,
    mut accepted: Accepted<Router>,
) -> Result<(ConnectionGuard, Stream, OwnedSemaphorePermit)> {
    let origin = accepted.origin().await?;
    let Accepted { id, listener, socket, permit, seat, .. } = accepted;
    let (registry, bounds) = (&service.registry, service.settings.limits.client());
    let entered = registry.enter(id, &listener.name, origin, &bounds, Instant::now());
    let guard = entered.map_err(|why| {
        refuse(&socket, &listener.transport, why);
        Error::other(why)
    })?;
    listener.transport.charge_opening(&guard.meter)?;
    seat.complete(origin);
    Ok((guard, listener.transport.open(Seated::new(socket, seat)).await?, permit))
}

/// Answers a connection that needs no handshake, before its first request. Any other connection just closes: refusing
/// must cost less than serving.
fn refuse(socket: &TcpStream, transport: &Transport, why: Unwelcome) {
    if transport.certificate().is_some() {
        return;
    }
    let status = match why {
        Unwelcome::Banned => StatusCode::FORBIDDEN,
        Unwelcome::TooMany => StatusCode::TOO_MANY_REQUESTS,
    };
    let body = format!("{why}\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // The send buffer of a new connection is empty: the answer fits, or the client is gone.
    let _ = socket.try_write((head + &body).as_bytes());
}

impl Welcome {
    async fn converse(mut self, router: Router, stream: Stream) {
        let meter = Arc::clone(&self.guard.meter);
        let unsent = Unsent { all: self.service.unsent.clone(), client: meter.unsent() };
        let switching = Arc::default();
        let (stopped, pages, way) = (self.stopped.clone(), self.pages.take(), self.way);
        let caller = Caller { meter: Arc::clone(&meter), unsent, way, stopped, pages, switching };
        let answered = caller.clone();
        let router = TowerToHyperService::new(router);
        let answer = service_fn(move |mut request: Request<Incoming>| {
            let caller = answered.clone();
            if let Some(uri) = slashes::merged(request.uri()) {
                *request.uri_mut() = uri;
            }
            request.extensions_mut().insert(caller.clone());
            let answer = router.call(request);
            async move {
                charge(&caller.meter).await;
                answer.await
            }
        });
        let limits = &self.service.settings.limits;
        let (head_timeout, write_timeout) = (limits.head_timeout, limits.write_timeout);
        let bounds = RequestBounds { head_timeout, head_bytes: HEAD_BYTES, write_timeout };
        if !serve_requests(stream, bounds, &meter, self.stopped.clone(), answer).await {
            return;
        }
        let switching = caller.switching.lock().take();
        if let Some(Switching { stream, compression }) = switching
            && let Ok(stream) = stream.await
            && let Ok(parts) = stream.downcast::<TokioIo<SlowWrite<Stream>>>()
        {
            let (stream, read) = (parts.io.into_inner().into_inner(), parts.read_buf.to_vec());
            live::converse(Arc::clone(&self.service), caller, Upgraded { stream, read, compression }).await;
        }
    }
}

/// Charges a client for the heads of a request and its answer. One that has used its share waits, and no further
/// request of its connection is taken meanwhile.
async fn charge(meter: &Meter) {
    if let Err(Overdrawn { wait }) = meter.charge(REQUEST_WORK, Instant::now()) {
        sleep(wait.min(OVERDRAWN_PAUSE)).await;
    }
}
