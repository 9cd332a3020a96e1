//! Bounds on memory for replies that clients have not taken: of all connections together, and of one client's.
//!
//! Beyond the bounds a connection may still hold [`SHARE_BYTES`], so that clients who read lose nothing to those who do
//! not.
//!
//! A batch's reply counts while it grows. A refusal hits the rest of that batch only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one connection may hold however much the others do.
pub const SHARE_BYTES: usize = 64_000;
/// Times its bound that a pool holds at most. A pool is asked for room before a reply is made, so it exceeds its bound
/// by the replies that are made at that time; replies beyond this are for nobody who reads.
const POOL_EXCESS: usize = 2;

/// Bytes that are held, and their bound.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Held now.
    pub bytes: Arc<AtomicUsize>,
    /// The bound beyond which no reply is begun. Those that were begun before may exceed it, up to twice.
    pub bytes_max: usize,
}

/// The pools in which one connection counts its bytes.
#[doc(alias("back-pressure", "backpressure", "slow consumer"))]
#[derive(Debug, Clone)]
pub struct Unsent {
    /// Of all connections.
    pub all: Pool,
    /// Of the connections of its client.
    pub client: Pool,
}

/// Bytes that count in the pools until this is dropped: of a reply that is not whole yet, or of whatever else a client
/// makes the server hold.
#[derive(Debug)]
pub struct Unfinished {
    unsent: Unsent,
    bytes: usize,
    bytes_max: usize,
}

impl Pool {
    /// An empty pool.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Arc::default(), bytes_max }
    }

    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) <= self.bytes_max
    }

    fn takes(&self, bytes: usize) -> bool {
        self.bytes.load(Ordering::Relaxed).saturating_add(bytes) <= self.bytes_max.saturating_mul(POOL_EXCESS)
    }
}

impl Unsent {
    /// Counts bytes that wait to be written.
    pub fn add(&self, bytes: usize) {
        for pool in [&self.all, &self.client] {
            pool.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Takes them back.
    pub fn subtract(&self, bytes: usize) {
        for pool in [&self.all, &self.client] {
            pool.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// True if a connection that holds `held` bytes may hold a reply of this length, which is made.
    pub fn takes(&self, held: usize, bytes: usize) -> bool {
        held.saturating_add(bytes) <= SHARE_BYTES || (self.all.takes(bytes) && self.client.takes(bytes))
    }

    /// True if more than half of both pools is free.
    pub fn is_ample(&self) -> bool {
        [&self.all, &self.client].iter().all(|pool| pool.bytes.load(Ordering::Relaxed) < pool.bytes_max / 2)
    }

    /// True if a connection that holds `held` bytes may hold more.
    pub fn has_room(&self, held: usize) -> bool {
        held <= SHARE_BYTES || (self.all.has_room() && self.client.has_room())
    }
}

impl Unfinished {
    /// Nothing yet, of `bytes_max` at most.
    pub fn new(unsent: Unsent, bytes_max: usize) -> Self {
        Self { unsent, bytes: 0, bytes_max }
    }

    /// True if there is room for a part of this length: beside the parts before it, and in the pools.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes + bytes <= self.bytes_max && self.unsent.has_room(self.bytes + bytes)
    }

    /// Counts a part.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.unsent.add(bytes);
    }

    /// Counts a part of a reply that was begun, if the pools have room for it; false if they have none.
    pub fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.bytes.saturating_add(bytes) <= self.bytes_max && self.unsent.takes(self.bytes, bytes);
        if has_room {
            self.add(bytes);
        }
        has_room
    }

    /// Takes back a part of what was counted.
    pub fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.unsent.subtract(bytes);
    }

    /// Bytes that are counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.unsent.subtract(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of two clients, one pool.
    fn two(all_max: usize, client_max: usize) -> [Unsent; 2] {
        let all = Pool::new(all_max);
        [(); 2].map(|()| Unsent { all: all.clone(), client: Pool::new(client_max) })
    }

    #[test]
    fn a_client_that_holds_too_much_takes_nothing_from_another() {
        let [greedy, modest] = two(1_000_000, 100_000);
        greedy.add(100_001);
        assert!(!greedy.has_room(SHARE_BYTES + 1));
        assert!(greedy.has_room(SHARE_BYTES));
        assert!(modest.has_room(SHARE_BYTES + 1));
        greedy.add(900_000);
        assert!(!modest.has_room(SHARE_BYTES + 1));
    }

    #[test]
    fn replies_that_are_made_fit_in_twice_the_bound_and_small_ones_always() {
        let [one, other] = two(1_000_000, 100_000);
        assert!(one.takes(0, 200_000) && !one.takes(0, 200_001));
        one.add(150_000);
        assert!(one.takes(150_000, 50_000) && !one.takes(150_000, 50_001));
        assert!(other.takes(0, 200_000));
        one.add(1_850_000);
        assert!(!other.takes(0, SHARE_BYTES + 1) && other.takes(1_000, SHARE_BYTES - 1_000));
    }

    #[test]
    fn a_reply_that_was_begun_takes_its_room_before_it_grows_and_gives_back_what_it_did_not_need() {
        let [one, other] = two(1_000_000, 100_000);
        let mut reply = Unfinished::new(one, usize::MAX);
        assert!(reply.take(150_000) && !reply.take(50_001) && reply.take(50_000));
        assert_eq!(reply.bytes(), 200_000);
        reply.give_back(199_000);
        assert_eq!((reply.bytes(), other.all.bytes.load(Ordering::Relaxed)), (1_000, 1_000));
        drop(reply);
        assert_eq!(other.all.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_reply_that_is_not_whole_counts_until_it_is_dropped() {
        let [one, _] = two(100_000, 100_000);
        let mut reply = Unfinished::new(one.clone(), 90_000);
        assert!(reply.has_room(90_000));
        assert!(!reply.has_room(90_001));
        reply.add(SHARE_BYTES);
        assert!(reply.has_room(10_000));
        one.add(50_000);
        assert!(!reply.has_room(10_000));
        drop(reply);
        assert_eq!(one.all.bytes.load(Ordering::Relaxed), 50_000);
        assert_eq!(one.client.bytes.load(Ordering::Relaxed), 50_000);
    }
}
