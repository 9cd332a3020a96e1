//! The server: its listeners, from start to shutdown, and the removal of what a killed process has left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_clients::PlaceBounds;
use birdhouse_net::{ConnectionInfo, ConnectionSlots, Listener, SeatCounts, Seats, offload};
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::access::Operator;
use crate::http;
use crate::service::{Counts, Service, Settings};
use crate::store::{Store, Swept, Usage};

/// Pause between two folders of files that are swept: all 256 take half a minute.
const SWEEP_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_hours(24);

/// A media store that is served. Clones are handles on the same one.
#[derive(Clone)]
pub struct Server {
    service: Arc<Service>,
}

/// State of the server, without single connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// Connections that are open, by listener.
    pub connections: Vec<(String, usize)>,
    /// Connections that were closed to make room for others.
    pub refused_connections: SeatCounts,
    /// Numbers of requests.
    pub counts: Counts,
    /// Uploads under way.
    pub uploading: usize,
    /// All that is stored, each blob once.
    pub total: Usage,
}

impl Server {
    /// Returns a server of a store, for an owner who decides on uploads and takes reports.
    pub fn new(store: Arc<Store>, operator: Arc<dyn Operator>, settings: Settings) -> Self {
        Self { service: Arc::new(Service::new(store, operator, settings)) }
    }

    /// Returns the state of the server.
    pub fn overview(&self) -> Overview {
        let Service { registry, refused, counters, uploads, store, .. } = &*self.service;
        Overview {
            connections: registry.by_listener(),
            refused_connections: refused.counts(),
            counts: counters.counts(),
            uploading: uploads.held(),
            total: store.counted(),
        }
    }

    /// Returns every connection, the oldest first.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.service.registry.list(Instant::now())
    }

    /// Ends a connection. Returns false if there is none of this number.
    pub fn disconnect(&self, id: u64) -> bool {
        self.service.registry.disconnect(id)
    }

    /// Serves clients on every socket until `shutdown` completes. Requests in flight then have `grace` to be answered.
    ///
    /// Needs a Tokio runtime with time and I/O enabled, and room for [`crate::Limits::blocking_threads`] blocking
    /// threads.
    pub async fn serve(
        self,
        sockets: Vec<(TcpListener, Listener<()>)>,
        grace: Duration,
        shutdown: impl Future<Output = ()>,
    ) {
        let Self { service } = self;
        let sweeping = tokio::spawn(sweep(Arc::clone(&service)));
        let limits = &service.settings.limits;
        let bounds = PlaceBounds::of_networks(limits.network_connections);
        let seats = Seats::new(bounds, Vec::new(), Arc::clone(&service.refused), Instant::now());
        let slots = ConnectionSlots::new(limits.connections, seats);
        let registry = Arc::clone(&service.registry);
        let converse = move |accepted| http::converse(Arc::clone(&service), accepted);
        birdhouse_net::serve(sockets, &registry, |()| slots.clone(), shutdown, grace, converse).await;
        sweeping.abort();
    }
}

/// Removes files that count nowhere, now and every day.
async fn sweep(service: Arc<Service>) {
    loop {
        let Swept { kept, removed, left } = sweep_once(&service).await;
        if left > 0 {
            tracing::error!(
                kept,
                removed,
                "the media store has more files that nobody owns than a kill leaves; the index may be an old one: \
                 restore blobs.redb, or remove them"
            );
            return;
        }
        tracing::info!(kept, removed, "looked for files of the media store that nobody owns");
        sleep(SWEEP_INTERVAL).await;
    }
}

/// Removes files that nobody owns, if they are no more than a kill leaves.
async fn sweep_once(service: &Service) -> Swept {
    let limits = &service.settings.limits;
    // A kill leaves those that were about to get a row, or had lost it.
    let most = limits.uploads + limits.blocking_threads();
    sweep_up_to(&service.store, most as u64, SWEEP_PAUSE).await
}

/// Removes all files that nobody owns, or none where they are more than `most`.
async fn sweep_up_to(store: &Store, most: u64, pause: Duration) -> Swept {
    let found = sweep_all(store, 0, pause).await;
    if found.left == 0 || found.left > most { found } else { sweep_all(store, most, pause).await }
}

/// Goes over all folders of files, and removes at most this many.
async fn sweep_all(store: &Store, most: u64, pause: Duration) -> Swept {
    let mut all = Swept::default();
    for part in 0..=u8::MAX {
        match offload(|| store.sweep(part, most - all.removed)) {
            Ok(Swept { kept, removed, left }) => {
                all = Swept { kept: all.kept + kept, removed: all.removed + removed, left: all.left + left };
            }
            Err(error) => tracing::error!(%error, "failed to look for files of the media store that nobody owns"),
        }
        sleep(pause).await;
    }
    all
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;

    use super::*;
    use crate::hash::BlobHash;

    #[tokio::test]
    async fn more_files_without_a_row_than_a_kill_leaves_all_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for number in 0..5 {
            fs::write(store.path(BlobHash([number * 40; 32])), b"of a newer index").unwrap();
        }
        assert_eq!(sweep_up_to(&store, 4, Duration::ZERO).await, Swept { kept: 0, removed: 0, left: 5 });
        assert_eq!(sweep_up_to(&store, 5, Duration::ZERO).await, Swept { kept: 0, removed: 5, left: 0 });
    }
}
