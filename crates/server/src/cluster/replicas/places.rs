//! Places at the listener for replicas: few, and for seconds, for connections that have not shown the secret; others
//! for those that have. So strangers keep neither replicas nor front ends out.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use birdhouse_clients::PlaceBounds;
use birdhouse_net::{ConnectionSlots, Seats};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Concurrent connections that have not shown the secret. The oldest of the largest network leaves for a newcomer.
pub(crate) const STRANGERS_MAX: usize = 32;
/// Those of one address (IPv6: a /64). Further ones are closed.
pub(crate) const STRANGERS_OF_ADDRESS_MAX: usize = 8;
/// Time for a connection to show the secret: for its handshake, and the head of its first request.
pub(crate) const STRANGER_PATIENCE: Duration = Duration::from_secs(10);
/// Concurrent connections that have shown the secret. A further one is answered with status 503.
pub(crate) const KNOWN_MAX: usize = 64;

/// A connection, which shows the secret or does not.
pub(super) struct Entry {
    all: Arc<Semaphore>,
    place: OnceLock<OwnedSemaphorePermit>,
    known: Notify,
}

/// All places of connections that have shown the secret are taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AllTaken;

/// Returns the places of strangers.
pub(super) fn of_strangers(now: Instant) -> ConnectionSlots {
    let bounds = PlaceBounds { half_open: STRANGERS_OF_ADDRESS_MAX, network: usize::MAX };
    ConnectionSlots::new(STRANGERS_MAX, Seats::new(bounds, Vec::new(), Arc::default(), now))
}

// === impl Entry ===

impl Entry {
    /// Returns a connection that has shown nothing. `all` has the places of those that have shown the secret.
    pub(super) fn new(all: Arc<Semaphore>) -> Self {
        Self { all, place: OnceLock::new(), known: Notify::new() }
    }

    /// Takes a place for a connection that has shown the secret, with its first request.
    ///
    /// # Errors
    /// All are taken.
    pub(super) fn admit(&self) -> Result<(), AllTaken> {
        if self.place.get().is_some() {
            return Ok(());
        }
        let place = Arc::clone(&self.all).try_acquire_owned().map_err(|_| AllTaken)?;
        // A connection has one request at a time, so nobody else sets it.
        let _ = self.place.set(place);
        self.known.notify_one();
        Ok(())
    }

    /// Waits until the connection has shown the secret.
    pub(super) async fn admitted(&self) {
        self.known.notified().await;
    }
}
