//! Who is connected: for the operator to look at and to end, and for the ledger to charge.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use birdhouse_clients::{ClientKeying, Ledger};

use crate::counters::Counters;
use crate::error::RpcError;
use crate::listener::Listener;
use crate::meter::Meter;

/// All connections.
#[derive(Debug)]
pub(crate) struct Sessions {
    keying: ClientKeying,
    totals: Arc<Counters>,
    ledger: Ledger,
    opened: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Meter>>>,
}

/// One connection while it lasts.
#[derive(Debug)]
pub(crate) struct Visit {
    sessions: Arc<Sessions>,
    pub(crate) meter: Arc<Meter>,
}

/// One connection, as an operator sees it. Nothing in it says what the client asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// Its number, counted from the start of the server.
    pub id: u64,
    /// The listener it came to.
    pub listener: String,
    /// The client: an address, a network, a circuit, or `private`.
    pub client: String,
    /// How long it has lasted.
    pub age: Duration,
    /// Requests so far.
    pub requests: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes that were sent, or wait to be.
    pub bytes_out: u64,
    /// What it follows.
    pub subscriptions: usize,
    /// Time that was spent on it.
    pub work: Duration,
    /// What its client has used and is not forgiven yet, over all of its connections.
    pub client_work: Duration,
}

impl Sessions {
    pub(crate) fn new(keying: ClientKeying, totals: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self { keying, totals, ledger: Ledger::default(), opened: AtomicU64::new(0), open: Mutex::default() })
    }

    /// A number for a connection that was accepted.
    pub(crate) fn next_id(&self) -> u64 {
        self.opened.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Lets a connection in, or says why not.
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: u64,
        listener: &Arc<Listener>,
        address: IpAddr,
        now: Instant,
    ) -> Result<Visit, RpcError> {
        let limits = &listener.limits;
        let key = self.keying.key(address, id);
        let Some(account) = self.ledger.enter(key, limits.client_connections.unwrap_or(usize::MAX), now) else {
            return Err(RpcError::excessive("too many connections from one address"));
        };
        let meter = Arc::new(Meter::new(id, Arc::clone(listener), account, Arc::clone(&self.totals), now));
        self.open().insert(id, Arc::clone(&meter));
        Ok(Visit { sessions: Arc::clone(self), meter })
    }

    /// Every connection, by age.
    pub(crate) fn list(&self, now: Instant) -> Vec<SessionInfo> {
        let open: Vec<Arc<Meter>> = self.open().values().cloned().collect();
        open.iter().map(|meter| meter.info(now)).collect()
    }

    /// How many connections each listener has that has any.
    pub(crate) fn by_listener(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for meter in self.open().values() {
            *counts.entry(meter.listener.name.clone()).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// What all connections follow.
    pub(crate) fn subscriptions(&self) -> usize {
        self.ledger.subscriptions()
    }

    /// Clients that are connected, and those that are remembered for what they owe.
    pub(crate) fn clients(&self) -> usize {
        self.ledger.len()
    }

    /// Ends a connection. False if there is none of that number.
    pub(crate) fn disconnect(&self, id: u64) -> bool {
        let meter = self.open().get(&id).cloned();
        meter.is_some_and(|meter| {
            meter.send_away();
            true
        })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Meter>>> {
        // Every change of the map is one insertion or removal: a panic elsewhere leaves it whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.sessions.open().remove(&self.meter.id);
        self.meter.follows(0);
        self.sessions.ledger.leave(&self.meter.account, self.meter.allowance, Instant::now());
    }
}
