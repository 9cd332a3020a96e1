//! The records of one chain in a store of their own: opened, read, extended, and cut at a reorg.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_store::Store;
use parking_lot::{Mutex, RwLock};

use super::column::Column;
use super::locator::{Chain, Locator};
use super::{Derived, DerivedArray, Records};
use crate::block::ProvedBlock;
use crate::error::{Error, Result};
use crate::names::Height;
use crate::outside::BlockId;
use crate::state::Snapshot;
use crate::work::parallel;

/// Blocks whose records one publish makes visible.
pub(super) const PIECE_BLOCKS: u32 = 256;

/// A derived index of one chain.
///
/// # Locks
/// `writing` is held over reads of blocks and writes of the store, and `locator` is taken after it. A reader holds
/// `locator` alone, while it reads.
pub struct DerivedIndex {
    pub(super) derived: Arc<dyn Derived>,
    store: Arc<dyn Store>,
    columns: Vec<Column>,
    /// The blocks whose records are published.
    locator: RwLock<Locator>,
    /// Held by the writer.
    pub(super) writing: Mutex<Surplus>,
    pub(super) threads: usize,
    failures: AtomicU64,
    /// Message of the last attempt, if it failed.
    failure: Mutex<Option<String>>,
}

/// Records above the locator's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surplus {
    /// There are none that a publish could make visible.
    None,
    /// They are still to be cut. Nothing is written above the locator before.
    ToCut,
}

/// The state of a derived index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedProgress {
    /// Its name.
    pub name: &'static str,
    /// Height after the last block that it covers.
    pub blocks: u32,
    /// Height after the last block that the index has, or builds.
    pub of_blocks: u32,
    /// Bytes on disk.
    pub bytes: u64,
    /// Failed attempts since the process began.
    pub failures: u64,
    /// Message of the last attempt, if it failed.
    pub failure: Option<String>,
}

impl std::fmt::Debug for DerivedIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DerivedIndex").field("name", &self.name()).finish_non_exhaustive()
    }
}

// === impl DerivedIndex ===

impl DerivedIndex {
    /// Opens a derived index in a store of its own. `threads` compute the records of old blocks.
    ///
    /// # Errors
    /// The store is damaged, or [`Error::OtherFormat`].
    pub fn open(store: Arc<dyn Store>, derived: Arc<dyn Derived>, threads: usize) -> Result<Self> {
        let manifest = store.manifest()?.map(|bytes| Locator::decode(&bytes).map_err(Error::damaged_manifest));
        let (format, locator) = manifest.transpose()?.unwrap_or((derived.format(), Locator::default()));
        if format != derived.format() {
            return Err(Error::OtherFormat { found: format, known: derived.format() });
        }
        let columns = derived.arrays().iter().map(|array| Column::open(&*store, array)).collect::<Result<Vec<_>>>()?;
        let index = Self {
            derived,
            store,
            columns,
            locator: RwLock::new(locator),
            writing: Mutex::new(Surplus::None),
            threads: threads.max(1),
            failures: AtomicU64::new(0),
            failure: Mutex::default(),
        };
        let len = index.locator.read().len();
        if index.cut_columns(len)? {
            index.publish(&index.locator.read())?;
        }
        Ok(index)
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.derived.name()
    }

    /// Returns its arrays.
    pub fn arrays(&self) -> &'static [DerivedArray] {
        self.derived.arrays()
    }

    /// Returns the height of the first block that gives records.
    pub fn start(&self) -> Height {
        self.derived.start()
    }

    /// Returns the height after the last block of a snapshot's chain whose records are there. All from
    /// [`Derived::start`] on are.
    pub fn len(&self, at: &Snapshot) -> u32 {
        self.end_of(&self.locator.read(), at)
    }

    /// Returns the height after the last block of a chain whose records a locator covers.
    fn end_of<C: Chain + ?Sized>(&self, locator: &Locator, chain: &C) -> u32 {
        locator.shared(chain).max(self.derived.start().0)
    }

    /// Returns true if no records belong to a snapshot's chain.
    pub fn is_empty(&self, at: &Snapshot) -> bool {
        self.len(at) == self.derived.start().0
    }

    /// Returns the records of some blocks of a snapshot's chain for the array with this number, concatenated; `None` if
    /// they are not all computed, or begin below [`Derived::start`].
    ///
    /// # Errors
    /// Failures of the store.
    pub fn read(&self, at: &Snapshot, array: usize, heights: Range<Height>) -> Result<Option<Vec<u8>>> {
        self.of_blocks(at, heights, |blocks| self.columns[array].read(blocks))
    }

    /// Returns the number of records of some blocks in the array with this number; `None` as [`Self::read`].
    ///
    /// # Errors
    /// Failures of the store.
    pub fn count(&self, at: &Snapshot, array: usize, heights: Range<Height>) -> Result<Option<u64>> {
        self.of_blocks(at, heights, |blocks| self.columns[array].count(blocks))
    }

    /// Returns the number of records in the array with this number up to the end of each of some blocks, counted from
    /// the first one; `None` as [`Self::read`].
    ///
    /// # Errors
    /// Failures of the store.
    pub fn ends(&self, at: &Snapshot, array: usize, heights: Range<Height>) -> Result<Option<Vec<usize>>> {
        self.of_blocks(at, heights, |blocks| self.columns[array].ends(blocks))
    }

    /// Reads of some blocks of a snapshot's chain, which are counted from [`Derived::start`] on, while none is cut;
    /// `None` if their records are not all there.
    fn of_blocks<T>(
        &self,
        at: &Snapshot,
        heights: Range<Height>,
        read: impl FnOnce(Range<u32>) -> Result<T>,
    ) -> Result<Option<T>> {
        let locator = self.locator.read();
        if heights.end.0 > self.end_of(&locator, at) || heights.start > heights.end {
            return Ok(None);
        }
        let start = self.derived.start().0;
        let Some(first) = heights.start.0.checked_sub(start) else { return Ok(None) };
        read(first..heights.end.0 - start).map(Some)
    }

    /// Returns its progress on the way to the tip of `at`; to the end of the chain that is built, of which `built` has
    /// the number of blocks, while there is no snapshot.
    pub(crate) fn progress(&self, at: Option<&Snapshot>, built: u32) -> DerivedProgress {
        let (blocks, of_blocks) = match at {
            Some(at) => (self.len(at), at.headers.len()),
            None => (self.locator.read().len(), built),
        };
        DerivedProgress {
            name: self.name(),
            blocks: blocks.min(of_blocks),
            of_blocks,
            bytes: self.store.sizes().unwrap_or_default().into_iter().map(|(_, bytes)| bytes).sum(),
            failures: self.failures.load(Ordering::Relaxed),
            failure: self.failure.lock().clone(),
        }
    }

    /// Computes the next records of a snapshot's chain; returns false if there are none.
    ///
    /// # Errors
    /// Failures of the source or the store. What was published stays.
    pub fn advance(&self, at: &Snapshot) -> Result<bool> {
        let mut writing = self.writing.lock();
        let outcome = self.advance_locked(at, &mut writing);
        *self.failure.lock() = outcome.as_ref().err().map(ToString::to_string);
        self.failures.fetch_add(u64::from(outcome.is_err()), Ordering::Relaxed);
        outcome
    }

    fn advance_locked(&self, at: &Snapshot, surplus: &mut Surplus) -> Result<bool> {
        let next = self.cut_to(at, surplus)?;
        let end = at.headers.len().min(next.saturating_add(PIECE_BLOCKS));
        if next >= end {
            return Ok(false);
        }
        let records = self.compute(at, next..end)?;
        self.append(at, next, records)?;
        Ok(true)
    }

    /// Computes the records of some blocks of a snapshot's chain, not linked yet.
    ///
    /// # Errors
    /// Failures of the source.
    pub(super) fn compute(&self, at: &Snapshot, heights: Range<u32>) -> Result<Vec<Records>> {
        let heights: Vec<Height> = heights.map(Height).collect();
        parallel::map(self.threads, &heights, |height| {
            let hash = at.hash_at(*height).ok_or(Error::NoBlocks)?;
            let fetched = at.shared.storage.source.block(hash)?;
            let refused = |error| Error::Block { height: *height, error };
            let block = ProvedBlock::of(&fetched.block, fetched.spent.as_bytes()).map_err(refused)?;
            self.derived.of_block(BlockId { height: *height, hash }, &block).map_err(refused)
        })
    }

    /// Links records that follow those of the block before `first`.
    pub(super) fn link(&self, first: u32, records: &mut [Records]) -> Result<()> {
        let before = self.before(first)?;
        for at in 0..records.len() {
            let (done, rest) = records.split_at_mut(at);
            self.derived.link(done.last().unwrap_or(&before), &mut rest[0]);
        }
        Ok(())
    }

    /// Cuts what a chain does not share. Returns the height of the first block whose records are missing. Nothing is
    /// cut for a chain that is part of the covered one: somebody holds the snapshot before a new tip.
    ///
    /// The shorter locator is published first: after a crash in between, the arrays may have more records than it
    /// needs, never less. The second publish makes the cut durable.
    pub(super) fn cut_to<C: Chain + ?Sized>(&self, chain: &C, surplus: &mut Surplus) -> Result<u32> {
        let (shared, known) = {
            let locator = self.locator.read();
            (locator.shared(chain), locator.len())
        };
        if shared < known && chain.hash_at(Height(shared)).is_none() {
            return Ok(known.max(self.derived.start().0));
        }
        if shared < known {
            let cut = Locator::of(chain, shared);
            self.publish(&cut)?;
            *self.locator.write() = cut;
            *surplus = Surplus::ToCut;
            tracing::info!(index = self.name(), blocks = shared, "cut a derived index at a reorg");
        }
        if *surplus == Surplus::ToCut {
            self.cut_columns(shared)?;
            self.publish(&self.locator.read())?;
            *surplus = Surplus::None;
        }
        Ok(shared.max(self.derived.start().0))
    }

    /// Links and publishes the records of the blocks of a chain from `first` on, which is where the published ones end.
    pub(super) fn append<C: Chain + ?Sized>(&self, chain: &C, first: u32, mut records: Vec<Records>) -> Result<()> {
        self.link(first, &mut records)?;
        let block = first - self.derived.start().0;
        for (number, column) in self.columns.iter().enumerate() {
            column.append(block, records.iter().map(|records| records.of(number)))?;
        }
        let end = first + u32::try_from(records.len()).expect("heights fit 32 bits");
        let locator = Locator::of(chain, end);
        self.publish(&locator)?;
        *self.locator.write() = locator;
        Ok(())
    }

    fn publish(&self, locator: &Locator) -> Result<()> {
        Ok(self.store.publish(&locator.encode(self.derived.format()))?)
    }

    /// Leaves the records of the blocks below a height. Returns true if there were others.
    fn cut_columns(&self, height: u32) -> Result<bool> {
        let blocks = height.saturating_sub(self.derived.start().0);
        let mut has_cut = false;
        for column in &self.columns {
            has_cut |= column.cut(blocks)?;
        }
        Ok(has_cut)
    }

    /// Returns the records of the block before a height; none at the first one.
    fn before(&self, height: u32) -> Result<Records> {
        let blocks = height - self.derived.start().0;
        let Some(last) = blocks.checked_sub(1) else { return Ok(Records::default()) };
        self.columns.iter().map(|column| column.read(last..blocks)).collect::<Result<Vec<_>>>().map(Records)
    }
}
