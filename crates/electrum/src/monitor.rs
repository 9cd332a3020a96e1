//! A running server, seen from outside: what it has counted, who is connected, and a way to end a connection.

use std::sync::Arc;
use std::time::Instant;

use birdhouse_clients::Waiting;

use crate::counters::Counted;
use crate::service::Service;
use crate::sessions::SessionInfo;

/// The operator's view of the server. Cheap to clone.
#[derive(Clone)]
pub struct Monitor {
    service: Arc<Service>,
}

/// Everything there is to see, but for single connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// What was counted since the start.
    pub counted: Counted,
    /// Connections that are open, by listener.
    pub connections: Vec<(String, usize)>,
    /// Clients that are connected or owe something.
    pub clients: usize,
    /// What connections follow.
    pub subscriptions: usize,
    /// Turns by what they are for: processor, disk, node.
    pub turns: [(&'static str, Waiting); 3],
}

impl Monitor {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        Self { service }
    }

    /// The server as a whole.
    pub fn overview(&self) -> Overview {
        let Service { processors, disk, node_calls, sessions, counters, .. } = &*self.service;
        Overview {
            counted: counters.counted(),
            connections: sessions.by_listener(),
            clients: sessions.clients(),
            subscriptions: sessions.subscriptions(),
            turns: [("processor", processors.waiting()), ("disk", disk.waiting()), ("node", node_calls.waiting())],
        }
    }

    /// Every connection, the oldest first.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.service.sessions.list(Instant::now())
    }

    /// Ends a connection. False if there is none of that number.
    pub fn disconnect(&self, id: u64) -> bool {
        self.service.sessions.disconnect(id)
    }
}
