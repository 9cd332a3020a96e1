//! New events, sent to the subscriptions that match them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_events::{Event, Filter, Matcher, Pubkey, Seq};
use birdhouse_net::SharedPayload;
use parking_lot::RwLock;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Names a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u64);

/// A subscription of a connection, by a number of its own: an event that comes late for one that was closed reaches no
/// other one of its name.
pub(crate) type Key = (ConnectionId, u64);

/// A new event for a subscription.
#[derive(Debug, Clone)]
pub(crate) struct LiveEvent {
    /// The subscription's number.
    pub(crate) subscription: u64,
    /// `None` for an ephemeral event: it is nowhere but here.
    pub(crate) seq: Option<Seq>,
    /// The pubkeys that may read it; `None` if all may.
    pub(crate) readers: Option<Arc<[Pubkey]>>,
    /// Its JSON and the end of the message.
    pub(crate) payload: Arc<SharedPayload>,
}

/// All subscriptions of all connections.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    subscriptions: RwLock<Subscriptions>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Subscriptions {
    matcher: Matcher<Key>,
    connections: HashMap<ConnectionId, Connection>,
}

/// The sending end of a connection.
#[derive(Debug)]
struct Connection {
    live: mpsc::Sender<LiveEvent>,
    /// Notified when the queue was full.
    behind: Arc<tokio::sync::Notify>,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) id: ConnectionId,
    pub(crate) live: mpsc::Receiver<LiveEvent>,
    pub(crate) behind: Arc<tokio::sync::Notify>,
    hub: Arc<Hub>,
}

// === impl Hub ===

impl Hub {
    /// Adds a connection, for which `queue` events may wait.
    pub(crate) fn enter(self: &Arc<Self>, queue: usize) -> Inbox {
        let id = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, live) = mpsc::channel(queue);
        let behind = Arc::<tokio::sync::Notify>::default();
        let connection = Connection { live: sender, behind: Arc::clone(&behind) };
        self.subscriptions.write().connections.insert(id, connection);
        Inbox { id, live, behind, hub: Arc::clone(self) }
    }

    pub(crate) fn subscribe(&self, key: Key, filters: Arc<[Filter]>) {
        self.subscriptions.write().matcher.insert(key, filters);
    }

    pub(crate) fn unsubscribe(&self, key: Key) {
        self.subscriptions.write().matcher.remove(key);
    }

    /// Sends the event to every matching subscription; returns their number.
    pub(crate) fn publish_live(&self, event: &Event, seq: Option<Seq>) -> usize {
        let subscriptions = self.subscriptions.read();
        let keys = subscriptions.matcher.matches(event);
        if !keys.is_empty() {
            let mut message = Vec::new();
            event.write_json(&mut message);
            message.push(b']');
            let payload = Arc::new(SharedPayload::new(message));
            let readers: Option<Arc<[Pubkey]>> = event.readers().map(Into::into);
            for (id, subscription) in &keys {
                let Some(connection) = subscriptions.connections.get(id) else { continue };
                let (readers, payload) = (readers.clone(), Arc::clone(&payload));
                let event = LiveEvent { subscription: *subscription, seq, readers, payload };
                if let Err(TrySendError::Full(_)) = connection.live.try_send(event) {
                    connection.behind.notify_one();
                }
            }
        }
        keys.len()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.hub.subscriptions.write().connections.remove(&self.id);
    }
}
