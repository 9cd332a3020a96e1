//! Work that clients leave for one worker thread: taken in fair order, and bounded in bytes.
//!
//! [`FairQueue`] decides whose work is next. Whoever brings work takes room for it first, so that a client which brings
//! more than the worker does waits with its own sockets unread, and no other client waits behind it.
//!
//! Behind 64 deletion requests of 2 000 ids each, the event of another client waited for all of them; it now waits for
//! a few.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::fair::{ClientId, FairQueue};

/// Work of clients that waits for one worker.
#[doc(alias("back-pressure", "backpressure", "bounded queue"))]
#[derive(Debug)]
pub struct WorkQueue<T> {
    bytes_max: usize,
    client_bytes_max: usize,
    state: Mutex<State<T>>,
    arrived: Condvar,
    freed: Notify,
}

#[derive(Debug)]
struct State<T> {
    fair: FairQueue<T>,
    bytes: usize,
    by_client: HashMap<ClientId, usize>,
    /// Number of clients that wait for room.
    crowded: usize,
    is_closed: bool,
    has_ended: bool,
}

/// Room for a piece of work. Dropping it gives the room back.
#[derive(Debug)]
pub struct Reservation<T> {
    queue: Arc<WorkQueue<T>>,
    client: ClientId,
    bytes: usize,
}

/// The worker's end of a queue.
#[derive(Debug)]
pub struct Worker<T>(Arc<WorkQueue<T>>);

// === impl WorkQueue ===

impl<T> WorkQueue<T> {
    /// Returns an empty queue for work of this many bytes, of all clients and of one, and the worker's end of it.
    pub fn new(bytes_max: usize, client_bytes_max: usize) -> (Arc<Self>, Worker<T>) {
        let state = State {
            fair: FairQueue::new(usize::MAX, usize::MAX),
            bytes: 0,
            by_client: HashMap::new(),
            crowded: 0,
            is_closed: false,
            has_ended: false,
        };
        let (arrived, freed) = (Condvar::new(), Notify::new());
        let queue = Arc::new(Self { bytes_max, client_bytes_max, state: Mutex::new(state), arrived, freed });
        (Arc::clone(&queue), Worker(queue))
    }

    /// Waits for room. A single piece of work may be larger than the bounds.
    pub async fn reserve(self: &Arc<Self>, client: ClientId, bytes: usize) -> Reservation<T> {
        if self.try_hold(client, bytes) {
            return self.held(client, bytes);
        }
        self.state.lock().crowded += 1;
        let _leaving = Leaving(self);
        loop {
            let mut freed = pin!(self.freed.notified());
            // From here on no notification is missed.
            freed.as_mut().enable();
            if self.try_hold(client, bytes) {
                return self.held(client, bytes);
            }
            freed.await;
        }
    }

    fn held(self: &Arc<Self>, client: ClientId, bytes: usize) -> Reservation<T> {
        Reservation { queue: Arc::clone(self), client, bytes }
    }

    fn try_hold(&self, client: ClientId, bytes: usize) -> bool {
        let mut state = self.state.lock();
        let fits = |held: usize, max: usize| held == 0 || held.saturating_add(bytes) <= max;
        let of_client = state.by_client.get(&client).copied().unwrap_or(0);
        let is_free = fits(state.bytes, self.bytes_max) && fits(of_client, self.client_bytes_max);
        if is_free {
            state.bytes += bytes;
            *state.by_client.entry(client).or_default() += bytes;
        }
        is_free
    }

    /// Leaves a piece of work for the worker; false if the worker has ended.
    pub fn put(&self, client: ClientId, work: T) -> bool {
        let mut state = self.state.lock();
        if state.has_ended {
            return false;
        }
        state.fair.wait(client, work);
        drop(state);
        self.arrived.notify_one();
        true
    }

    /// Lets the worker end when everything is done that was left for it.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Returns true if the worker has ended.
    pub fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Returns the bytes of all work for which there is room.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }
}

/// Counts a client that waits for room, until it has some or gives up.
struct Leaving<'a, T>(&'a WorkQueue<T>);

impl<T> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().crowded -= 1;
    }
}

// === impl Reservation ===

impl<T> Reservation<T> {
    /// Returns the client that holds it.
    pub fn client(&self) -> ClientId {
        self.client
    }
}

impl<T> Drop for Reservation<T> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.bytes -= self.bytes;
        let left = state.by_client.get_mut(&self.client).map_or(0, |bytes| {
            *bytes -= self.bytes;
            *bytes
        });
        if left == 0 {
            state.by_client.remove(&self.client);
        }
        let is_crowded = state.crowded > 0;
        drop(state);
        if is_crowded {
            self.queue.freed.notify_waiters();
        }
    }
}

// === impl Worker ===

impl<T> Worker<T> {
    /// Waits for work, and takes what is next in fair order: until `is_enough` says so of a piece that was taken.
    /// Returns false when the queue is closed and empty. Each piece must be [`done`](Self::done).
    pub fn take(&self, work: &mut Vec<(ClientId, T)>, mut is_enough: impl FnMut(&T) -> bool) -> bool {
        let mut state = self.0.state.lock();
        while state.fair.waiting() == 0 {
            if state.is_closed {
                return false;
            }
            self.0.arrived.wait(&mut state);
        }
        while let Some((client, piece)) = state.fair.next() {
            let is_last = is_enough(&piece);
            work.push((client, piece));
            if is_last {
                break;
            }
        }
        true
    }

    /// Records the time that pieces took, so that clients whose work takes long are next less often.
    pub fn done(&self, pieces: impl Iterator<Item = (ClientId, Duration)>) {
        let mut state = self.0.state.lock();
        for (client, cost) in pieces {
            state.fair.end(client, cost);
        }
    }

    /// Returns true if nothing waits.
    pub fn is_idle(&self) -> bool {
        self.0.state.lock().fair.waiting() == 0
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
    }
}

#[cfg(test)]
#[path = "work_queue_tests.rs"]
mod tests;
