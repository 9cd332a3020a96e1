//! Serving the relay: from bound sockets to connections, and the end of them.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_net::{Accepted, ConnectionSlots, handshake};
use tokio::net::TcpListener;
use tracing::debug;

use crate::connection;
use crate::entrance::http;
use crate::limits::HANDSHAKE_TIMEOUT;
use crate::relay::Relay;

/// A listener for Nostr clients: its transport is [`Ws`](birdhouse_net::Transport::Ws) or
/// [`Wss`](birdhouse_net::Transport::Wss).
pub type Listener = birdhouse_net::Listener<()>;

impl Relay {
    /// Serves clients on every listener until `shutdown` completes. Then each connection is closed with a status,
    /// within `grace`.
    pub async fn serve(
        self: Arc<Self>,
        listeners: Vec<(TcpListener, Listener)>,
        grace: Duration,
        shutdown: impl Future<Output = ()>,
    ) {
        let slots = ConnectionSlots::new(self.settings.limits.connections, Arc::clone(&self.seats));
        let relay = Arc::clone(&self);
        let converse = move |accepted| converse(Arc::clone(&relay), accepted);
        birdhouse_net::serve(listeners, &self.registry, |()| slots.clone(), shutdown, grace, converse).await;
    }
}

/// Serves one client.
async fn converse(relay: Arc<Relay>, accepted: Accepted<()>) {
    let seat = Arc::clone(&accepted.seat);
    let (stopped, opening) = (accepted.stopped.clone(), http::open(&relay, accepted, Arc::clone(&seat)));
    let client = tokio::select! {
        client = handshake(HANDSHAKE_TIMEOUT, stopped, opening) => client,
        () = seat.displaced() => None,
    };
    drop(seat);
    if let Some(client) = client {
        let ending = connection::run(&relay, client, random()).await;
        debug!(?ending, "connection ends");
    }
}

/// Returns a number that nobody can guess.
fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers: it gave some when the relay was opened");
    u128::from_be_bytes(bytes)
}
