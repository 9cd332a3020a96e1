//! The handle by which the tasks of one connection share its client: state, outbox, meter and bounds.

mod connection_state;
mod followers;
mod owners;
mod prefetches;
mod rare;
mod subscriptions;
mod table;

pub(crate) use self::connection_state::{Admission, ConnectionState, Epoch, Settle};
pub(crate) use self::followers::Followers;
pub(crate) use self::subscriptions::Age;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use birdhouse_net::{Framed, Framing, Meter, Outbox, Pool, Reason, Signals, Unsent};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout_at;

use self::prefetches::Prefetches;
use crate::limits::Limits;
use crate::settings::Listener;
use crate::silentpayments::Access;

/// Reason to wake the notifier: an update concerns a subscription, or a reply was older than one.
pub(crate) const RECHECK: Reason = Reason::number(0);
/// Reason to wake the scans for silent payments: a subscription has begun, or is to be scanned later.
pub(crate) const SILENT_DUE: Reason = Reason::number(1);
/// Reason to wake the streams of tweaks: one waits to be sent.
pub(crate) const TWEAKS_DUE: Reason = Reason::number(2);
/// Reason to give up writing after a while: the client is sent away.
pub(crate) const SENT_AWAY: Reason = Reason::number(3);
/// Reason to end the connection: the server ends.
pub(crate) const SERVER_ENDS: Reason = Reason::number(4);

/// One connected client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Listener that accepted the connection.
    listener: Arc<Listener>,
    pub(crate) meter: Arc<Meter>,
    /// The last reads for this client waited for the disk.
    pub(crate) is_stalled: AtomicBool,
    pub(crate) outbox: Outbox,
    /// Wakes what waits in the connection's task.
    pub(crate) signals: Signals,
    /// One permit for each request that is read and not yet answered.
    pub(crate) in_flight: Semaphore,
    in_flight_max: u32,
    /// Made for the first history whose blocks are fetched.
    prefetches: OnceLock<Prefetches>,
    state: Mutex<ConnectionState>,
}

impl Client {
    /// A client whose messages are framed by `F`; its replies count in `unsent_all` and in its own pool.
    pub(crate) fn new<F: Framing>(listener: Arc<Listener>, meter: Arc<Meter>, unsent_all: &Pool) -> Arc<Self> {
        let in_flight_max = listener.limits.requests_in_flight.max(1);
        let unsent = Unsent { all: unsent_all.clone(), client: meter.unsent() };
        Arc::new(Self {
            outbox: Outbox::new::<F>(listener.limits.outgoing_bytes, unsent),
            listener,
            meter,
            is_stalled: AtomicBool::new(false),
            signals: Signals::default(),
            in_flight: Semaphore::new(in_flight_max as usize),
            in_flight_max,
            prefetches: OnceLock::new(),
            state: Mutex::new(ConnectionState::new()),
        })
    }

    /// Returns the client's access to subscriptions by scan key.
    pub(crate) fn access(&self) -> Access {
        Access::of(self.limits().scan_keys, &self.listener.transport, self.meter.address)
    }

    /// Returns the bounds of the client's listener.
    pub(crate) fn limits(&self) -> &Limits {
        &self.listener.limits
    }

    /// Waits until the client has room for further replies of what began at `began`; false if it will have none. One
    /// that takes too long to read is disconnected: a snapshot is held meanwhile.
    pub(crate) async fn room(&self, began: Instant) -> bool {
        let Some(end) = began.checked_add(self.limits().reply_timeout) else { return self.outbox.room().await };
        timeout_at(end.into(), self.outbox.room()).await.unwrap_or_else(|_| {
            self.meter.disconnect();
            false
        })
    }

    /// Returns the bounds on what is fetched ahead.
    pub(crate) fn prefetches(&self) -> &Prefetches {
        self.prefetches.get_or_init(Prefetches::default)
    }

    /// Locks the connection's state.
    pub(crate) fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }

    /// Sends a reply and settles its subscriptions under one lock, so that no notification comes between.
    pub(crate) fn deliver(&self, reply: Option<Framed>, settles: impl IntoIterator<Item = Settle>, epoch: Epoch) {
        let mut state = self.state();
        if let Some(reply) = reply {
            self.meter.sent(reply.bytes);
            self.outbox.put(reply);
        }
        for settle in settles {
            if state.settle(settle, epoch) {
                self.signals.raise(RECHECK);
            }
        }
        if state.silent.has_settled() {
            self.signals.raise(SILENT_DUE);
        }
        if state.tweaks.has_waiting() {
            self.signals.raise(TWEAKS_DUE);
        }
    }

    /// Sends a notification.
    pub(crate) fn push_notification(&self, message: Vec<u8>) {
        self.meter.notified(message.len());
        self.outbox.push(message);
    }

    // --- requests in flight ---

    /// Returns the permits of [`Self::in_flight`] that `requests` requests take. A batch may be larger than the bound;
    /// it then runs alone.
    pub(crate) fn permits(&self, requests: usize) -> u32 {
        u32::try_from(requests).unwrap_or(u32::MAX).min(self.in_flight_max)
    }

    /// Waits for permits and takes them.
    pub(crate) async fn take_permits(&self, permits: u32) {
        let permits = self.in_flight.acquire_many(permits).await.expect("the semaphore is never closed");
        permits.forget();
    }

    /// Takes permits if they are free; returns false if they are not.
    pub(crate) fn try_take_permits(&self, permits: u32) -> bool {
        self.in_flight.try_acquire_many(permits).map(SemaphorePermit::forget).is_ok()
    }

    /// Waits until every request is answered.
    pub(crate) async fn all_answered(&self) {
        self.take_permits(self.in_flight_max).await;
    }
}
