//! Who is connected: what is done for it is charged to its client, over all of the client's connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use birdhouse_clients::{Account, Allowance, ClientId, ClientKey, ClientKeying, Ledger, Overdrawn, Payer, Waiting};

use crate::counters::{Counters, Overview};
use crate::limits::Limits;

/// Everybody who is connected.
#[derive(Debug, Default)]
pub(crate) struct Visitors {
    keying: ClientKeying,
    ledger: Arc<Ledger>,
    opened: AtomicU64,
    pub(crate) counters: Arc<Counters>,
}

/// One connection, for as long as it lasts.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) address: IpAddr,
    account: Arc<Account>,
    allowance: Allowance,
    ledger: Arc<Ledger>,
    pub(crate) counters: Arc<Counters>,
    /// Bytes of both directions that are not charged yet.
    uncharged_bytes: AtomicU64,
    subscriptions: AtomicUsize,
}

impl Visitors {
    /// Lets a client in, unless it has as many connections as it may have.
    pub(crate) fn enter(&self, address: IpAddr, limits: &Limits, now: Instant) -> Option<Visitor> {
        let key = self.keying.key(address, self.opened.fetch_add(1, Ordering::Relaxed));
        let account = self.ledger.enter(key, limits.client_connections.unwrap_or(usize::MAX), now)?;
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let (work, percent) = (limits.client_work.unwrap_or(Duration::MAX), limits.client_work_percent);
        Some(Visitor {
            address,
            account,
            allowance: Allowance { work, percent },
            ledger: Arc::clone(&self.ledger),
            counters: Arc::clone(&self.counters),
            uncharged_bytes: AtomicU64::new(0),
            subscriptions: AtomicUsize::new(0),
        })
    }

    pub(crate) fn overview(&self, live_events: u64, turns: Waiting) -> Overview {
        self.counters.overview(&self.ledger, live_events, turns)
    }
}

impl Visitor {
    pub(crate) fn client(&self) -> ClientKey {
        self.account.key()
    }

    /// So many bytes came, or are on their way.
    pub(crate) fn moved(&self, bytes: usize) {
        self.uncharged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether the client may ask for more.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Overdrawn> {
        self.account.check(self.allowance, now)
    }

    /// The connection has so many subscriptions now.
    pub(crate) fn follows(&self, subscriptions: usize) {
        self.account.replace_subscriptions(self.subscriptions.swap(subscriptions, Ordering::Relaxed), subscriptions);
    }
}

impl Payer for Visitor {
    fn client_id(&self) -> ClientId {
        self.account.id()
    }

    fn worked(&self, work: Duration, now: Instant) {
        let bytes = self.uncharged_bytes.swap(0, Ordering::Relaxed);
        self.account.spend(work, bytes, self.allowance, now);
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.follows(0);
        self.counters.connections.fetch_sub(1, Ordering::Relaxed);
        self.ledger.leave(&self.account, self.allowance, Instant::now());
    }
}
