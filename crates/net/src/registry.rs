//! The open connections: for the operator to list and to end, and for the ledger to charge.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use birdhouse_clients::{ClientKeying, Ledger, Origin, Overdrawn};
use parking_lot::Mutex;

use crate::meter::{ClientBounds, Meter};

/// Numbers for connections, counted from the start. Clones count together, so that a number names one connection of a
/// process, whatever its protocol.
#[derive(Debug, Clone, Default)]
pub struct ConnectionIds(Arc<AtomicU64>);

/// All connections.
#[derive(Debug)]
pub struct Registry {
    keying: ClientKeying,
    ledger: Ledger,
    ids: ConnectionIds,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    meters: BTreeMap<u64, Arc<Meter>>,
    /// Of connections that have ended.
    ended: Traffic,
}

/// Messages of all connections since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Notifications that were sent.
    pub notifications: u64,
    /// Bytes of messages from clients.
    pub received_bytes: u64,
    /// Bytes of messages to clients.
    pub sent_bytes: u64,
}

/// One connection while it lasts.
#[derive(Debug)]
pub struct ConnectionGuard {
    registry: Arc<Registry>,
    /// Its counts.
    pub meter: Arc<Meter>,
}

/// One connection, as an operator sees it. Nothing in it says what the client asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionInfo {
    /// Its number, from [`ConnectionIds`].
    pub id: u64,
    /// The listener it came to.
    pub listener: String,
    /// The client: an address, a network, a circuit, or `pool` for clients that cannot be told apart.
    pub client: String,
    /// Time since it was opened.
    pub age: Duration,
    /// Requests so far.
    pub requests: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent, or waiting to be sent.
    pub bytes_out: u64,
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Processor time spent on it.
    pub work: Duration,
    /// Processor time spent on its client and not yet credited back, over all of the client's connections.
    pub client_work: Duration,
}

impl ConnectionIds {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Registry {
    /// Creates an empty registry; `keying` maps an origin to its client key.
    pub fn new(keying: ClientKeying, ids: ConnectionIds) -> Arc<Self> {
        Arc::new(Self { keying, ledger: Ledger::default(), ids, open: Mutex::default() })
    }

    /// Returns a number for a connection that was accepted.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.next()
    }

    /// Lets a connection in; `None` if its client has as many as it may have.
    pub fn enter(
        self: &Arc<Self>,
        id: u64,
        listener: &str,
        origin: Origin,
        bounds: &ClientBounds,
        now: Instant,
    ) -> Option<ConnectionGuard> {
        let key = self.keying.key(origin);
        let bounds = bounds.times(key.clients());
        let account = self.ledger.enter(key, bounds.connections.unwrap_or(usize::MAX), now)?;
        let meter = Arc::new(Meter::new(id, origin.address(), listener.into(), account, &bounds, now));
        self.open.lock().meters.insert(id, Arc::clone(&meter));
        Some(ConnectionGuard { registry: Arc::clone(self), meter })
    }

    /// Charges a client for a connection that is not complete.
    ///
    /// # Errors
    /// The client has used more than its share; nothing is charged.
    pub fn charge(&self, origin: Origin, work: Duration, bounds: &ClientBounds, now: Instant) -> Result<(), Overdrawn> {
        let key = self.keying.key(origin);
        self.ledger.charge(key, work, bounds.times(key.clients()).allowance(), now)
    }

    /// Lists the connections, oldest first.
    pub fn list(&self, now: Instant) -> Vec<ConnectionInfo> {
        let open: Vec<Arc<Meter>> = self.open.lock().meters.values().cloned().collect();
        open.iter().map(|meter| ConnectionInfo::of(meter, now)).collect()
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.open.lock().meters.len()
    }

    /// Number of open connections of each listener that has any.
    pub fn by_listener(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for meter in self.open.lock().meters.values() {
            *counts.entry(meter.listener.to_string()).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Messages of all connections.
    pub fn traffic(&self) -> Traffic {
        let open = self.open.lock();
        let mut traffic = open.ended;
        open.meters.values().for_each(|meter| traffic.add(meter));
        traffic
    }

    /// Number of subscriptions of all connections.
    pub fn subscriptions(&self) -> usize {
        self.ledger.subscriptions()
    }

    /// Number of clients that are connected, or kept because they have used up part of their allowance.
    pub fn clients(&self) -> usize {
        self.ledger.len()
    }

    /// Ends the connections of clients at addresses that `is_meant` is true for; returns their number.
    pub fn disconnect_clients(&self, is_meant: impl Fn(IpAddr) -> bool) -> usize {
        let open: Vec<Arc<Meter>> = self.open.lock().meters.values().cloned().collect();
        let meant: Vec<_> = open.iter().filter(|meter| is_meant(meter.address)).collect();
        for meter in &meant {
            meter.disconnect();
        }
        meant.len()
    }

    /// Ends a connection. False if there is none of that number.
    pub fn disconnect(&self, id: u64) -> bool {
        let meter = self.open.lock().meters.get(&id).cloned();
        meter.is_some_and(|meter| {
            meter.disconnect();
            true
        })
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        {
            let mut open = self.registry.open.lock();
            open.meters.remove(&self.meter.id);
            open.ended.add(&self.meter);
        }
        self.meter.follows(0);
        self.registry.ledger.leave(&self.meter.account, self.meter.allowance, Instant::now());
    }
}

impl Traffic {
    /// Adds a connection's. Summed when somebody asks: counters that all threads write to would be contended.
    fn add(&mut self, meter: &Meter) {
        self.notifications += meter.counts.notifications.load(Ordering::Relaxed);
        self.received_bytes += meter.counts.bytes_in.load(Ordering::Relaxed);
        self.sent_bytes += meter.counts.bytes_out.load(Ordering::Relaxed);
    }
}

impl ConnectionInfo {
    fn of(meter: &Meter, now: Instant) -> Self {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            id: meter.id,
            listener: meter.listener.to_string(),
            client: meter.client().to_string(),
            age: now.saturating_duration_since(meter.since),
            requests: count(&meter.counts.requests),
            bytes_in: count(&meter.counts.bytes_in),
            bytes_out: count(&meter.counts.bytes_out),
            subscriptions: AtomicUsize::load(&meter.counts.subscriptions, Ordering::Relaxed),
            work: Duration::from_nanos(count(&meter.counts.work_ns)),
            client_work: meter.account.level(meter.allowance, now),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const BOUNDS: ClientBounds =
        ClientBounds { connections: Some(1), work: None, work_percent: 50, unsent_bytes: None };

    #[test]
    fn a_client_has_as_many_connections_as_it_may_and_what_ended_still_counts() {
        let (registry, now) = (Registry::new(ClientKeying::default(), ConnectionIds::default()), Instant::now());
        let enter = |id| registry.enter(id, "tcp", Origin::of("198.51.100.1".parse().unwrap()), &BOUNDS, now);
        let first = enter(registry.next_id()).unwrap();
        first.meter.received(10, 2);
        first.meter.notified(7);
        first.meter.follows(3);
        assert!(enter(registry.next_id()).is_none(), "one more than it may have");
        assert_eq!((registry.connections(), registry.subscriptions()), (1, 3));
        assert_eq!(registry.by_listener(), [("tcp".to_owned(), 1)]);
        let info = &registry.list(now)[0];
        assert_eq!((info.id, info.requests, info.bytes_out, &*info.client), (1, 2, 7, "198.51.100.1"));
        drop(first);
        assert_eq!((registry.connections(), registry.subscriptions()), (0, 0));
        let traffic = Traffic { notifications: 1, received_bytes: 10, sent_bytes: 7 };
        assert_eq!(registry.traffic(), traffic);
        let second = enter(registry.next_id()).unwrap();
        second.meter.sent(1);
        assert_eq!(registry.traffic(), Traffic { sent_bytes: 8, ..traffic });
        assert!(registry.disconnect(second.meter.id) && !registry.disconnect(1));
    }

    #[test]
    fn the_pool_has_the_bounds_of_many_clients_and_its_connections_are_queued_apart() {
        use birdhouse_clients::{POOL_CLIENTS, Payer as _};

        let (registry, now) = (Registry::new(ClientKeying::default(), ConnectionIds::default()), Instant::now());
        let enter = || registry.enter(registry.next_id(), "tcp", Origin::of([127, 0, 0, 1].into()), &BOUNDS, now);
        let pool: Vec<ConnectionGuard> = (0..POOL_CLIENTS).map(|_| enter().unwrap()).collect();
        assert!(enter().is_none());
        assert_ne!(pool[0].meter.client_id(), pool[1].meter.client_id());
    }
}
