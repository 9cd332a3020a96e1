//! Delivery of updates: one task takes each update to every connection, and wakes those that it concerns.
//!
//! Waking costs more than checking: a mempool changes many times a second, and of ten thousand clients that only wait
//! an update concerns a few. The end of the server is brought to them in the same way.

use std::sync::{Arc, Weak};

use birdhouse_chain::{Touched, Update};
use parking_lot::Mutex;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::client::{Client, RECHECK, SERVER_ENDS};

/// Clients of the open connections.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clients: Vec<Weak<Client>>,
    server: Server,
}

/// State of the server.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Server {
    #[default]
    Serves,
    Ends,
}

impl Followers {
    /// Adds a client, which receives updates from now on until it is dropped.
    pub(crate) fn add(&self, client: &Arc<Client>) {
        let State { clients, server } = &mut *self.state.lock();
        if clients.len() == clients.capacity() {
            clients.retain(|client| client.strong_count() > 0);
        }
        clients.push(Arc::downgrade(client));
        if *server == Server::Ends {
            client.signals.raise(SERVER_ENDS);
        }
    }

    /// Lets all clients know that the server ends, and those that are added from now on.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.server = Server::Ends;
        for client in state.clients.iter().filter_map(Weak::upgrade) {
            client.signals.raise(SERVER_ENDS);
        }
    }

    /// Takes updates to all clients until the sender is dropped.
    pub(crate) async fn run(&self, mut updates: Receiver<Arc<Update>>) {
        let mut tip = None;
        loop {
            match updates.recv().await {
                Ok(update) => {
                    let now = update.snapshot.tip().hash;
                    let has_moved = tip.replace(now) != Some(now);
                    self.take(&update.touched, if has_moved { Tip::Moved } else { Tip::AsBefore });
                }
                // The content of lost updates is unknown.
                Err(RecvError::Lagged(_)) => self.take(&Touched::Any, Tip::Moved),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn take(&self, touched: &Touched, tip: Tip) {
        self.state.lock().clients.retain(|client| {
            let Some(client) = client.upgrade() else { return false };
            take_to(&client, touched, tip);
            true
        });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tip {
    Moved,
    AsBefore,
}

fn take_to(client: &Client, touched: &Touched, tip: Tip) {
    let mut state = client.state();
    match touched {
        Touched::Scripts(scripts) => state.touch(scripts),
        Touched::Any => state.touch_all(),
    }
    if state.has_due() || state.silent.has_live() || (tip == Tip::Moved && state.is_tip_due()) {
        client.signals.raise(RECHECK);
    }
}
