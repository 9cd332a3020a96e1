//! The chain of filter headers, kept beside the index and followed in the background.
//!
//! ```text
//! array `filter-header`  header of the filter at this height, 32 bytes in the byte order of the hash function
//! manifest               a locator of the blocks that they are of
//! ```
//!
//! Invariants: the headers below the locator's end are those of its chain; records above it are cut when the store is
//! opened. A reorg cuts to the last block that the locator surely shares with the new chain, and publishes the cut
//! before anything is written above it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use birdhouse_store::{Array, ArraySpec, Store};
use parking_lot::{Mutex, RwLock};

use super::basic;
use super::locator::Locator;
use crate::error::{Error, Result};
use crate::names::{Hash256, Height, sha256d};
use crate::state::Snapshot;
use crate::tip::Index;
use crate::work::parallel;

const ARRAY: ArraySpec = ArraySpec { name: "filter-header", record_bytes: 32 };
/// Blocks whose headers one publish makes visible.
const PIECE_BLOCKS: u32 = 256;
/// Pause between two looks at the tip.
const LOOK: Duration = Duration::from_millis(500);
/// Pause before a failed piece is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Blocks after which the progress is logged.
const LOGGED_BLOCKS: u32 = 50_000;

/// The headers of basic filters of one chain.
pub struct FilterHeaders {
    store: Arc<dyn Store>,
    array: Arc<dyn Array>,
    /// The blocks whose headers are published. Readers hold it while they read.
    locator: RwLock<Locator>,
    /// Held by the writer.
    writing: Mutex<()>,
    threads: usize,
}

impl std::fmt::Debug for FilterHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterHeaders").finish_non_exhaustive()
    }
}

// === impl FilterHeaders ===

impl FilterHeaders {
    /// Opens the headers in a store of their own. `threads` compute filters of old blocks.
    ///
    /// # Errors
    /// The store is damaged.
    pub fn open(store: Arc<dyn Store>, threads: usize) -> Result<Self> {
        let locator = store.manifest()?.map(|bytes| Locator::decode(&bytes).map_err(Error::damaged_manifest));
        let locator = locator.transpose()?.unwrap_or_default();
        let array = store.array(ARRAY)?;
        let (found, needed) = (array.len(), u64::from(locator.len()));
        if found < needed {
            return Err(Error::truncated_array(ARRAY, found, needed));
        }
        if found > needed {
            array.truncate(needed)?;
            store.publish(&locator.encode())?;
        }
        Ok(Self { store, array, locator: RwLock::new(locator), writing: Mutex::new(()), threads: threads.max(1) })
    }

    /// Returns the number of headers that belong to a snapshot's chain: those of the heights below it.
    pub fn len(&self, at: &Snapshot) -> u32 {
        self.locator.read().shared(at)
    }

    /// Returns true if no header belongs to a snapshot's chain.
    pub fn is_empty(&self, at: &Snapshot) -> bool {
        self.len(at) == 0
    }

    /// Returns the headers at some heights of a snapshot's chain, concatenated; `None` if they are not all computed.
    pub fn read(&self, at: &Snapshot, heights: Range<Height>) -> Result<Option<Vec<u8>>> {
        let locator = self.locator.read();
        if heights.end.0 > locator.shared(at) || heights.start > heights.end {
            return Ok(None);
        }
        let count = heights.end.0 - heights.start.0;
        Ok(Some(self.array.read_run(heights.start.0.into(), count as usize)?))
    }

    /// Follows the chain of an index until `stop`, and tries again after failures.
    pub fn follow(&self, index: &Index, stop: &AtomicBool) {
        let runtime = &*index.shared.runtime;
        let (mut is_failing, mut logged) = (false, 0);
        while !stop.load(Ordering::Relaxed) {
            let Ok(at) = index.snapshot() else {
                runtime.sleep(LOOK, stop);
                continue;
            };
            match self.advance(&at) {
                Ok(true) => {
                    is_failing = false;
                    let (done, blocks) = (self.len(&at), at.tip().height.0 + 1);
                    if done >= logged + LOGGED_BLOCKS || done == blocks && logged + 1 < done {
                        tracing::info!(done, blocks, "computed headers of block filters");
                        logged = done;
                    }
                }
                Ok(false) => runtime.sleep(LOOK, stop),
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "failed to compute headers of block filters; trying again");
                    }
                    is_failing = true;
                    runtime.sleep(RETRY, stop);
                }
            }
        }
    }

    /// Computes the next headers of a snapshot's chain; returns false if there are none.
    ///
    /// # Errors
    /// Failures of the source or the store. What was published stays.
    pub fn advance(&self, at: &Snapshot) -> Result<bool> {
        let _writing = self.writing.lock();
        let (shared, blocks) = (self.len(at), at.tip().height.0 + 1);
        if shared < self.locator.read().len() {
            self.cut(at, shared)?;
        }
        let end = blocks.min(shared.saturating_add(PIECE_BLOCKS));
        if shared >= end {
            return Ok(false);
        }
        let heights: Vec<Height> = (shared..end).map(Height).collect();
        let hashes = parallel::map(self.threads, &heights, |height| {
            let filter = at.basic_filter(*height)?.ok_or(Error::NoBlocks)?;
            Ok::<_, Error>(sha256d(&filter))
        })?;
        let mut header = self.last(shared)?;
        let mut records = Vec::with_capacity(hashes.len() * 32);
        for hash in &hashes {
            header = basic::header(hash, &header);
            records.extend_from_slice(&header);
        }
        self.array.write(shared.into(), &records)?;
        let locator = Locator::of(at, end);
        self.store.publish(&locator.encode())?;
        *self.locator.write() = locator;
        Ok(true)
    }

    /// Leaves the first `shared` headers.
    fn cut(&self, at: &Snapshot, shared: u32) -> Result<()> {
        let mut locator = self.locator.write();
        let cut = Locator::of(at, shared);
        self.array.truncate(shared.into())?;
        self.store.publish(&cut.encode())?;
        *locator = cut;
        tracing::info!(blocks = shared, "cut headers of block filters at a reorg");
        Ok(())
    }

    /// Returns the header before a height.
    fn last(&self, height: u32) -> Result<Hash256> {
        let Some(before) = height.checked_sub(1) else { return Ok([0; 32]) };
        let record = self.array.read_run(before.into(), 1)?;
        Ok(record.try_into().expect("a record has 32 bytes"))
    }
}
