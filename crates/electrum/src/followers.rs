//! Who hears of updates: one task takes each to every connection, and wakes those that it concerns.
//!
//! Waking costs more than looking: a mempool changes many times a second, and of ten thousand clients that only wait an
//! update concerns a few.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use birdhouse_chain::{Touched, Update};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::connection::Connection;

/// The connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    connections: Mutex<Vec<Weak<Connection>>>,
}

impl Followers {
    /// From now on updates are taken to this connection, for as long as it lives.
    pub(crate) fn add(&self, connection: &Arc<Connection>) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.len() == connections.capacity() {
            connections.retain(|connection| connection.strong_count() > 0);
        }
        connections.push(Arc::downgrade(connection));
    }

    /// Takes updates to all connections until there are none any more.
    pub(crate) async fn run(&self, mut updates: Receiver<Arc<Update>>) {
        let mut tip = None;
        loop {
            match updates.recv().await {
                Ok(update) => {
                    let now = update.snapshot.tip().hash;
                    let moved = tip.replace(now) != Some(now);
                    self.take(&update.touched, if moved { Tip::Moved } else { Tip::AsBefore });
                }
                // Nobody knows what was in those that are lost.
                Err(RecvError::Lagged(_)) => self.take(&Touched::Any, Tip::Moved),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn take(&self, touched: &Touched, tip: Tip) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| {
            let Some(connection) = connection.upgrade() else { return false };
            take_to(&connection, touched, tip);
            true
        });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tip {
    Moved,
    AsBefore,
}

fn take_to(connection: &Connection, touched: &Touched, tip: Tip) {
    let mut session = connection.session();
    match touched {
        Touched::Scripts(scripts) => session.touch(scripts),
        Touched::Any => session.touch_all(),
    }
    if session.has_due() || (tip == Tip::Moved && session.is_tip_due()) {
        connection.recheck.notify_one();
    }
}
