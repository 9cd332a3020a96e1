//! Progress of a build, readable from other threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The part of a build that must be done before its rest is estimated.
const FRACTION_MIN: f64 = 0.02;
/// Percentage of a build when all blocks are read.
const READING_PERCENT: u8 = 75;

/// Progress of a build. All numbers only grow within a phase.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    blocks: AtomicU64,
    blocks_total: AtomicU64,
    /// Percentages of the whole build at the start and at the end of this phase.
    percent_start: AtomicU8,
    percent_end: AtomicU8,
    cancelled: AtomicBool,
    /// Time and fraction at which this process began to build.
    began: Mutex<Option<(Instant, f64)>>,
}

/// A phase of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Finding blocks and their headers.
    Scanning,
    /// Reading blocks; [`Progress::done`] counts bytes.
    Reading,
    /// Sorting and writing rows; [`Progress::done`] counts partitions.
    Sorting,
}

impl Progress {
    /// The current phase.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Scanning,
            1 => Phase::Reading,
            _ => Phase::Sorting,
        }
    }

    /// Bytes or partitions done in this phase, and their total.
    pub fn done(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Blocks read, and their total.
    pub fn blocks(&self) -> (u64, u64) {
        (self.blocks.load(Ordering::Relaxed), self.blocks_total.load(Ordering::Relaxed))
    }

    /// The progress of the whole build, 0 to 99; it only grows. Writing rows counts as a quarter of it.
    pub fn percent(&self) -> u8 {
        let (done, total) = self.done();
        let (start, end) = (self.percent_start.load(Ordering::Relaxed), self.percent_end.load(Ordering::Relaxed));
        let share = u64::from(end.saturating_sub(start));
        let part = (done * share).checked_div(total).unwrap_or(0).min(share);
        start + u8::try_from(part).expect("at most the share")
    }

    /// The time to the end of the build, if the rest takes as long as what was done; `None` while that says little.
    pub fn left(&self) -> Option<Duration> {
        let fraction = f64::from(self.percent()) / 100.0;
        let (began, at) = (*self.began.lock())?;
        let done = fraction - at;
        (done >= FRACTION_MIN).then(|| began.elapsed().mul_f64((1.0 - fraction) / done))
    }

    /// Ends the build soon, with [`Error::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Fails once the build is cancelled.
    pub(super) fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    pub(super) fn start_blocks(&self, done: u64, total: u64) {
        self.blocks.store(done, Ordering::Relaxed);
        self.blocks_total.store(total, Ordering::Relaxed);
    }

    /// Begins to read the blocks of a generation: `done` of `total` bytes belong to earlier ones.
    pub(super) fn start_reading(&self, done: u64, total: u64) {
        self.start(Phase::Reading, done, total, 0..READING_PERCENT);
    }

    /// Begins to sort the partitions of a generation, which are no progress of the build.
    pub(super) fn start_sorting(&self, partitions: u64) {
        let percent = self.percent();
        self.start(Phase::Sorting, 0, partitions, percent..percent);
    }

    /// Begins to write rows.
    pub(super) fn start_rows(&self, done: u64, total: u64) {
        self.start(Phase::Sorting, done, total, READING_PERCENT..99);
    }

    fn start(&self, phase: Phase, done: u64, total: u64, percent: Range<u8>) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.percent_start.store(percent.start, Ordering::Relaxed);
        self.percent_end.store(percent.end, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.began.lock().get_or_insert_with(|| (Instant::now(), f64::from(self.percent()) / 100.0));
    }

    pub(super) fn add_block(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_partition(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentage_grows_over_all_generations_and_after_a_resume() {
        let progress = Progress::default();
        let mut percents = vec![progress.percent()];
        for read in [0, 400] {
            progress.start_reading(read, 1000);
            progress.add_block(400);
            percents.push(progress.percent());
            progress.start_sorting(10);
            progress.add_partition();
            percents.push(progress.percent());
        }
        progress.start_rows(0, 10);
        progress.add_partition();
        percents.push(progress.percent());
        assert_eq!(percents, [0, 30, 30, 60, 60, 77]);
        let resumed = Progress::default();
        resumed.start_rows(5, 10);
        assert_eq!(resumed.percent(), 87);
    }
}
