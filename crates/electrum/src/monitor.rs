//! A running server, seen from outside: what it has counted, its open connections, and a way to end one.

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

/// Everything there is to see, but for single connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// Counts since the start.
    pub counted: Counted,
    /// Connections that are open, by listener.
    pub connections: Vec<(String, usize)>,
    /// Clients that are connected or owe something.
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

    /// The server as a whole.
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

    /// Every connection, the oldest first.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.service.registry.list(Instant::now())
    }

    /// Ends a connection. False if there is none of that number.
    pub fn disconnect(&self, id: u64) -> bool {
        self.service.registry.disconnect(id)
    }
}
