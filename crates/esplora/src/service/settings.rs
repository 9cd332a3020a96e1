//! Settings of the REST API.

use std::sync::Arc;

use birdhouse_chain::FilterHeaders;
use birdhouse_clients::ClientKeying;
use birdhouse_net::{ConnectionIds, Turns, WebPages};
use bitcoin::Network;

use crate::limits::{Limits, processors};

/// Concurrent requests to the node, unless the settings share the turns of another server.
const NODE_CALLS: u16 = 8;

/// A listener for HTTP: its transport is [`Tcp`](birdhouse_net::Transport::Tcp) or
/// [`Tls`](birdhouse_net::Transport::Tls).
pub type Listener = birdhouse_net::Listener<()>;

/// Settings of the REST API.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The network, which decides the form of addresses.
    pub network: Network,
    /// Web pages that may open a WebSocket over loopback.
    pub pages: WebPages,
    /// Rule by which connections are counted for one client.
    pub keying: ClientKeying,
    /// Numbers for connections; other servers of the process may count with it.
    pub connection_ids: ConnectionIds,
    /// Turns to keep a processor busy; other servers of the process may take them, too.
    pub processors: Arc<Turns>,
    /// Turns to call the node; other servers of the process may take them, too.
    pub node_calls: Arc<Turns>,
    /// Its bounds.
    pub limits: Limits,
    /// Headers of compact block filters; `None` serves no filters.
    pub filters: Option<Arc<FilterHeaders>>,
}

impl Settings {
    /// Returns the defaults for a network.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            pages: WebPages::default(),
            keying: ClientKeying::default(),
            connection_ids: ConnectionIds::default(),
            processors: Turns::of_processors(processors()),
            node_calls: Turns::shared(NODE_CALLS),
            limits: Limits::default(),
            filters: None,
        }
    }
}
