//! One connection: PROXY header, TLS, then requests one after the other.

use std::convert::Infallible;
use std::io::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

use birdhouse_net::{Accepted, ConnectionGuard, Seated, SlowWrite, Stream, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::routes::respond;
use crate::address::{Address, Scheme};
use crate::limits::HEAD_BYTES;
use crate::service::{Caller, Service};

/// Serves one connection to its end, or until it must leave for a newcomer.
pub(crate) async fn converse(service: Arc<Service>, accepted: Accepted<()>) {
    let seat = Arc::clone(&accepted.seat);
    let conversation = async {
        let address = Arc::new(address(&service, &accepted));
        let (within, stopped) = (service.settings.limits.handshake_timeout, accepted.stopped.clone());
        let greeted = handshake(within, stopped.clone(), greet(&service, accepted)).await;
        let Some((guard, stream, _permit)) = greeted else { return };
        let caller = Caller { service, meter: Arc::clone(&guard.meter), address };
        serve(caller, stream, stopped).await;
    };
    seat.hold(conversation).await;
}

/// Returns the address by which the client knows the server.
fn address(service: &Service, accepted: &Accepted<()>) -> Address {
    if let Some(address) = &service.settings.address {
        return address.clone();
    }
    let scheme = if accepted.listener.transport.certificate().is_some() { Scheme::Https } else { Scheme::Http };
    let local = accepted.socket.local_addr().unwrap_or(accepted.from);
    Address::local(scheme, local)
}

/// Reads the client's address, registers the connection, and does its TLS handshake.
async fn greet(
    service: &Service,
    mut accepted: Accepted<()>,
) -> Result<(ConnectionGuard, Stream, OwnedSemaphorePermit)> {
    let origin = accepted.origin().await?;
    let Accepted { id, listener, socket, permit, seat, .. } = accepted;
    let bounds = service.settings.limits.client();
    let entered = service.registry.enter(id, &listener.name, origin, &bounds, Instant::now());
    let guard = entered.map_err(Error::other)?;
    // Before the handshake, which costs more than anything that a stranger can ask for with as few bytes. Without TLS
    // the first answer says it.
    let charged = guard.meter.charge(listener.transport.opening_work(), Instant::now());
    if charged.is_err() && listener.transport.certificate().is_some() {
        return Err(Error::other("the client has used more than its share"));
    }
    seat.complete(origin);
    Ok((guard, listener.transport.open(Seated::new(socket, seat)).await?, permit))
}

async fn serve(caller: Caller, stream: Stream, mut stopped: watch::Receiver<()>) {
    let (service, meter) = (Arc::clone(&caller.service), Arc::clone(&caller.meter));
    let limits = &service.settings.limits;
    let answer = service_fn(move |request| {
        let caller = caller.clone();
        async move { Ok::<_, Infallible>(respond(caller, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(SlowWrite::new(stream, limits.write_timeout)), answer);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = meter.disconnected() => return,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection failed");
    }
}
