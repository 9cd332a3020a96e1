//! Merges: buried deltas, and packs that are not much larger, become one pack.
//!
//! A delta is buried when the chain has [`MergeOptions::tip_blocks`] more blocks after it. A merge reads what it takes
//! in key order and writes one pack beside it, on a thread of its own. `adopt` begins merges and publishes them.
//!
//! The smaller deltas and later packs are, the fewer scripts take a second lookup. So a delta is at most a 64th of the
//! index, at most four packs are left at the tip, and the oldest one is rewritten once the others together reach a
//! 128th of it: mainnet grows by that part in a month. The build leaves the last 100 blocks to a delta, so a usual
//! reorg touches no pack.

mod fresh;
mod new_blocks;
mod plan;
mod spool_bounds;
mod spooled;
mod streams;

pub(crate) use self::fresh::{BlockRecords, Fresh, Gathered, Settled};
pub(crate) use self::new_blocks::NewBlocks;
use self::new_blocks::NewScripts;
pub use self::spool_bounds::{SpoolBounds, SpoolCounts};
pub(crate) use self::spooled::{EarlierSpend, Spooled, SpooledWriter};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use birdhouse_store::FinishedRun;
use parking_lot::Mutex;

pub(crate) use self::plan::{Bounds, Growth, Plan, plan};
pub(crate) use self::streams::{keys_of_delta, keys_of_pack};
use self::streams::{respent, scripts_of_delta, scripts_of_pack, txnums_of_delta, txnums_of_new, txnums_of_pack};
use crate::build::{RunSet, ScriptRowWriter, TxnumRowWriter};
use crate::error::{Error, Result};
use crate::names::TxNum;
use crate::outside::{Runtime, Spawned};
use crate::rows::{Delta, FilterShare, FilterShares, Filters, Pack, Part, SHARE_BITS_MAX, Share, Summary, script};
use crate::state::{Snapshot, TxNumRange};
use crate::work::parallel;

/// Bounds of the rows at the tip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeOptions {
    /// Blocks up to the tip whose rows are never packed: a reorg may replace them, and rolling back packed ones costs
    /// more.
    pub tip_blocks: u32,
    /// Transactions after which a delta is full, at most. Deltas of a small index are smaller, see
    /// [`Self::full_delta`].
    pub delta_txs: u64,
    /// So many buried blocks that the index lacks are appended together, as a pack; a quarter of them, buried or not,
    /// as sorted rows of a delta.
    pub bulk_blocks: u32,
    /// Records after which no more blocks are read to be appended together: one for each output funded or spent.
    pub bulk_records: usize,
    /// So many buried blocks that the index lacks are appended as one pack whose records lie on disk meanwhile, within
    /// the bounds of the last [`build`](crate::Index::build), if undo data has the heights of spent outputs.
    pub spooled_blocks: u32,
    /// Bounds of such a pack.
    pub spooling: SpoolBounds,
    /// A merge at the tip takes the oldest pack while that has less than this multiple of the transactions that the
    /// merge has already taken.
    pub oldest_multiple: u64,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Memory for a record of blocks that are appended together, with what it refers to and those that are read meanwhile.
const BULK_RECORD_BYTES: usize = 140;
/// The smaller the share of later packs, the fewer scripts have entries in both and take two lookups. The oldest pack
/// grows by a tenth in a year on mainnet, and is rewritten once a month.
const OLDEST_MULTIPLE: u64 = 128;
/// The part of an index that one delta may be: a script that is in a delta and a pack takes a lookup in each.
const DELTA_PARTS: u64 = 64;
/// Transactions that a delta may have in the smallest index.
const SMALL_DELTA_TXS: u64 = 1 << 12;

impl MergeOptions {
    /// The bounds of a server.
    pub const DEFAULT: Self = Self {
        tip_blocks: 100,
        delta_txs: 1 << 17,
        bulk_blocks: 100,
        bulk_records: (512 << 20) / BULK_RECORD_BYTES,
        spooled_blocks: 1000,
        spooling: SpoolBounds::DEFAULT,
        oldest_multiple: OLDEST_MULTIPLE,
    };

    /// The same bounds with so much memory, in bytes, for blocks that are appended together.
    #[must_use]
    pub fn with_bulk_memory(self, bytes: u64) -> Self {
        Self { bulk_records: usize::try_from(bytes).unwrap_or(usize::MAX) / BULK_RECORD_BYTES, ..self }
    }

    /// Transactions after which a delta is full in an index of `txs` transactions.
    pub(crate) fn full_delta(&self, txs: u64) -> u64 {
        self.delta_txs.min((txs / DELTA_PARTS).max(SMALL_DELTA_TXS))
    }
}

/// Scripts or transactions between two looks at the order to stop.
const ITEMS_PER_LOOK: u64 = 4096;

/// Scripts of a pack that has filters in memory. Reading a pack again when the index is opened takes about a second for
/// each four million. On mainnet a larger one is merged with the oldest one.
const FILTERED_SCRIPTS_MAX: u64 = 16 << 20;

/// Filters for a pack of `scripts` scripts and `txs` live transactions; `None` where it should have none.
pub(crate) fn filters_for(pack: &Pack, scripts: u64, txs: u64) -> Option<Filters> {
    let is_filtered = !pack.is_oldest() && scripts <= FILTERED_SCRIPTS_MAX;
    is_filtered.then(|| Filters::new(scripts, txs))
}

/// Reads the keys of a pack of `txs` live transactions again; `None` where it should have no filters.
///
/// # Errors
/// Failures of the store, or damaged rows.
pub(crate) fn filters_of_pack(snapshot: &Snapshot, pack: &Pack, txs: u64) -> Result<Option<Filters>> {
    let Some(filters) = filters_for(pack, pack.scripts, txs) else { return Ok(None) };
    keys_of_pack(snapshot, pack, &filters)?;
    Ok(Some(filters))
}

/// Reads the keys of a delta again, for filters that have room for a delta of `txs` transactions.
///
/// # Errors
/// Failures of the store, or damaged rows.
pub(crate) fn filters_of_delta(snapshot: &Snapshot, delta: &Delta, txs: u64) -> Result<Filters> {
    let filters = delta_filters(txs);
    keys_of_delta(snapshot, delta, &filters)?;
    Ok(filters)
}

/// Filters for a new delta that will have about `txs` transactions.
pub(crate) fn delta_filters(txs: u64) -> Filters {
    Filters::new(SCRIPTS_PER_TX * txs, txs)
}

/// Distinct scripts of a delta for each transaction, about.
const SCRIPTS_PER_TX: u64 = 4;

/// The merge that is running, if any.
#[derive(Debug, Default)]
pub(crate) struct Merger {
    pub(crate) running: Option<Running>,
    pub(crate) stop: Arc<AtomicBool>,
    /// No merge begins before this time.
    pub(crate) retry_at: Option<Duration>,
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(running) = self.running.take() {
            // What a stopped merge says concerns nobody.
            let _ = running.work.join();
        }
    }
}

/// A merge on a thread of its own.
#[derive(Debug)]
pub(crate) struct Running {
    work: Box<dyn Spawned>,
    merged: Receiver<Result<Merged>>,
}

impl Running {
    pub(crate) fn begin(merge: Merge, stop: Arc<AtomicBool>, runtime: &dyn Runtime) -> Result<Self> {
        let (sender, merged) = sync_channel(1);
        // Nobody receives the result once the index is closed.
        let run = move || drop(sender.send(merge.run(&stop)));
        let work = runtime.spawn("merge", Box::new(run)).map_err(|cause| {
            let action = "start a thread for a merge".into();
            Error::Store(birdhouse_store::Error::Io { action, cause })
        })?;
        Ok(Self { work, merged })
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.work.is_finished()
    }

    /// Waits for the result.
    pub(crate) fn finish(self) -> Result<Merged> {
        self.work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.merged.recv().unwrap_or(Err(Error::Cancelled))
    }
}

/// One merge: its input, and the pack that it writes.
pub(crate) struct Merge {
    pub(crate) plan: Plan,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) pack: Pack,
    /// An estimate of the scripts that the pack will have.
    pub(crate) scripts_about: u64,
    /// The live txnums of the range.
    pub(crate) live: Vec<TxNumRange>,
    /// The stale txnums of all packs.
    pub(crate) stale: Vec<TxNumRange>,
    /// Blocks after those of the snapshot, which have no rows yet.
    pub(crate) new_blocks: Option<NewBlocks>,
}

/// A finished merge that is not published yet.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) plan: Plan,
    pub(crate) pack: Pack,
    /// The live txnums of the range when the merge began.
    pub(crate) live: Vec<TxNumRange>,
    /// The stale txnums of all packs at that time.
    pub(crate) stale: Vec<TxNumRange>,
    pub(crate) runs: Vec<FinishedRun>,
    pub(crate) filters: Option<Arc<Filters>>,
}

impl Merge {
    /// Writes the pack. Its rows are in no table yet.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once `stop` is set; failures of the store; damaged rows.
    pub(crate) fn run(&self, stop: &AtomicBool) -> Result<Merged> {
        let txs = self.live.iter().map(|range| range.end.0 - range.start.0).sum();
        let mut filters = filters_for(&self.pack, self.scripts_about, txs);
        let merged = {
            let bits = self.share_bits();
            let mut lines = filters.as_mut().map(|filters| filters.shares(bits));
            let mut next_lines = || lines.as_mut().and_then(Iterator::next).map(Mutex::new);
            let shares: Vec<_> = Share::each(bits).map(|share| (share, next_lines())).collect();
            parallel::in_chunks(self.snapshot.shared.runtime.threads(), &shares, 1, |some| {
                some.iter().map(|(share, lines)| self.merge_share(*share, lines.as_ref(), stop)).collect()
            })?
        };
        let pack = Pack { scripts: merged.iter().map(|(scripts, _)| scripts).sum(), ..self.pack };
        let runs = merged.into_iter().flat_map(|(_, runs)| runs).collect();
        let (live, stale, filters) = (self.live.clone(), self.stale.clone(), filters.map(Arc::new));
        Ok(Merged { plan: self.plan, pack, live, stale, runs, filters })
    }

    /// Merges a share of the keys, and adds these to the lines of the filters. Returns the number of scripts, and the
    /// runs.
    fn merge_share(
        &self,
        share: Share,
        lines: Option<&Mutex<FilterShares<'_>>>,
        stop: &AtomicBool,
    ) -> Result<(u64, Vec<FinishedRun>)> {
        let mut set = RunSet::new(&*self.snapshot.shared.storage.store);
        let mut lines = lines.map(Mutex::lock);
        let (scripts, txids) = lines.as_deref_mut().map(|lines| (&mut lines.scripts, &mut lines.txids)).unzip();
        let written = self.merge_scripts(&mut set, share, scripts, stop)?;
        self.merge_txnums(&mut set, share, txids, stop)?;
        Ok((written, set.finish()?))
    }

    /// The bits of the shares that threads merge. A share has whole buckets of each pack.
    fn share_bits(&self) -> u32 {
        if self.new_blocks.is_none() {
            // The index waits for a merge of new blocks; others are for one thread of low priority.
            return 0;
        }
        let packs = self.packs().iter().chain([&self.pack]);
        let buckets = packs.map(|pack| pack.script_bits.min(pack.txnum_bits)).min().unwrap_or(0);
        buckets.min(SHARE_BITS_MAX)
    }

    fn packs(&self) -> &[Pack] {
        let packs = &self.snapshot.tables.packs;
        &packs[packs.len() - self.plan.packs..]
    }

    /// Writes the scripts of a share. Returns their number.
    fn merge_scripts(
        &self,
        set: &mut RunSet<'_>,
        share: Share,
        mut filter: Option<&mut FilterShare<'_>>,
        stop: &AtomicBool,
    ) -> Result<u64> {
        let snapshot = &*self.snapshot;
        let packs = self.packs().iter().map(|pack| scripts_of_pack(snapshot, pack, share));
        let mut packs = packs.collect::<Result<Vec<_>>>()?;
        let deltas = snapshot.tables.deltas[..self.plan.deltas].iter();
        let deltas = deltas.map(|delta| scripts_of_delta(snapshot, delta, share));
        let mut deltas = deltas.collect::<Result<Vec<_>>>()?;
        // They follow the deltas.
        let mut new = self.new_blocks.as_ref().map(|blocks| blocks.scripts(share)).transpose()?;
        let mut respent = if snapshot.stale.is_empty() { None } else { Some(respent(snapshot, share)?) };
        let mut rows = ScriptRowWriter::new(self.pack);
        let mut part = Part::default();
        let mut items = 0;
        loop {
            let stored = packs.iter().chain(&deltas).filter_map(streams::Ascending::key);
            let Some(key) = stored.chain(new.as_ref().and_then(NewScripts::key)).min() else { break };
            look(&mut items, stop)?;
            part.clear();
            for pack in &mut packs {
                if let Some(more) = pack.take(key)? {
                    part.add(more);
                }
            }
            if let Some(respent) = &mut respent {
                // Stale transactions may be all that a script had.
                while let Some(before) = respent.key().filter(|before| *before < key) {
                    respent.take(before)?;
                }
                if let Some(coins) = respent.take(key)? {
                    part.roll_back(&coins, |txnum| snapshot.is_live(txnum));
                }
            }
            for delta in &mut deltas {
                if let Some(more) = delta.take(key)? {
                    part.add(more);
                }
            }
            if let Some(new) = &mut new {
                new.add_to(key, &mut part)?;
            }
            if part.txnums.is_empty() {
                continue;
            }
            if self.pack.is_oldest() && !part.spends.is_empty() {
                return Err(Error::missing(script::table(&self.pack), "an output that a later row spends"));
            }
            if let Some(filter) = &mut filter {
                filter.insert(key.prefix);
            }
            rows.push(set, key, part.slices(), || Summary::of(&part))?;
        }
        rows.finish(set)
    }

    /// Writes the transactions of a share.
    fn merge_txnums(
        &self,
        set: &mut RunSet<'_>,
        share: Share,
        mut filter: Option<&mut FilterShare<'_>>,
        stop: &AtomicBool,
    ) -> Result<()> {
        let snapshot = &*self.snapshot;
        let packs = self.packs().iter().map(|pack| txnums_of_pack(snapshot, pack, share));
        let deltas = snapshot.tables.deltas[..self.plan.deltas].iter();
        let deltas = deltas.map(|delta| txnums_of_delta(snapshot, delta, &self.pack, share));
        let new = self.new_blocks.iter().map(|blocks| txnums_of_new(blocks, &self.pack, share));
        let mut sources = packs.chain(deltas).chain(new).collect::<Result<Vec<_>>>()?;
        let mut rows = TxnumRowWriter::new(self.pack);
        let mut items = 0;
        loop {
            let next = sources.iter().enumerate().filter_map(|(index, source)| Some((source.key()?, index))).min();
            let Some((key, index)) = next else { return rows.finish(set) };
            look(&mut items, stop)?;
            sources[index].take(key)?;
            let (hash, txnum): (u64, TxNum) = key;
            if let Some(filter) = &mut filter {
                filter.insert(hash);
            }
            rows.push(set, hash, txnum)?;
        }
    }
}

/// Counts an item, and ends the merge once `stop` is set.
fn look(items: &mut u64, stop: &AtomicBool) -> Result<()> {
    *items += 1;
    if items.is_multiple_of(ITEMS_PER_LOOK) && stop.load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    Ok(())
}
