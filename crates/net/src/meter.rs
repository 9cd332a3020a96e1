//! The use that one connection makes of the server: shown to the operator, and charged to its client's account.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use birdhouse_clients::{Account, Allowance, ClientId, ClientKey, Overdrawn, Payer, Quota};

use crate::signals::{Reason, Signals};
use crate::unsent::Pool;

/// Turns that are charged to connections.
pub type Turns = birdhouse_clients::Turns<Meter>;
/// One of them.
pub type Turn = birdhouse_clients::Turn<Meter>;

/// Processor time that a ping, or a message that is none, is charged for: a write, and a wake-up.
pub const PING_WORK: Duration = Duration::from_micros(10);

/// Bounds of one client, over all of its connections.
#[derive(Debug, Clone, Copy)]
pub struct ClientBounds {
    /// Open connections.
    pub connections: Option<usize>,
    /// Time that may be spent on it at once.
    pub work: Option<Duration>,
    /// The part of that which is forgiven as time passes: percent of one processor.
    pub work_percent: u32,
    /// Bytes that it has not taken.
    pub unsent_bytes: Option<usize>,
}

/// Counts for one connection. Everything is counted by addition, from any thread.
#[derive(Debug)]
pub struct Meter {
    /// The connection's number.
    pub id: u64,
    /// Address of its client: that of its socket, or the one that a trusted proxy names.
    pub address: IpAddr,
    pub(crate) listener: Arc<str>,
    pub(crate) account: Arc<Account>,
    pub(crate) allowance: Allowance,
    unsent_bytes_max: usize,
    pub(crate) since: Instant,
    disconnected: Signals,
    pub(crate) counts: Counts,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) notifications: AtomicU64,
    pub(crate) work_ns: AtomicU64,
    pub(crate) subscriptions: AtomicUsize,
    /// Bytes of both directions that are not charged yet.
    uncharged_bytes: AtomicU64,
}

impl ClientBounds {
    /// Returns the work that the client may cause.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance { work: self.work.unwrap_or(Duration::MAX), percent: self.work_percent }
    }

    /// Returns the bounds of several clients together.
    pub(crate) fn times(self, clients: u32) -> Self {
        let times = |bound: Option<usize>| bound.map(|bound| bound.saturating_mul(clients as usize));
        Self {
            connections: times(self.connections),
            work: self.work.map(|work| work.saturating_mul(clients)),
            work_percent: self.work_percent.saturating_mul(clients),
            unsent_bytes: times(self.unsent_bytes),
        }
    }
}

impl Meter {
    pub(crate) fn new(
        id: u64,
        address: IpAddr,
        listener: Arc<str>,
        account: Arc<Account>,
        bounds: &ClientBounds,
        since: Instant,
    ) -> Self {
        Self {
            id,
            address,
            listener,
            account,
            allowance: bounds.allowance(),
            unsent_bytes_max: bounds.unsent_bytes.unwrap_or(usize::MAX),
            since,
            disconnected: Signals::default(),
            counts: Counts::default(),
        }
    }

    /// Its client.
    pub fn client(&self) -> ClientKey {
        self.account.key()
    }

    /// Counts a message that came, with its requests.
    pub fn received(&self, bytes: usize, requests: usize) {
        self.counts.requests.fetch_add(requests as u64, Ordering::Relaxed);
        self.counts.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        self.counts.uncharged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that came and are part of no message, or that a message had only on its way.
    pub fn read_beside(&self, bytes: usize) {
        self.counts.uncharged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes that are on their way to the client.
    pub fn sent(&self, bytes: usize) {
        self.counts.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
        self.counts.uncharged_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a notification that is on its way.
    pub fn notified(&self, bytes: usize) {
        self.counts.notifications.fetch_add(1, Ordering::Relaxed);
        self.sent(bytes);
    }

    /// Checks that the client may ask for more.
    ///
    /// # Errors
    /// The time until it may, if it may not.
    pub fn check(&self, now: Instant) -> Result<(), Overdrawn> {
        self.account.check(self.allowance, now)
    }

    /// Checks that the client has used less than this part of what it may use, so that the rest is left for others of
    /// its requests.
    ///
    /// # Errors
    /// The time until it has, if it has not.
    pub fn check_percent(&self, percent: u32, now: Instant) -> Result<(), Overdrawn> {
        let Allowance { work, percent: returns } = self.allowance;
        if work == Duration::MAX {
            return Ok(());
        }
        let work = work.saturating_mul(percent) / 100;
        self.account.check(Allowance { work, percent: returns }, now)
    }

    /// Charges the client for work that was done in no turn.
    ///
    /// # Errors
    /// The time until it may ask for more, if it has used more than its share.
    pub fn charge(&self, work: Duration, now: Instant) -> Result<(), Overdrawn> {
        self.worked(work, now);
        self.check(now)
    }

    /// Sets the number of the connection's subscriptions.
    pub fn follows(&self, subscriptions: usize) {
        let before = self.counts.subscriptions.swap(subscriptions, Ordering::Relaxed);
        self.account.replace_subscriptions(before, subscriptions);
    }

    /// Number of subscriptions that the connection may have under the bounds of one connection, of its client, and of
    /// all clients.
    pub fn subscriptions_max(&self, one: usize, client: Option<usize>, all: usize) -> usize {
        let client = client.map_or(usize::MAX, |client| client.saturating_mul(self.client().clients() as usize));
        let left = self.account.subscriptions_left(client, all);
        one.min(self.counts.subscriptions.load(Ordering::Relaxed) + left)
    }

    /// Bytes that its client has not taken yet, over all of its connections.
    pub fn unsent(&self) -> Pool {
        Pool { bytes: Arc::clone(self.account.unsent()), bytes_max: self.unsent_bytes_max }
    }

    /// Returns the quota of what the protocol holds for its client, over all of its connections, under this number (see
    /// [`Account::held`]). `None` is no bound.
    pub fn held(&self, number: usize, client: Option<usize>) -> Quota {
        let most = client.map_or(usize::MAX, |client| client.saturating_mul(self.client().clients() as usize));
        Quota::of(Arc::clone(self.account.held(number)), most)
    }

    /// Asks the connection to end.
    pub fn disconnect(&self) {
        self.disconnected.raise(Reason::ONLY);
    }

    /// Waits for [`Self::disconnect`]. One task at a time may wait.
    pub async fn disconnected(&self) {
        self.disconnected.raised(Reason::ONLY).await;
    }
}

impl Payer for Meter {
    fn client_id(&self) -> ClientId {
        ClientId::of(self.account.key(), self.id)
    }

    fn worked(&self, work: Duration, now: Instant) {
        let work_ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        self.counts.work_ns.fetch_add(work_ns, Ordering::Relaxed);
        let bytes = self.counts.uncharged_bytes.swap(0, Ordering::Relaxed);
        self.account.spend(work, bytes, self.allowance, now);
    }
}
