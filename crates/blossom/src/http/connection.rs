//! One connection: PROXY header, TLS, then requests one after the other.

use std::convert::Infallible;
use std::io::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

use birdhouse_net::{Accepted, ConnectionGuard, RequestBounds, Seated, Stream, handshake, serve_requests};
use hyper::service::service_fn;
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
    listener.transport.charge_opening(&guard.meter)?;
    seat.complete(origin);
    Ok((guard, listener.transport.open(Seated::new(socket, seat)).await?, permit))
}

async fn serve(caller: Caller, stream: Stream, stopped: watch::Receiver<()>) {
    let (limits, meter) = (caller.limits(), Arc::clone(&caller.meter));
    let (head_timeout, write_timeout) = (limits.head_timeout, limits.write_timeout);
    let bounds = RequestBounds { head_timeout, head_bytes: HEAD_BYTES, write_timeout };
    let answer = service_fn(move |request| {
        let caller = caller.clone();
        async move { Ok::<_, Infallible>(respond(caller, request).await) }
    });
    serve_requests(stream, bounds, &meter, stopped, answer).await;
}
