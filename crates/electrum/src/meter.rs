//! What one connection has asked for and cost: shown to the operator, and charged to its client's account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use birdhouse_clients::{Account, Allowance, ClientId, Overdrawn, Payer};
use tokio::sync::Notify;

use crate::counters::Counters;
use crate::limits::{Limits, ServerLimits};
use crate::listener::Listener;
use crate::sessions::SessionInfo;
use crate::unsent::Pool;

/// Turns that are charged to connections.
pub(crate) type Turns = birdhouse_clients::Turns<Meter>;
/// One of them.
pub(crate) type Turn = birdhouse_clients::Turn<Meter>;

/// Counts for one connection. Everything is counted by addition, from any thread.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) id: u64,
    pub(crate) account: Arc<Account>,
    pub(crate) allowance: Allowance,
    pub(crate) listener: Arc<Listener>,
    since: Instant,
    sent_away: Notify,
    /// Those of the whole server.
    totals: Arc<Counters>,
    requests: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    work_ns: AtomicU64,
    subscriptions: AtomicUsize,
    /// Bytes of both directions that are not charged yet.
    uncharged_bytes: AtomicU64,
}

impl Meter {
    pub(crate) fn new(
        id: u64,
        listener: Arc<Listener>,
        account: Arc<Account>,
        totals: Arc<Counters>,
        since: Instant,
    ) -> Self {
        let Limits { client_work: work, client_work_percent: percent, .. } = listener.limits;
        Self {
            id,
            account,
            allowance: Allowance { work: work.unwrap_or(Duration::MAX), percent },
            listener,
            since,
            sent_away: Notify::new(),
            totals,
            requests: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            work_ns: AtomicU64::new(0),
            subscriptions: AtomicUsize::new(0),
            uncharged_bytes: AtomicU64::new(0),
        }
    }

    /// A message came, with so many requests.
    pub(crate) fn received(&self, bytes: usize, requests: usize) {
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        self.totals.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.uncharged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A message is on its way.
    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
        self.totals.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.uncharged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A notification is on its way.
    pub(crate) fn notified(&self, bytes: usize) {
        self.totals.notifications.fetch_add(1, Ordering::Relaxed);
        self.sent(bytes);
    }

    /// Whether the client may ask for more.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Overdrawn> {
        self.account.check(self.allowance, now)
    }

    /// The connection follows so many scripts and outpoints now.
    pub(crate) fn follows(&self, subscriptions: usize) {
        let before = self.subscriptions.swap(subscriptions, Ordering::Relaxed);
        self.account.replace_subscriptions(before, subscriptions);
    }

    /// How many scripts and outpoints the connection may follow.
    pub(crate) fn subscriptions_max(&self, server: &ServerLimits) -> usize {
        let limits = &self.listener.limits;
        let client_max = limits.client_subscriptions.unwrap_or(usize::MAX);
        let left = self.account.subscriptions_left(client_max, server.subscriptions);
        limits.subscriptions.min(self.subscriptions.load(Ordering::Relaxed) + left)
    }

    /// What its client has not taken yet, over all of its connections.
    pub(crate) fn unsent(&self) -> Pool {
        let bytes_max = self.listener.limits.client_unsent_bytes.unwrap_or(usize::MAX);
        Pool { bytes: Arc::clone(self.account.unsent()), bytes_max }
    }

    /// Ends the connection.
    pub(crate) fn send_away(&self) {
        self.sent_away.notify_one();
    }

    /// Waits for [`Self::send_away`].
    pub(crate) async fn sent_away(&self) {
        self.sent_away.notified().await;
    }

    pub(crate) fn info(&self, now: Instant) -> SessionInfo {
        SessionInfo {
            id: self.id,
            listener: self.listener.name.clone(),
            client: self.account.key().to_string(),
            age: now.saturating_duration_since(self.since),
            requests: self.requests.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            subscriptions: self.subscriptions.load(Ordering::Relaxed),
            work: Duration::from_nanos(self.work_ns.load(Ordering::Relaxed)),
            client_work: self.account.level(self.allowance, now),
        }
    }
}

impl Payer for Meter {
    fn client_id(&self) -> ClientId {
        self.account.id()
    }

    fn worked(&self, work: Duration, now: Instant) {
        let work_ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        self.work_ns.fetch_add(work_ns, Ordering::Relaxed);
        let bytes = self.uncharged_bytes.swap(0, Ordering::Relaxed);
        self.account.spend(work, bytes, self.allowance, now);
    }
}
