//! New events to the subscriptions that wait for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use birdhouse_events::{Event, Filter, Matcher, Pubkey, Seq};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::told::Told;

/// Names a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u64);

/// A subscription of a connection, by a number of its own: one that was closed is not meant by what comes late.
pub(crate) type Key = (ConnectionId, u64);

/// A new event for a subscription.
#[derive(Debug, Clone)]
pub(crate) struct News {
    /// The subscription's number.
    pub(crate) subscription: u64,
    /// `None` for an ephemeral event: it is nowhere but here.
    pub(crate) seq: Option<Seq>,
    /// The people it is for; `None` if for everybody.
    pub(crate) readers: Option<Arc<[Pubkey]>>,
    pub(crate) told: Arc<Told>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    listeners: RwLock<Listeners>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Listeners {
    matcher: Matcher<Key>,
    connections: HashMap<ConnectionId, Connection>,
}

/// What is kept of a connection here.
#[derive(Debug)]
struct Connection {
    news: mpsc::Sender<News>,
    /// Told when there was no room for news.
    behind: Arc<tokio::sync::Notify>,
}

/// How a connection hears.
#[derive(Debug)]
pub(crate) struct Ear {
    pub(crate) id: ConnectionId,
    pub(crate) news: mpsc::Receiver<News>,
    pub(crate) behind: Arc<tokio::sync::Notify>,
    hub: Arc<Hub>,
}

// === impl Hub ===

impl Hub {
    /// A connection that may have so many events waiting.
    pub(crate) fn enter(self: &Arc<Self>, untold: usize) -> Ear {
        let id = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, news) = mpsc::channel(untold);
        let behind = Arc::<tokio::sync::Notify>::default();
        let connection = Connection { news: sender, behind: Arc::clone(&behind) };
        self.change().connections.insert(id, connection);
        Ear { id, news, behind, hub: Arc::clone(self) }
    }

    pub(crate) fn subscribe(&self, key: Key, filters: Arc<[Filter]>) {
        self.change().matcher.insert(key, filters);
    }

    pub(crate) fn unsubscribe(&self, key: Key) {
        self.change().matcher.remove(key);
    }

    /// Tells who waits for it of an event, and how many these are.
    pub(crate) fn tell(&self, event: &Event, seq: Option<Seq>) -> usize {
        let listeners = self.read();
        let keys = listeners.matcher.matches(event);
        if !keys.is_empty() {
            let told = Arc::new(Told::new(event));
            let readers: Option<Arc<[Pubkey]>> = event.readers().map(Into::into);
            for (id, subscription) in &keys {
                let Some(connection) = listeners.connections.get(id) else { continue };
                let news = News { subscription: *subscription, seq, readers: readers.clone(), told: Arc::clone(&told) };
                if let Err(TrySendError::Full(_)) = connection.news.try_send(news) {
                    connection.behind.notify_one();
                }
            }
        }
        keys.len()
    }

    fn read(&self) -> RwLockReadGuard<'_, Listeners> {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Listeners> {
        // What changes it cannot panic halfway.
        self.listeners.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.hub.change().connections.remove(&self.id);
    }
}
