//! Live events that wait for one connection, bounded in number and in bytes.
//!
//! A queue that is full is emptied at once, by whoever brings one event too many: its connection may be in the middle
//! of a write to a client that reads nothing. The connection ends when it can.
//!
//! Connections share the bytes of an event. The queue of each counts them once, for however many subscriptions the
//! event is; the count over all queues has them once, too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use birdhouse_events::{Pubkey, Seq};
use birdhouse_net::SharedPayload;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Events for which an empty queue keeps its memory.
const EVENTS_KEPT: usize = 64;

/// A new event for a subscription.
#[derive(Debug, Clone)]
pub(crate) struct LiveEvent {
    /// The subscription's number.
    pub(crate) subscription: u64,
    /// `None` for an ephemeral event: it is nowhere but here.
    pub(crate) seq: Option<Seq>,
    /// The pubkeys that may read it; `None` if all may.
    pub(crate) readers: Option<Arc<[Pubkey]>>,
    /// Its JSON and the end of the message.
    pub(crate) payload: Arc<LivePayload>,
}

/// A payload that counts in the bytes of all queues until it is dropped.
#[derive(Debug)]
pub(crate) struct LivePayload {
    shared: SharedPayload,
    all_bytes: Arc<AtomicUsize>,
}

/// The queue of a connection.
#[doc(alias = "slow consumer")]
#[derive(Debug)]
pub(crate) struct LiveQueue {
    events_max: usize,
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    arrived: Notify,
    overflowed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<LiveEvent>,
    bytes: usize,
    is_closed: bool,
}

// === impl LiveEvent ===

impl LiveEvent {
    /// Returns true if it is the same event, perhaps for another subscription.
    fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.payload, &other.payload)
    }
}

// === impl LivePayload ===

impl LivePayload {
    /// Counts a message in the bytes of all queues.
    pub(super) fn new(mut message: Vec<u8>, all_bytes: &Arc<AtomicUsize>) -> Self {
        // Room to grow would be memory that is not counted.
        message.shrink_to_fit();
        all_bytes.fetch_add(message.len(), Ordering::Relaxed);
        Self { shared: SharedPayload::new(message), all_bytes: Arc::clone(all_bytes) }
    }

    /// Returns what is sent.
    pub(crate) fn shared(&self) -> &SharedPayload {
        &self.shared
    }

    /// Returns the number of plain bytes.
    pub(crate) fn len(&self) -> usize {
        self.shared.plain().len()
    }
}

impl Drop for LivePayload {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.len(), Ordering::Relaxed);
    }
}

// === impl LiveQueue ===

impl LiveQueue {
    /// Returns an empty queue. An event that waits alone may have more than `bytes_max` bytes.
    pub(crate) fn new(events_max: usize, bytes_max: usize) -> Self {
        let waiting = Mutex::<Waiting>::default();
        Self { events_max, bytes_max, waiting, arrived: Notify::new(), overflowed: Notify::new() }
    }

    /// Adds an event. A queue without room for it overflows.
    pub(super) fn put(&self, event: LiveEvent) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return;
        }
        let has_room = match waiting.events.back() {
            None => true,
            Some(_) if waiting.events.len() >= self.events_max => false,
            Some(last) => last.shares(&event) || waiting.bytes + event.payload.len() <= self.bytes_max,
        };
        if !has_room {
            drop(waiting);
            self.overflow();
            return;
        }
        if !waiting.events.back().is_some_and(|last| last.shares(&event)) {
            waiting.bytes += event.payload.len();
        }
        waiting.events.push_back(event);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Waits for the next event, and takes it.
    pub(crate) async fn next(&self) -> LiveEvent {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            self.arrived.notified().await;
        }
    }

    /// Takes the next event, if one waits.
    pub(crate) fn try_next(&self) -> Option<LiveEvent> {
        let mut waiting = self.waiting.lock();
        let event = waiting.events.pop_front()?;
        if !waiting.events.front().is_some_and(|next| next.shares(&event)) {
            waiting.bytes -= event.payload.len();
        }
        if waiting.events.is_empty() {
            waiting.events.shrink_to(EVENTS_KEPT);
        }
        Some(event)
    }

    /// Returns the bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Drops all events, and tells the connection.
    pub(super) fn overflow(&self) {
        self.close();
        self.overflowed.notify_one();
    }

    /// Waits until the queue has overflowed.
    pub(crate) async fn overflowed(&self) {
        self.overflowed.notified().await;
    }

    /// Drops all events, and takes no more.
    pub(crate) fn close(&self) {
        let closed = Waiting { is_closed: true, ..Waiting::default() };
        // Events are dropped without the lock.
        let _dropped = std::mem::replace(&mut *self.waiting.lock(), closed);
    }
}
