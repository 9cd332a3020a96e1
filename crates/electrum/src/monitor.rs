//! The operator's view of a running server: its counts, its open connections, and a way to end one.

use std::sync::Arc;
use std::time::Instant;

use birdhouse_clients::Waiting;
use birdhouse_net::ConnectionInfo;

use crate::counters::Counted;
use crate::service::Service;

/// The operator's view of the server. Cheap to clone.
#[derive(Clone)]
pub struct Monitor {
    service: Arc<Service>,
}

/// State of the server, without single connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// Counts since the start.
    pub counted: Counted,
    /// Connections that are open, by listener.
    pub connections: Vec<(String, usize)>,
    /// Clients that are connected or have used work that is not forgiven yet.
    pub clients: usize,
    /// Subscriptions of all connections.
    pub subscriptions: usize,
    /// Turns by their resource: processor, disk, node.
    pub turns: [(&'static str, Waiting); 3],
}

impl Monitor {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        Self { service }
    }

    /// Returns the state of the server.
    pub fn overview(&self) -> Overview {
        let Service { processors, disk, node_calls, registry, counters, .. } = &*self.service;
        Overview {
            counted: counters.counted(registry.traffic()),
            connections: registry.by_listener(),
            clients: registry.clients(),
            subscriptions: registry.subscriptions(),
            turns: [("processor", processors.waiting()), ("disk", disk.waiting()), ("node", node_calls.waiting())],
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
