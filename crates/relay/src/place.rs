//! Where work is done that keeps a processor busy: on the thread at hand, or apart from its other tasks.
//!
//! To give a thread's other tasks to another one takes two wake-ups, longer than most work takes here. Work that is likely to be
//! long, or to wait for the disk, is done apart.

use std::time::{Duration, Instant};

use birdhouse_clients::DiskStall;
use tokio::task::block_in_place;

/// A message with more bytes is read apart; so many take some hundred microseconds.
const LONG_MESSAGE_BYTES: usize = 64 * 1024;
/// A page that took longer has waited for the disk, or looked at much: pages of the next second are made apart.
const LONG_PAGE: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    Apart,
}

impl Place {
    /// For reading a message, and for what it costs to look at it.
    pub(crate) fn of_message(bytes: usize) -> Self {
        if bytes > LONG_MESSAGE_BYTES { Self::Apart } else { Self::Here }
    }

    /// For a page of stored events, after others took as long as they did.
    pub(crate) fn of_page(disk_stall: &DiskStall, now: Instant) -> Self {
        if disk_stall.is_recent(now) { Self::Apart } else { Self::Here }
    }

    /// Remembers how long a page took.
    pub(crate) fn took(disk_stall: &DiskStall, took: Duration) {
        if took > LONG_PAGE {
            disk_stall.record(Instant::now());
        }
    }

    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Here => work(),
            Self::Apart => block_in_place(work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_long_page_others_are_made_apart_for_a_while() {
        let now = Instant::now();
        let disk_stall = DiskStall::new(now);
        assert_eq!(Place::of_page(&disk_stall, now), Place::Here);
        Place::took(&disk_stall, LONG_PAGE);
        assert_eq!(Place::of_page(&disk_stall, Instant::now()), Place::Here);
        Place::took(&disk_stall, LONG_PAGE * 2);
        assert_eq!(Place::of_page(&disk_stall, Instant::now()), Place::Apart);
    }
}
