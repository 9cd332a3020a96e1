//! The open connections: for the operator to list and to end, and for the ledger to charge. Those of all protocols
//! of a process share numbers and bans.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use birdhouse_clients::{ClientKeying, Ledger, Origin, Overdrawn};
use parking_lot::{Mutex, RwLock};

use crate::meter::{ClientBounds, Meter};

/// Decision on the addresses that no listener serves.
pub trait Bans: std::fmt::Debug + Send + Sync {
    /// Returns true for an address whose client is banned.
    fn is_banned(&self, address: IpAddr) -> bool;
}

/// The connections of a process, whatever their protocol: their numbers, counted from the start, and the bans of
/// clients. Clones are handles on the same connections.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    last_id: AtomicU64,
    bans: RwLock<Option<Arc<dyn Bans>>>,
    registries: Mutex<Vec<Weak<Registry>>>,
}

/// All connections.
#[derive(Debug)]
pub struct Registry {
    keying: ClientKeying,
    ledger: Ledger,
    connections: Connections,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    meters: BTreeMap<u64, Arc<Meter>>,
    /// Of connections that have ended.
    ended: Traffic,
    /// Names of listeners that connections came to lately, which these share.
    names: VecDeque<Arc<str>>,
}

/// Names of listeners that are kept for further connections.
const NAMES_MAX: usize = 8;

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

/// Refusal of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unwelcome {
    /// Its client has as many as it may have.
    #[error("too many connections from one address")]
    TooMany,
    /// The operator has banned its client.
    #[error("your address is not wanted here")]
    Banned,
}

/// One connection, as an operator sees it. Nothing in it says what the client asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionInfo {
    /// Its number, from [`Connections`].
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

impl Connections {
    /// Replaces the bans, and ends the connections of clients that are banned now; returns their number.
    pub fn ban(&self, bans: Arc<dyn Bans>) -> usize {
        *self.0.bans.write() = Some(bans);
        let registries: Vec<Arc<Registry>> = self.0.registries.lock().iter().filter_map(Weak::upgrade).collect();
        registries.iter().map(|registry| registry.disconnect_banned()).sum()
    }

    fn is_banned(&self, address: IpAddr) -> bool {
        self.0.bans.read().as_ref().is_some_and(|bans| bans.is_banned(address))
    }

    fn next_id(&self) -> u64 {
        self.0.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn add(&self, registry: &Arc<Registry>) {
        let mut registries = self.0.registries.lock();
        registries.retain(|one| one.strong_count() > 0);
        registries.push(Arc::downgrade(registry));
    }
}

impl Registry {
    /// Creates an empty registry; `keying` maps an origin to its client key.
    pub fn new(keying: ClientKeying, connections: Connections) -> Arc<Self> {
        let registry = Arc::new(Self { keying, ledger: Ledger::default(), connections, open: Mutex::default() });
        registry.connections.add(&registry);
        registry
    }

    /// Returns a number for a connection that was accepted.
    pub fn next_id(&self) -> u64 {
        self.connections.next_id()
    }

    /// Lets a connection in.
    ///
    /// # Errors
    /// Its client is banned, or has as many as it may have.
    pub fn enter(
        self: &Arc<Self>,
        id: u64,
        listener: &str,
        origin: Origin,
        bounds: &ClientBounds,
        now: Instant,
    ) -> Result<ConnectionGuard, Unwelcome> {
        let key = self.keying.key(origin);
        let bounds = bounds.times(key.clients());
        let account = self.ledger.enter(key, bounds.connections.unwrap_or(usize::MAX), now);
        let account = account.ok_or(Unwelcome::TooMany)?;
        let meter = {
            let mut open = self.open.lock();
            let meter = Arc::new(Meter::new(id, origin.address(), open.name(listener), account, &bounds, now));
            open.meters.insert(id, Arc::clone(&meter));
            meter
        };
        let guard = ConnectionGuard { registry: Arc::clone(self), meter };
        // Only now: a client that is banned meanwhile is among the connections that the ban ends.
        if self.connections.is_banned(origin.address()) { Err(Unwelcome::Banned) } else { Ok(guard) }
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

    /// Ends the connections of banned clients; returns their number.
    fn disconnect_banned(&self) -> usize {
        let open: Vec<Arc<Meter>> = self.open.lock().meters.values().cloned().collect();
        let banned: Vec<_> = open.iter().filter(|meter| self.connections.is_banned(meter.address)).collect();
        for meter in &banned {
            meter.disconnect();
        }
        banned.len()
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

impl Open {
    /// Returns the name of a listener, in memory that its connections share.
    fn name(&mut self, listener: &str) -> Arc<str> {
        if let Some(name) = self.names.iter().find(|name| ***name == *listener) {
            return Arc::clone(name);
        }
        self.names.truncate(NAMES_MAX - 1);
        self.names.push_front(listener.into());
        Arc::clone(&self.names[0])
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
        let (registry, now) = (Registry::new(ClientKeying::default(), Connections::default()), Instant::now());
        let enter = |id| registry.enter(id, "tcp", Origin::of("198.51.100.1".parse().unwrap()), &BOUNDS, now);
        let first = enter(registry.next_id()).unwrap();
        first.meter.received(10, 2);
        first.meter.notified(7);
        first.meter.follows(3);
        assert_eq!(enter(registry.next_id()).unwrap_err(), Unwelcome::TooMany);
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
    fn a_ban_ends_connections_of_every_registry_and_lets_none_of_its_clients_in() {
        #[derive(Debug)]
        struct All;

        impl Bans for All {
            fn is_banned(&self, address: IpAddr) -> bool {
                address == IpAddr::from([198, 51, 100, 1])
            }
        }

        let (connections, now) = (Connections::default(), Instant::now());
        let both = [(); 2].map(|()| Registry::new(ClientKeying::default(), connections.clone()));
        let enter = |registry: &Arc<Registry>, last| {
            let origin = Origin::of([198, 51, 100, last].into());
            registry.enter(registry.next_id(), "tcp", origin, &BOUNDS, now)
        };
        let kept: Vec<_> = both.iter().flat_map(|one| [enter(one, 1).unwrap(), enter(one, 2).unwrap()]).collect();
        assert_eq!(connections.ban(Arc::new(All)), 2);
        drop(kept);
        for registry in &both {
            assert_eq!(enter(registry, 1).unwrap_err(), Unwelcome::Banned);
            assert!(enter(registry, 2).is_ok());
            assert_eq!(registry.connections(), 0, "what was refused is gone");
        }
    }

    #[test]
    fn the_pool_has_the_bounds_of_many_clients_and_its_connections_are_queued_apart() {
        use birdhouse_clients::{POOL_CLIENTS, Payer as _};

        let (registry, now) = (Registry::new(ClientKeying::default(), Connections::default()), Instant::now());
        let enter = || registry.enter(registry.next_id(), "tcp", Origin::of([127, 0, 0, 1].into()), &BOUNDS, now);
        let pool: Vec<ConnectionGuard> = (0..POOL_CLIENTS).map(|_| enter().unwrap()).collect();
        assert!(enter().is_err());
        assert_ne!(pool[0].meter.client_id(), pool[1].meter.client_id());
    }

    #[test]
    fn a_part_of_the_work_of_a_client_can_be_left_for_others_of_its_requests() {
        let (registry, now) = (Registry::new(ClientKeying::default(), Connections::default()), Instant::now());
        let bounds = ClientBounds { work: Some(Duration::from_secs(100)), ..BOUNDS };
        let enter = |bounds, last| registry.enter(1, "tcp", Origin::of([192, 0, 2, last].into()), bounds, now).unwrap();
        let client = enter(&bounds, 1);
        client.meter.charge(Duration::from_secs(50), now).unwrap();
        client.meter.check_percent(50, now).unwrap();
        client.meter.charge(Duration::from_secs(5), now).unwrap();
        // Half of the time comes back.
        assert_eq!(client.meter.check_percent(50, now).unwrap_err().wait, Duration::from_secs(10));
        client.meter.check(now).unwrap();
        let unbounded = enter(&BOUNDS, 2);
        unbounded.meter.charge(Duration::from_hours(1), now).unwrap();
        unbounded.meter.check_percent(50, now).unwrap();
    }
}
