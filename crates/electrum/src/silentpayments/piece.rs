//! The rows of some blocks, scanned slice by slice.
//!
//! A slice takes about a millisecond, whatever path the engine has: between slices a scan ends if its client has gone,
//! and gives its turn to others who wait for it. Blocks with a hit are scanned once more as a whole, with the proof by
//! the transaction.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_chain::{Found, Height, MempoolTransaction, Result, Snapshot, TweakRow, TweakRows, Tweaks, giving_way};
use birdhouse_silentpayments::{Row, Scanner};

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
    /// Heights of blocks with a hit that is not proved, ascending.
    hits: VecDeque<Height>,
    /// Transactions of the blocks before that pay the key.
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

    /// Returns the number of rows that are scanned.
    pub(crate) fn scanned(&self) -> usize {
        self.scanned
    }

    /// Scans slices until all rows are scanned, or `is_over` after one. Returns true if all are.
    pub(crate) fn advance(&mut self, scanner: &Scanner, pace: &SlicePace, is_over: impl Fn() -> bool) -> bool {
        let mut rows = self.rows.iter().skip(self.scanned);
        loop {
            let slice: Vec<TweakRow<'_>> = rows.by_ref().take(pace.rows()).collect();
            if slice.is_empty() {
                return true;
            }
            let began = Instant::now();
            for height in hits(scanner, &slice) {
                if self.hits.back() != Some(&height) {
                    self.hits.push_back(height);
                }
            }
            self.scanned += slice.len();
            pace.note(slice.len(), began.elapsed());
            if is_over() {
                return self.scanned == self.rows.len();
            }
            // A thread that listens to clients and has just woken up goes first.
            thread::yield_now();
        }
    }

    /// Proves the hits, block by block, once all rows are scanned; stops early if `is_over`.
    ///
    /// # Errors
    /// Failures of store and node, and damage of the rows.
    pub(crate) fn prove(
        &mut self,
        tweaks: &Tweaks,
        at: &Snapshot,
        scanner: &Scanner,
        is_over: impl Fn() -> bool,
    ) -> Result<Proof> {
        while let Some(height) = self.hits.pop_front() {
            let next = Height(height.0 + 1);
            let Some(found) = giving_way(|| tweaks.find(at, scanner, height..next))? else {
                return Ok(Proof::Uncovered);
            };
            self.found.extend(found);
            if is_over() && !self.hits.is_empty() {
                return Ok(Proof::Left);
            }
        }
        Ok(Proof::Done(std::mem::take(&mut self.found)))
    }
}

/// State of the proof of a piece's hits.
pub(crate) enum Proof {
    /// Some blocks are left.
    Left,
    /// The transactions that pay the key, in the order of the chain.
    Done(Vec<Found>),
    /// The index does not cover the blocks any more.
    Uncovered,
}

/// Returns the heights of the blocks with hits. A damaged row counts as one: `Tweaks::find` returns its error.
fn hits(scanner: &Scanner, rows: &[TweakRow<'_>]) -> Vec<Height> {
    let scanned: Vec<Row<'_>> = rows.iter().map(|row| Row { tweak: row.tweak, prefixes: row.prefixes }).collect();
    match scanner.scan(&scanned) {
        Ok(hits) => hits.into_iter().map(|hit| rows[hit].height).collect(),
        Err(damaged) => vec![rows[damaged.row].height],
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
