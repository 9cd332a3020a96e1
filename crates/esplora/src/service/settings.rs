//! Settings of the REST API.

use std::sync::Arc;

use birdhouse_chain::{FilterHeaders, Tweaks};
use birdhouse_clients::ClientKeying;
use birdhouse_net::{Connections, Reads, WebPages};
use bitcoin::Network;

use crate::history::History;
use crate::limits::Limits;

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
    /// Numbers and bans of connections; other servers of the process may share them.
    pub connections: Connections,
    /// Turns to read the index and to call the node; other servers of the process may take them, too.
    pub reads: Arc<Reads>,
    /// Its bounds.
    pub limits: Limits,
    /// Headers of compact block filters; `None` serves no filters.
    pub filters: Option<Arc<FilterHeaders>>,
    /// Tweaks of silent payments; `None` serves none.
    pub tweaks: Option<Tweaks>,
    /// The history of the mempool; `None` keeps none.
    pub history: Option<Arc<History>>,
}

impl Settings {
    /// Returns the defaults for a network.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            pages: WebPages::default(),
            keying: ClientKeying::default(),
            connections: Connections::default(),
            reads: Arc::default(),
            limits: Limits::default(),
            filters: None,
            tweaks: None,
            history: None,
        }
    }
}
