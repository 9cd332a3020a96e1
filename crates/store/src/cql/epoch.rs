//! One epoch of a place: the connection and the lease of the process that writes, and the numbers that it gives out.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::cluster::Cluster;
use super::layout;
use super::lease::Lease;
use crate::error::Result;

/// An epoch. Dropping it gives up the lease.
pub(super) struct Epoch {
    pub(super) cluster: Cluster,
    lease: Arc<Lease>,
    /// The last timestamp of a write.
    timestamp: AtomicI64,
    /// The last generation that was begun.
    generation: AtomicI64,
}

impl Epoch {
    /// Begins an epoch, whose lease is renewed from now on.
    pub(super) fn begin(cluster: Cluster, lease: Lease, silence: Duration) -> Self {
        let lease = Arc::new(lease);
        let kept = Arc::clone(&lease);
        cluster.spawn(|link| kept.keep(link, silence));
        let timestamp = AtomicI64::new(layout::first_timestamp(lease.epoch));
        let generation = AtomicI64::new(layout::first_generation(lease.epoch));
        Self { cluster, lease, timestamp, generation }
    }

    /// Returns a timestamp after all that this epoch and those before it have used.
    pub(super) fn next_timestamp(&self) -> i64 {
        self.timestamp.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns a generation that no table has had.
    pub(super) fn next_generation(&self) -> i64 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// # Errors
    /// [`Error::Fenced`](crate::Error::Fenced) once the lease is known to be lost.
    pub(super) fn check(&self) -> Result<()> {
        self.lease.check()
    }

    /// Makes `state` current.
    ///
    /// # Errors
    /// [`Error::Fenced`](crate::Error::Fenced) if another process has taken over the lease;
    /// [`Error::Cluster`](crate::Error::Cluster) if the outcome is unknown.
    pub(super) fn publish(&self, state: Vec<u8>) -> Result<()> {
        let lease = Arc::clone(&self.lease);
        self.cluster.wait(|link| lease.publish(link, state))
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        let lease = Arc::clone(&self.lease);
        if let Err(error) = self.cluster.wait(|link| lease.release(link)) {
            tracing::warn!(%error, "failed to release the lease; another process waits until it has expired");
        }
    }
}
