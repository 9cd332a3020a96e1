//! Bounds on the blocks that are fetched before their client asks for them.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::limits::PREFETCHED_PARTS_MAX;

/// Blocks that are fetched at a time for one connection, fewer than a client has turns.
const AT_ONCE: usize = 6;

/// Bounds on what is fetched ahead for one connection. Dropping it ends what has not begun.
#[derive(Debug)]
pub(crate) struct Prefetches {
    /// One permit for each transaction that is to be fetched.
    pub(crate) room: Arc<Semaphore>,
    /// One permit for each that is fetched now.
    pub(crate) at_once: Arc<Semaphore>,
}

impl Default for Prefetches {
    fn default() -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        Self { room: of(PREFETCHED_PARTS_MAX), at_once: of(AT_ONCE) }
    }
}

impl Drop for Prefetches {
    fn drop(&mut self) {
        self.room.close();
        self.at_once.close();
    }
}
