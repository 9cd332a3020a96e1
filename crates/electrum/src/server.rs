//! The server: its listeners and background tasks from start to shutdown, and the operator's view of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use birdhouse_clients::{PlaceBounds, SlowKind};
use birdhouse_net::{ConnectionInfo, ConnectionSlots, SeatCounts, Seats};
use tokio::net::TcpListener;

use crate::connection::transport;
use crate::limits::Limits;
use crate::service::{Counted, Service};
use crate::settings::{Listener, Settings};

/// An Electrum server. Clones are handles on the same server.
#[derive(Clone)]
pub struct Server {
    service: Arc<Service>,
}

/// State of the server, without single connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// Counts since the start.
    pub counted: Counted,
    /// Connections that are open, by listener.
    pub connections: Vec<(String, usize)>,
    /// Connections that were closed to make room for others.
    pub refused_connections: SeatCounts,
    /// Clients that are connected or have used work that is not forgiven yet.
    pub clients: usize,
    /// Subscriptions of all connections.
    pub subscriptions: usize,
    /// Subscriptions of all connections to silent payments.
    pub silent_subscriptions: usize,
    /// Histories of silent payments that are scanned, or wait for their turn.
    pub silent_scans: usize,
    /// Bytes of replies that clients have not read.
    pub unsent_bytes: usize,
    /// The slowest kinds of requests, by their time from arrival to departure.
    pub slowest: Vec<SlowKind>,
}

impl Server {
    /// Creates a server of this index.
    ///
    /// Without a node the server serves everything in blocks, and answers a method that needs the node with an error.
    pub fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        Self { service: Arc::new(Service::new(index, node, settings)) }
    }

    /// Serves clients on every listener until `shutdown` completes. Requests in flight then have
    /// [`crate::ServerLimits::shutdown_timeout`] to be answered.
    ///
    /// Needs a Tokio runtime with time and I/O enabled, and room for [`crate::ServerLimits::blocking_threads`] blocking
    /// threads.
    pub async fn serve(self, listeners: Vec<(TcpListener, Listener)>, shutdown: impl Future<Output = ()>) {
        let Self { service } = self;
        let (updates, update_task, discovery_task) =
            (service.index.updates(), Arc::clone(&service), Arc::clone(&service.peers));
        let update_task = tokio::spawn(async move { update_task.followers.run(updates).await });
        let discovery_task = tokio::spawn(async move { discovery_task.run().await });
        let (registry, grace) = (Arc::clone(&service.registry), service.settings.limits.shutdown_timeout);
        let refused = Arc::clone(&service.refused);
        let slots = |limits: &Limits| {
            let seats = Seats::new(
                PlaceBounds::of_networks(limits.network_connections),
                Vec::new(),
                Arc::clone(&refused),
                Instant::now(),
            );
            ConnectionSlots::new(limits.connections, seats)
        };
        let followed = Arc::clone(&service);
        let shutdown = async move {
            shutdown.await;
            followed.followers.end();
        };
        let converse = move |accepted| transport::converse(Arc::clone(&service), accepted);
        birdhouse_net::serve(listeners, &registry, slots, shutdown, grace, converse).await;
        update_task.abort();
        discovery_task.abort();
    }

    /// Returns the state of the server.
    pub fn overview(&self) -> Overview {
        let Service { registry, refused, counters, silent, .. } = &*self.service;
        Overview {
            counted: counters.counted(registry.traffic()),
            connections: registry.by_listener(),
            refused_connections: refused.counts(),
            clients: registry.clients(),
            unsent_bytes: self.service.unsent.bytes.load(Ordering::Relaxed),
            subscriptions: registry.subscriptions(),
            silent_subscriptions: silent.subscriptions(),
            silent_scans: silent.scans(),
            slowest: counters.slowest.list(Instant::now()),
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
}
