//! Counts of the relay's work, for its operator. Nothing here says which client asked for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use birdhouse_clients::{SlowKind, Slowest};
use birdhouse_events::{Events, Rejection};
use birdhouse_net::{Registry, SeatCounters, SeatCounts, Seats};
use parking_lot::Mutex;

/// Names of outcomes that are no refusal.
const TAKEN: [&str; 3] = ["accepted", "duplicate", "shadowed"];
/// Reasons to close a socket that [`SeatCounters`] does not count.
const CLOSED_SOCKETS: [&str; 1] = ["overdrawn"];

/// Counts by name. Every name is there from the start, at zero: who watches a rate would miss the first ones otherwise.
#[derive(Debug)]
struct Counts(Mutex<BTreeMap<&'static str, u64>>);

/// Counts of the whole relay, by addition, from any thread.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) reqs: AtomicU64,
    pub(crate) counts: AtomicU64,
    pub(crate) rows: AtomicU64,
    query_us: AtomicU64,
    /// Events by outcome.
    events: Counts,
    /// Sockets that were closed before they were complete, by reason.
    refused_connections: Counts,
    /// Sockets that found no place or had to leave theirs.
    pub(crate) seats: Arc<SeatCounters>,
    /// Pauses in which a client that has used up its share was not read.
    pub(crate) pauses: AtomicU64,
    /// REQs and COUNTs that were closed, by reason.
    closed: Counts,
    pub(crate) slowest: Slowest,
}

/// The relay at one moment.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Open connections.
    pub connections: usize,
    /// Clients that are connected, or whose use is not forgiven yet.
    pub clients: usize,
    /// Open subscriptions.
    pub subscriptions: usize,
    /// Stored events that are not deleted.
    pub live_events: u64,
    /// Deleted, replaced and expired events that still take space.
    pub unreclaimed_events: u64,
    /// Approximate memory of the postings that are in no segment yet.
    pub memtable_bytes: usize,
    /// Received events by outcome: `accepted`, `duplicate`, `shadowed`, or the prefix of the refusal.
    pub events: Vec<(&'static str, u64)>,
    /// REQs.
    pub reqs: u64,
    /// COUNTs.
    pub counts: u64,
    /// REQs and COUNTs that were refused or ended, by the prefix of the reason.
    pub closed: Vec<(&'static str, u64)>,
    /// Sockets on which no WebSocket is open yet.
    pub half_open: usize,
    /// Connections that were closed because of a bound, by its name.
    pub refused_connections: Vec<(&'static str, u64)>,
    /// Pauses in which a client that has used up its share was not read.
    pub pauses: u64,
    /// Stored events that were sent.
    pub rows: u64,
    /// Live events that were sent.
    pub live_sent: u64,
    /// Time spent on finding stored events.
    pub query: Duration,
    /// Bytes of events that wait to be judged and stored.
    pub waiting_event_bytes: usize,
    /// The slowest shapes of REQs and COUNTs, by the time that finding their events took.
    pub slowest: Vec<SlowKind>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            reqs: AtomicU64::default(),
            counts: AtomicU64::default(),
            rows: AtomicU64::default(),
            query_us: AtomicU64::default(),
            events: Counts::of(TAKEN.into_iter().chain(Rejection::PREFIXES)),
            refused_connections: Counts::of(CLOSED_SOCKETS),
            seats: Arc::default(),
            pauses: AtomicU64::default(),
            closed: Counts::of(Rejection::PREFIXES),
            slowest: Slowest::default(),
        }
    }
}

impl Counters {
    pub(crate) fn event(&self, outcome: &'static str) {
        self.events.add(outcome);
    }

    pub(crate) fn refused_connection(&self, reason: &'static str) {
        self.refused_connections.add(reason);
    }

    pub(crate) fn closed(&self, prefix: &'static str) {
        self.closed.add(prefix);
    }

    pub(crate) fn queried(&self, time: Duration) {
        self.query_us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn overview(
        &self,
        registry: &Registry,
        seats: &Seats,
        events: &Events,
        waiting_event_bytes: usize,
    ) -> Overview {
        let SeatCounts { half_open, network, displaced } = self.seats.counts();
        let mut refused_connections = self.refused_connections.list();
        refused_connections.extend([("displaced", displaced), ("half-open", half_open), ("network", network)]);
        Overview {
            connections: registry.connections(),
            clients: registry.clients(),
            subscriptions: registry.subscriptions(),
            live_events: events.live_events(),
            unreclaimed_events: events.unreclaimed_events(),
            memtable_bytes: events.memtable_bytes(),
            events: self.events.list(),
            reqs: self.reqs.load(Ordering::Relaxed),
            counts: self.counts.load(Ordering::Relaxed),
            half_open: seats.half_open(),
            refused_connections,
            pauses: self.pauses.load(Ordering::Relaxed),
            closed: self.closed.list(),
            rows: self.rows.load(Ordering::Relaxed),
            live_sent: registry.traffic().notifications,
            query: Duration::from_micros(self.query_us.load(Ordering::Relaxed)),
            waiting_event_bytes,
            slowest: self.slowest.list(Instant::now()),
        }
    }
}

// === impl Counts ===

impl Counts {
    fn of(names: impl IntoIterator<Item = &'static str>) -> Self {
        Self(Mutex::new(names.into_iter().map(|name| (name, 0)).collect()))
    }

    fn add(&self, name: &'static str) {
        *self.0.lock().entry(name).or_default() += 1;
    }

    fn list(&self) -> Vec<(&'static str, u64)> {
        self.0.lock().iter().map(|(name, count)| (*name, *count)).collect()
    }
}
