//! Serving the relay: from bound sockets to connections, and the end of them.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_net::{WhenFull, accept, handshake};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{Instrument as _, debug, debug_span};

use crate::limits::HANDSHAKE_TIMEOUT;
use crate::relay::Relay;
use crate::{connection, http};

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
        let places = Arc::new(Semaphore::new(self.settings.limits.connections.min(Semaphore::MAX_PERMITS)));
        let (stop, stopped) = watch::channel(());
        let mut running = JoinSet::new();
        for (socket, listener) in listeners {
            let (relay, room) = (Arc::clone(&self), (Arc::clone(&places), WhenFull::Wait));
            running.spawn(accept(
                socket,
                listener.into(),
                room,
                (stopped.clone(), grace),
                move |accepted, connections| {
                    let relay = Arc::clone(&relay);
                    let span = debug_span!("connection", listener = accepted.listener.name);
                    let converse = async move {
                        let (stopped, opening) = (accepted.stopped.clone(), http::open(&relay, accepted));
                        if let Some(client) = handshake(HANDSHAKE_TIMEOUT, stopped, opening).await {
                            let ending = connection::run(&relay, client, random()).await;
                            debug!(?ending, "connection ends");
                        }
                    };
                    connections.spawn(converse.instrument(span));
                },
            ));
        }
        shutdown.await;
        drop(stop);
        while running.join_next().await.is_some() {}
    }
}

/// Returns a number that nobody can guess.
fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers: it gave some when the relay was opened");
    u128::from_be_bytes(bytes)
}
