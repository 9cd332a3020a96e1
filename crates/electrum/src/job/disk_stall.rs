//! Detection of reads that waited for the disk.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// A read that takes longer may have waited for the disk; a warm one takes a few microseconds.
pub(super) const SLOW_READ: Duration = Duration::from_micros(150);

/// Returns the number of times that this thread has given up its processor by itself: to wait for a disk, a lock, or
/// the node. A slow read during which it stays the same lost its processor to others, and waited for no disk.
pub(super) fn times_waited() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches())
}
