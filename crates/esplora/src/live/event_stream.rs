//! The body of an answer that never ends: events as they happen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use birdhouse_chain::{Snapshot, Update};
use birdhouse_net::PING_WORK;
use futures_util::stream;
use hyper::StatusCode;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use crate::limits::WATCHED;
use crate::service::{Caller, Service};
use crate::wire::{Failure, Watch};

/// Interval of comments while nothing happens: they find out if the client is still there.
const ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const ALIVE: &str = ": alive\n\n";

/// Checks that a client may watch this much beside what it tracks by other streams and WebSocket connections.
///
/// # Errors
/// Its bound, or that of all clients, is reached.
pub(crate) fn admit(service: &Service, caller: &Caller, watch: &Watch) -> Result<(), Failure> {
    let limits = &service.settings.limits;
    if watch.count() <= caller.meter.subscriptions_max(WATCHED, limits.client_tracked, limits.tracked) {
        return Ok(());
    }
    let text = "Too many addresses and transactions are tracked; end other streams, or try again later";
    Err(Failure::Refused(StatusCode::TOO_MANY_REQUESTS, text.into()))
}

/// A client that receives events.
struct Receiver {
    service: Arc<Service>,
    caller: Caller,
    watch: Watch,
    updates: broadcast::Receiver<Arc<Update>>,
    stopped: watch::Receiver<()>,
    has_begun: bool,
}

/// Returns a body that sends what happens to the watched things until the client leaves or the server ends.
pub(crate) fn body(service: Arc<Service>, caller: Caller, watch: Watch) -> Body {
    // Before the first snapshot is read: nothing happens in between.
    let updates = service.index.updates();
    let stopped = caller.stopped.clone();
    caller.meter.follows(watch.count());
    let receiver = Receiver { service, caller, watch, updates, stopped, has_begun: false };
    Body::from_stream(stream::unfold(receiver, |mut receiver| async move {
        let events = receiver.next().await?;
        let meter = &receiver.caller.meter;
        meter.notified(events.len());
        // A client that has used its share asks again, and gets status 429.
        meter.charge(PING_WORK, Instant::now()).ok()?;
        Some((Ok::<Bytes, std::io::Error>(events.into()), receiver))
    }))
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.caller.meter.follows(0);
    }
}

impl Receiver {
    /// Waits for the next events; `None` ends the stream.
    async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let at = self.service.index.snapshot().ok()?;
            return self.read(&at, Watch::begin).await;
        }
        loop {
            let update = tokio::select! {
                update = self.service.index.next_update(&mut self.updates) => update?,
                () = sleep(ALIVE_INTERVAL) => return Some(ALIVE.into()),
                _ = self.stopped.changed() => return None,
            };
            let Update { snapshot, touched } = &*update;
            if !self.caller.concerned(|| self.watch.concerns(snapshot, touched)) {
                continue;
            }
            let events = self.read(snapshot, |watch, at| watch.changed(at, touched)).await?;
            if !events.is_empty() {
                return Some(events);
            }
        }
    }

    /// Reads what events say, in a turn of the client. A failure ends the stream: the client comes back.
    async fn read(
        &mut self,
        at: &Snapshot,
        read: impl Fn(&mut Watch, &Snapshot) -> birdhouse_chain::Result<String>,
    ) -> Option<String> {
        let watch = &mut self.watch;
        match self.service.read(&self.caller.meter, || Ok(read(watch, at)?)).await {
            Ok(events) => Some(events),
            Err(Failure::Index(birdhouse_chain::Error::Cancelled)) => None,
            Err(failure) => {
                // Logs what concerns the operator.
                failure.into_refusal();
                None
            }
        }
    }
}
