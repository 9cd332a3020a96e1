//! The server: its listeners, from start to shutdown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::{Router, middleware};
use birdhouse_chain::Index;
use birdhouse_chain::source::Node;
use birdhouse_clients::{PlaceBounds, SlowKind};
use birdhouse_net::{ConnectionInfo, ConnectionSlots, SeatCounts, Seats};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http::{routes, transport, with_close, with_gzip};
use crate::pages::Pages;
use crate::sampling;
use crate::service::{Listener, Service, Settings};

/// Bound sockets by the things that are served there.
#[derive(Debug, Default)]
pub struct Sockets {
    /// For the API alone.
    pub api: Vec<(TcpListener, Listener)>,
    /// For the API with `/internal`, which may cost much: for programs of the operator.
    pub private: Vec<(TcpListener, Listener)>,
    /// For pages, with the API under `/api`.
    pub pages: Option<(&'static Pages, Vec<(TcpListener, Listener)>)>,
}

/// A server of the REST API. Clones are handles on the same server.
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
    /// The slowest endpoints and pages, by the time that their answers took, with the wait for a turn.
    pub slowest: Vec<SlowKind>,
}

impl Server {
    /// Creates a server of this index.
    ///
    /// Without a node the server serves everything in blocks, and answers what needs the node with status 503.
    pub fn new(index: Arc<Index>, node: Option<Arc<dyn Node>>, settings: Settings) -> Self {
        Self { service: Arc::new(Service::new(index, node, settings)) }
    }

    /// Returns the state of the server.
    pub fn overview(&self) -> Overview {
        let Service { registry, refused, slowest, .. } = &*self.service;
        Overview {
            connections: registry.by_listener(),
            refused_connections: refused.counts(),
            slowest: slowest.list(Instant::now()),
        }
    }

    /// Adds a record to the history, as the server does every minute. Waits for the node. Returns false without a
    /// history, a mempool or an answer of the node.
    pub fn record_mempool(&self) -> bool {
        sampling::add(&self.service)
    }

    /// Returns every connection, the oldest first.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.service.registry.list(Instant::now())
    }

    /// Ends a connection. Returns false if there is none of this number.
    pub fn disconnect(&self, id: u64) -> bool {
        self.service.registry.disconnect(id)
    }

    /// Serves clients on every socket until `shutdown` completes. Requests in flight then have `grace` to be
    /// answered.
    ///
    /// Needs a Tokio runtime with time and I/O enabled, and room for [`crate::Limits::blocking_threads`] blocking
    /// threads, and as many more as [`Settings::reads`] has turns.
    pub async fn serve(self, sockets: Sockets, grace: Duration, shutdown: impl Future<Output = ()>) {
        let Self { service } = self;
        let Sockets { api, private, pages } = sockets;
        let mut listeners = routed(&service, api, routes::api_router(&service));
        listeners.extend(routed(&service, private, routes::private_router(&service)));
        let mut following = JoinSet::new();
        if service.settings.history.is_some() && service.node().is_ok() {
            following.spawn(sampling::keep(Arc::clone(&service)));
        }
        if let Some((pages, sockets)) = pages {
            following.spawn(Arc::clone(&service.stale_blocks).follow(Arc::clone(&service.index)));
            listeners.extend(routed(&service, sockets, routes::pages_router(&service, pages)));
        }
        let limits = &service.settings.limits;
        let seats = Seats::new(
            PlaceBounds::of_networks(limits.network_connections),
            Vec::new(),
            Arc::clone(&service.refused),
            Instant::now(),
        );
        let slots = ConnectionSlots::new(limits.connections, seats);
        let registry = Arc::clone(&service.registry);
        let converse = move |accepted| transport::serve(Arc::clone(&service), accepted);
        birdhouse_net::serve(listeners, &registry, |_| slots.clone(), shutdown, grace, converse).await;
    }
}

/// Sockets whose requests one router answers.
fn routed(
    service: &Service,
    sockets: Vec<(TcpListener, Listener)>,
    router: Router,
) -> Vec<(TcpListener, birdhouse_net::Listener<Router>)> {
    let gzip = middleware::from_fn_with_state(Arc::clone(&service.reads), with_gzip);
    let router = router.layer(gzip).layer(middleware::from_fn(with_close));
    let routed = |(socket, listener): (TcpListener, Listener)| {
        let birdhouse_net::Listener { name, transport, proxy, limits: () } = listener;
        (socket, birdhouse_net::Listener { name, transport, proxy, limits: router.clone() })
    };
    sockets.into_iter().map(routed).collect()
}
