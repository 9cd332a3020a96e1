//! Places of a listener whose connections make room for newcomers.
//!
//! [`Places`] decides who leaves; this module lets it know. A connection has a [`Seat`] from the moment it is accepted,
//! so sockets that never ask for anything are counted too.
//!
//! Without seats, ten half-open sockets on ten places kept everyone out; now a newcomer gets in at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use birdhouse_clients::{Origin, PlaceBounds, Places, is_proxy};
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::proxy::Proxy;
use crate::signals::{Reason, Signals};

/// All connections that share places.
#[derive(Debug)]
pub struct Seats {
    places: Mutex<State>,
    /// Reverse proxies, whose address says nothing of the client.
    proxies: Vec<IpNet>,
    started: Instant,
    counters: Arc<SeatCounters>,
}

/// Counters of connections that were closed for want of places. Seats of several listeners may share them.
#[derive(Debug, Default)]
pub struct SeatCounters {
    half_open: AtomicU64,
    network: AtomicU64,
    displaced: AtomicU64,
}

#[derive(Debug)]
struct State {
    places: Places,
    seats: HashMap<u64, Weak<Seat>>,
}

/// The place of one connection. Dropping it gives it back.
#[derive(Debug)]
pub struct Seat {
    all: Arc<Seats>,
    id: u64,
    active: Arc<AtomicU64>,
    leave: Signals,
}

/// Connections that were closed for want of places so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeatCounts {
    /// New ones of addresses with too many that were not complete.
    pub half_open: u64,
    /// Connections that left for newcomers of their network, which had as many as it may have.
    pub network: u64,
    /// Connections that left for newcomers when all places were taken.
    pub displaced: u64,
}

// === impl Seats ===

impl Seats {
    /// Returns seats with these bounds. The address of a socket from one of `proxies` says nothing of its client.
    pub fn new(bounds: PlaceBounds, proxies: Vec<IpNet>, counters: Arc<SeatCounters>, now: Instant) -> Arc<Self> {
        let state = State { places: Places::new(bounds), seats: HashMap::new() };
        Arc::new(Self { places: Mutex::new(state), proxies, started: now, counters })
    }

    /// Gives a seat to a socket that was accepted; `None` if its address has too many that are not complete.
    pub(crate) fn enter(self: &Arc<Self>, id: u64, from: IpAddr, proxy: &Proxy, now: Instant) -> Option<Arc<Seat>> {
        let active = Arc::new(AtomicU64::new(self.since_start_us(now)));
        let mut state = self.places.lock();
        let Ok(leaving) = state.places.enter(id, self.origin(from, proxy), Arc::clone(&active)) else {
            self.counters.half_open.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let leaving = leaving.and_then(|id| state.leave(id));
        let seat = Arc::new(Seat { all: Arc::clone(self), id, active, leave: Signals::default() });
        state.seats.insert(id, Arc::downgrade(&seat));
        drop(state);
        send_away(leaving, &self.counters.network);
        Some(seat)
    }

    /// Sends the idlest connection of the largest group away.
    pub(crate) fn displace(&self) {
        let leaving = {
            let mut state = self.places.lock();
            state.places.idlest().and_then(|id| state.leave(id))
        };
        send_away(leaving, &self.counters.displaced);
    }

    /// Returns the number of connections that are not complete.
    pub fn half_open(&self) -> usize {
        self.places.lock().places.half_open()
    }

    fn origin(&self, from: IpAddr, proxy: &Proxy) -> Origin {
        let from = from.to_canonical();
        let is_unnamed = !matches!(proxy, Proxy::Off) || is_proxy(&from, &self.proxies);
        if is_unnamed { Origin::Unnamed(from) } else { Origin::of(from) }
    }

    fn since_start_us(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_micros()).unwrap_or(u64::MAX)
    }
}

/// Asks a connection to leave. Without the lock, which its seat takes when it is dropped.
fn send_away(leaving: Option<Arc<Seat>>, counter: &AtomicU64) {
    if let Some(seat) = leaving {
        counter.fetch_add(1, Ordering::Relaxed);
        seat.leave.raise(Reason::ONLY);
    }
}

// === impl State ===

impl State {
    /// Takes the place of a connection, which it has to leave.
    fn leave(&mut self, id: u64) -> Option<Arc<Seat>> {
        self.places.leave(id);
        self.seats.remove(&id).and_then(|seat| seat.upgrade())
    }
}

// === impl SeatCounters ===

impl SeatCounters {
    /// Returns the numbers so far.
    pub fn counts(&self) -> SeatCounts {
        let [half_open, network, displaced] =
            [&self.half_open, &self.network, &self.displaced].map(|count| count.load(Ordering::Relaxed));
        SeatCounts { half_open, network, displaced }
    }
}

// === impl Seat ===

impl Seat {
    /// Notes that the connection is complete, and who its client is.
    pub fn complete(&self, origin: Origin) {
        let leaving = {
            let mut state = self.all.places.lock();
            state.places.complete(self.id, origin).and_then(|id| state.leave(id))
        };
        send_away(leaving, &self.all.counters.network);
    }

    /// Notes that the client has sent something, or that the system has taken something for it.
    pub(crate) fn touch(&self, now: Instant) {
        self.active.store(self.all.since_start_us(now), Ordering::Relaxed);
    }

    /// Serves a connection to its end, or until it must leave for a newcomer: from then on nothing is answered.
    pub async fn hold(&self, serving: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.displaced() => {}
            () = serving => {}
        }
    }

    /// Waits until the connection must leave for a newcomer.
    pub async fn displaced(&self) {
        self.leave.raised(Reason::ONLY).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.all.places.lock();
        state.places.leave(self.id);
        state.seats.remove(&self.id);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_must_leave_answers_nothing_more() {
        let seats = Seats::new(PlaceBounds::of_networks(None), Vec::new(), Arc::default(), Instant::now());
        for id in 0..64 {
            let seat = seats.enter(id, Ipv4Addr::new(192, 0, 2, 1).into(), &Proxy::Off, Instant::now()).unwrap();
            seats.displace();
            let mut has_answered = false;
            seat.hold(async { has_answered = true }).await;
            assert!(!has_answered);
        }
    }
}
