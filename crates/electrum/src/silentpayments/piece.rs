//! The rows of some blocks, scanned slice by slice.
//!
//! A slice takes about a millisecond, whatever path the engine has: between slices a scan ends if its client has gone,
//! and gives its turn to others who wait for it. Hits are proved by their transactions afterwards.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::{
    Found, Height, Hit, MempoolTransaction, Result, Snapshot, TweakRow, TweakRows, Tweaks, giving_way,
};
use birdhouse_silentpayments::Scanner;

/// Blocks of one piece: its rows take up to some megabytes, and its result is one notification.
pub(super) const PIECE_BLOCKS: u32 = 16;
/// Time that a slice should take.
const SLICE: Duration = Duration::from_millis(1);
/// Rows of a slice. Fewer waste the batches of the engine; more take long if another thread has the processor.
const SLICE_ROWS: std::ops::RangeInclusive<usize> = 32..=1024;
/// Transactions of the mempool that are scanned at once.
const UNCONFIRMED: usize = 32;

/// Rows that take the time of a slice on this machine.
#[derive(Debug)]
pub(crate) struct SlicePace(AtomicUsize);

impl Default for SlicePace {
    fn default() -> Self {
        Self(AtomicUsize::new(*SLICE_ROWS.start()))
    }
}

impl SlicePace {
    fn rows(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that a slice of this many rows took `time`.
    fn note(&self, rows: usize, time: Duration) {
        // Half or double: a thread that was interrupted says little.
        let next = if time > SLICE { rows / 2 } else { rows.saturating_mul(2) };
        let is_full = rows >= self.rows();
        if time > SLICE || (is_full && time < SLICE / 2) {
            self.0.store(next.clamp(*SLICE_ROWS.start(), *SLICE_ROWS.end()), Ordering::Relaxed);
        }
    }
}

/// The rows of some blocks, of which the first are scanned.
pub(crate) struct Piece {
    rows: TweakRows,
    /// Rows that are scanned.
    scanned: usize,
    /// Hits that are not proved, in the order of the chain.
    hits: VecDeque<Hit>,
    /// Transactions of the hits before that pay the key.
    found: Vec<Found>,
}

impl Piece {
    /// Reads the rows of some blocks; `None` if the index does not cover them.
    ///
    /// # Errors
    /// Failures of the store.
    pub(crate) fn read(tweaks: &Tweaks, at: &Snapshot, heights: Range<u32>) -> Result<Option<Self>> {
        let rows = giving_way(|| tweaks.read_prefixes(at, Height(heights.start)..Height(heights.end)))?;
        Ok(rows.map(|rows| Self { rows, scanned: 0, hits: VecDeque::new(), found: Vec::new() }))
    }

    /// Scans slices until all rows are scanned, or `is_over` after one, of which it gets the number of rows. Returns
    /// true if all are.
    ///
    /// # Errors
    /// Damage of the rows.
    pub(crate) fn advance(
        &mut self,
        scanner: &Scanner,
        pace: &SlicePace,
        is_over: impl Fn(usize) -> bool,
    ) -> Result<bool> {
        let mut rows = self.rows.iter().skip(self.scanned);
        loop {
            let slice: Vec<TweakRow<'_>> = rows.by_ref().take(pace.rows()).collect();
            if slice.is_empty() {
                return Ok(true);
            }
            let began = Instant::now();
            self.hits.extend(Hit::among(&slice, scanner)?);
            self.scanned += slice.len();
            pace.note(slice.len(), began.elapsed());
            if is_over(slice.len()) {
                return Ok(self.scanned == self.rows.len());
            }
            // A thread that listens to clients and has just woken up goes first.
            thread::yield_now();
        }
    }

    /// Proves the hits, once all rows are scanned. Returns the transactions that pay the key, in the order of the
    /// chain; `None` if `is_over` before all are proved.
    ///
    /// # Errors
    /// Failures of store and node.
    pub(crate) fn prove(
        &mut self,
        at: &Snapshot,
        scanner: &Scanner,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Vec<Found>>> {
        while let Some(hit) = self.hits.pop_front() {
            self.found.extend(giving_way(|| hit.proved(at, scanner))?);
            if is_over() && !self.hits.is_empty() {
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(&mut self.found)))
    }
}

/// Finds the transactions that pay a key, and takes them out of those that wait; stops early if `is_over`.
///
/// # Errors
/// A transaction cannot be parsed.
pub(crate) fn find_unconfirmed(
    tweaks: &Tweaks,
    scanner: &Scanner,
    waiting: &mut Vec<Arc<MempoolTransaction>>,
    is_over: impl Fn() -> bool,
) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    while !waiting.is_empty() {
        let some = waiting.split_off(waiting.len().saturating_sub(UNCONFIRMED));
        found.extend(tweaks.find_unconfirmed(scanner, some.iter())?);
        if is_over() {
            break;
        }
        thread::yield_now();
    }
    Ok(found)
}
