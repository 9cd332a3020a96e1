//! Catching up: many buried blocks become one pack, and the last ones sorted rows of a delta.
//!
//! A follower that is far behind would write each row several times, to the log, a delta and packs, and look up funding
//! transactions in no order. Here the records of new blocks are sorted in memory, as the first build does on disk, and
//! merged with the deltas before them. The rows of the last [`tip_blocks`](crate::MergeOptions::tip_blocks) are loaded
//! into a delta, past the log and the memtable.
//!
//! An index that lacks 100 buried blocks or more appends them as packs, each of as many blocks as fit in half of
//! `build-memory-mib`: with the default a week of mainnet is four packs. While one is written, each quarter of the keys
//! by a thread of its own, another thread reads the next blocks. Packs are merged once there are six; at the tip, where
//! four are the most, a merge follows at once. The last 100 blocks, or 25 or more at once, go to the delta, so the
//! longest way to the tip has few blocks that are appended one by one.
//!
//! An index that lacks a thousand blocks spools their records to disk first, and writes fewer packs: [`bulk_spool`].
//!
//! [`bulk_spool`]: super::bulk_spool
//!
//! Where blocks have siblings, a pack has stale transactions or a merge is under way, fewer blocks are appended
//! together, or none. An append of a pack, or of many scripts, names no scripts: every subscription is checked.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use birdhouse_store::FinishedRun;
use bitcoin::BlockHash;

use crate::build::RunSet;
use crate::error::{Error, Result};
use crate::merging::{BlockRecords, Fresh, Growth, NewBlocks, Settled};
use crate::names::{Height, ScriptHash, TouchedScripts, TxNum};
use crate::outside::{BlockId, Node};
use crate::query::{Funding, fundings};
use crate::rows::{Delta, Filters, Pack, SHARE_BITS_MAX, Share, recent, recent_txnum, txnum};
use crate::state::{Headers, Key, Manifest, Slot, Snapshot, State, Storage};
use crate::tip::adopt::take;
use crate::tip::bulk_read::{BulkRead, Reading};
use crate::tip::index::Index;
use crate::tip::ingest::{Advanced, NewBlock};
use crate::work::parallel;

/// The most blocks whose hashes are asked for. Of full blocks, some 280 fill a pack with the default memory.
const BLOCKS_MAX: u32 = 1024;
/// Of the appended transactions, those whose blocks are remembered for the next ones.
pub(super) const REMEMBERED: usize = 1 << 17;
/// Blocks that are fetched and parsed at once. Threads begin anew for each such list, with buffers of their own.
pub(super) const FETCHED_BLOCKS: usize = 32;
/// Scripts that are announced one by one, repeated ones counted, 10 MB. Beyond, every subscription is checked.
const ANNOUNCED_SCRIPTS_MAX: usize = 1 << 18;

/// Free slots.
#[derive(Clone, Copy)]
pub(super) struct Free {
    pack: u8,
    delta: u8,
}

/// A pack of new blocks whose rows are in no table yet.
pub(super) struct WrittenPack {
    /// The manifest that the pack is published with.
    next: Manifest,
    pack: Pack,
    filters: Option<Arc<Filters>>,
    runs: Vec<FinishedRun>,
    /// The slots of what the pack replaces.
    taken: Vec<Slot>,
}

/// The form in which blocks are appended, and the height after the last of them.
#[derive(Clone, Copy)]
enum Bulk {
    Pack(Free, u32),
    Delta(u32),
}

impl Bulk {
    fn name(self) -> &'static str {
        match self {
            Self::Pack(..) => "pack",
            Self::Delta(_) => "delta",
        }
    }

    /// The height after the last block.
    fn end(self) -> u32 {
        let (Self::Pack(_, end) | Self::Delta(end)) = self;
        end
    }
}

/// Blocks to append together, by their hashes, and what they become.
#[derive(Clone, Copy)]
struct PlannedBulk<'a> {
    bulk: Bulk,
    hashes: &'a [BlockHash],
}

/// The height after the last block on the way to `best` that may be appended together, after those below `known`.
fn end_of_bulk(known: u32, best: Height) -> u32 {
    best.0.saturating_add(1).min(known.saturating_add(BLOCKS_MAX))
}

impl Index {
    /// Appends blocks that follow those of `before`, on the way to `best`, as one pack or as rows of a delta. Returns
    /// `None` if the index is not far behind, or one of the first blocks has a sibling, so that its undo data needs a
    /// proof: such blocks are appended one by one.
    ///
    /// # Errors
    /// Failures of the node, the source or the store; [`Error::Cancelled`] if `stop` is set. Nothing is published then.
    pub(super) fn append_bulk(
        &self,
        before: &Arc<Snapshot>,
        node: &dyn Node,
        best: BlockId,
        stop: &AtomicBool,
    ) -> Result<Option<Advanced>> {
        let ahead = self.ahead.lock().take();
        let known = before.headers.len();
        if best.height.0.saturating_add(1) < known.saturating_add(self.sorted_blocks()) {
            return Ok(None);
        }
        self.empty_unread()?;
        let is_merging = self.merger.lock().running.is_some();
        let mut manifest = self.writer.lock();
        let free = self.free_slots(&manifest).filter(|_| !is_merging && manifest.stale.is_empty());
        if let Some(free) = free.filter(|_| ahead.is_none() && self.is_spooled(known, best.height))
            && let Some(advanced) = self.append_spooled(before, node, best, &mut manifest, free, stop)?
        {
            return Ok(Some(advanced));
        }
        let hashes = node.block_hashes(Height(known)..Height(end_of_bulk(known, best.height)))?;
        let until = |end: u32| &hashes[..hashes.len().min((end - known) as usize)];
        let bulk = self.bulk(known, best.height, free);
        let own = until(bulk.end());
        let ahead = ahead.filter(|ahead| ahead.begins(&before.headers, own, manifest.next));
        let threads = self.shared.runtime.threads();
        let planned = PlannedBulk { bulk, hashes: own };
        let read = || self.read_bulk(&before.headers, planned, manifest.next, threads, stop);
        let read = ahead.map_or_else(read, Ok)?;
        let (blocks, touched_known) = (read.len(), read.names_scripts);
        let blocks_min = if let Bulk::Pack(..) = bulk { self.bulk_blocks() } else { 1 };
        if blocks < blocks_min {
            return Ok(None);
        }
        let next = self.bulk(known + blocks, best.height, free);
        let mut hashes = until(next.end()).get(blocks as usize..).unwrap_or_default();
        if self.is_spooled(known + blocks, best.height) {
            // They are not read ahead.
            hashes = &[];
        }
        let next = PlannedBulk { bulk: next, hashes };
        let (snapshot, touched) = self.write_reading_ahead(before, &mut manifest, bulk, read, next, stop)?;
        let tip = snapshot.tip();
        tracing::info!(height = tip.height.0, hash = %tip.hash, blocks, kind = bulk.name(), "indexed blocks together");
        Ok(Some(Advanced { snapshot, touched, touched_known }))
    }

    /// Chooses what blocks from the height `known` to `best` become. There is a pack only where slots are free, no
    /// merge runs and no reorg reached into a pack.
    fn bulk(&self, known: u32, best: Height, free: Option<Free>) -> Bulk {
        let buried = best.0.saturating_add(1).saturating_sub(self.merging.tip_blocks);
        let end = end_of_bulk(known, best);
        match free.filter(|_| buried >= known.saturating_add(self.bulk_blocks())) {
            Some(free) => Bulk::Pack(free, buried.min(end)),
            None => Bulk::Delta(end),
        }
    }

    pub(super) fn bulk_blocks(&self) -> u32 {
        self.merging.bulk_blocks.max(1)
    }

    /// The fewest blocks that are loaded into a delta as sorted rows.
    fn sorted_blocks(&self) -> u32 {
        (self.merging.bulk_blocks / 4).max(2)
    }

    fn free_slots(&self, manifest: &Manifest) -> Option<Free> {
        let slots = self.slots.lock();
        Some(Free { pack: slots.free_pack(manifest)?, delta: slots.free_delta(manifest)? })
    }

    /// Reads blocks that follow `before` until the records fill their bound, `hashes` end, or a block has a sibling.
    /// The first transaction gets the number `first`.
    ///
    /// # Errors
    /// Failures of the source; [`Error::Cancelled`] once `stop` is set.
    fn read_bulk(
        &self,
        before: &Headers,
        PlannedBulk { bulk, hashes }: PlannedBulk<'_>,
        first: TxNum,
        threads: usize,
        stop: &AtomicBool,
    ) -> Result<BulkRead> {
        let mut read = Reading::new(before, first);
        let mut scripts: Option<Vec<ScriptHash>> = matches!(bulk, Bulk::Delta(_)).then(Vec::new);
        for some in hashes.chunks(FETCHED_BLOCKS) {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let blocks = self.fetch_some(read.headers.tip(), some, threads)?;
            let alone = blocks.iter().position(|block| block.has_sibling).unwrap_or(blocks.len());
            self.gather(&mut read, &blocks[..alone], threads)?;
            if let Some(scripts) = &mut scripts {
                scripts.extend(blocks[..alone].iter().flat_map(NewBlock::scripthashes));
            }
            scripts.take_if(|scripts| scripts.len() > ANNOUNCED_SCRIPTS_MAX);
            if alone < blocks.len() || read.gathered.len() >= self.merging.bulk_records {
                break;
            }
        }
        // Built at once from all of them: to insert one after the other takes several times as long.
        Ok(read.finish(scripts.map(|scripts| scripts.into_iter().collect())))
    }

    fn gather(&self, read: &mut Reading, blocks: &[NewBlock], threads: usize) -> Result<()> {
        let mut end = read.gathered.end();
        let numbered = blocks.iter().map(|block| {
            let first = end;
            end.0 += block.touches.txids.len() as u64;
            (block, first)
        });
        let numbered: Vec<(&NewBlock, TxNum)> = numbered.collect();
        let records = parallel::in_chunks(threads, &numbered, 1, |one| {
            let records = |(block, first): &(&NewBlock, TxNum)| {
                BlockRecords::of(&block.touches, block.height, *first, &self.shared.keyer)
            };
            one.iter().map(records).collect()
        })?;
        for ((block, first), records) in numbered.into_iter().zip(records) {
            read.push(block.header_row(first), block.touches.offsets.clone(), records);
        }
        Ok(())
    }

    /// Writes and publishes blocks, while another thread reads the next ones. Returns the new tip, and the scripts that
    /// changed.
    fn write_reading_ahead(
        &self,
        before: &Arc<Snapshot>,
        manifest: &mut Manifest,
        bulk: Bulk,
        read: BulkRead,
        next: PlannedBulk<'_>,
        stop: &AtomicBool,
    ) -> Result<(Snapshot, TouchedScripts)> {
        if next.hashes.len() < self.sorted_blocks() as usize || self.shared.runtime.threads() == 1 {
            return self.write_bulk(before, manifest, bulk, read, stop);
        }
        let (headers, first) = (read.headers.clone(), read.settled.end());
        // One processor is left for the writer, which begins with one thread and ends with several.
        let threads = thread::available_parallelism().map_or(1, |processors| processors.get() - 1).max(1);
        thread::scope(|scope| {
            let ahead = scope.spawn(|| self.read_bulk(&headers, next, first, threads, stop));
            let written = self.write_bulk(before, manifest, bulk, read, stop)?;
            // Where it failed, the next step reads again, and says so.
            *self.ahead.lock() = ahead.join().unwrap_or_else(|panic| resume_unwind(panic)).ok();
            Ok(written)
        })
    }

    /// Reserves the numbers of the transactions that were read, writes and publishes the blocks. Returns the new tip,
    /// and the scripts that changed; with a pack those of transactions that left the mempool.
    fn write_bulk(
        &self,
        before: &Arc<Snapshot>,
        manifest: &mut Manifest,
        bulk: Bulk,
        mut read: BulkRead,
        stop: &AtomicBool,
    ) -> Result<(Snapshot, TouchedScripts)> {
        let (mut rows, mut mempool) = (RunSet::new(&*self.shared.storage.store), before.mempool.clone());
        read.write_blocks(&mut rows)?;
        read.confirm_in(&mut mempool);
        let BulkRead { settled, headers, touched, .. } = read;
        let (first, end) = (manifest.next, settled.end());
        let mut next = self.reserve(manifest, &settled)?;
        let fresh = settled.number(|fundings| self.find_fundings(before, fundings))?;
        next.extend(first, end);
        next.state = State::Ready(headers.tip().ok_or(Error::NoBlocks)?);
        match bulk {
            Bulk::Pack(free, _) => {
                let written = self.write_pack(before, next, free, NewBlocks::Fresh(fresh), rows, stop)?;
                next = self.publish_pack(written)?;
            }
            Bulk::Delta(_) => self.publish_delta(&mut next, first, &fresh, rows)?,
        }
        *manifest = next;
        Ok((Snapshot { mempool, ..self.snapshot_of(manifest, headers) }, touched))
    }

    /// Writes new blocks as the rows of a pack. `next` is the manifest with the blocks, but without the pack.
    pub(super) fn write_pack(
        &self,
        before: &Arc<Snapshot>,
        mut next: Manifest,
        free: Free,
        blocks: NewBlocks,
        rows: RunSet<'_>,
        stop: &AtomicBool,
    ) -> Result<WrittenPack> {
        // The blocks end the last delta, and all that is unpacked is buried.
        next.deltas.push(Delta { slot: free.delta, start: next.next });
        let plan = self.plan(&next, next.next, Growth::BEHIND).expect("nothing is stale, and a delta is buried");
        let merged = self.merge_of(Arc::clone(before), &next, plan, free.pack, Some(blocks)).run(stop)?;
        let runs = merged.runs.into_iter().chain(rows.finish()?).collect();
        let taken = take(&mut next, merged.plan, merged.pack);
        Ok(WrittenPack { next, pack: merged.pack, filters: merged.filters, runs, taken })
    }

    /// Loads the rows of a pack, and publishes the manifest with it, which is returned.
    pub(super) fn publish_pack(&self, written: WrittenPack) -> Result<Manifest> {
        let WrittenPack { next, pack, filters, runs, taken } = written;
        self.load_and_publish(runs, &next, pack)?;
        self.retire(taken, pack, filters);
        Ok(next)
    }

    /// Adds the rows of new blocks, whose transactions begin at `first`, to the last delta, or to a new one if that is
    /// full, and publishes `next` with them.
    fn publish_delta(&self, next: &mut Manifest, first: TxNum, fresh: &Fresh, rows: RunSet<'_>) -> Result<()> {
        self.begin_delta(next, first);
        let delta = *next.deltas.last().expect("a ready index has a delta");
        let filters = self.delta_filters(delta, fresh.txs());
        let store = &*self.shared.storage.store;
        let key_length = next.key_length;
        let write = |share: &Share| {
            let mut rows = RunSet::new(store);
            for (key, txnum, row) in fresh.rows(*share) {
                filters.scripts.add(key.prefix);
                rows.push(recent::table(&delta), &recent::key(key, txnum), &recent::value(&row))?;
            }
            for (hash, txnum) in fresh.hashes(*share) {
                filters.txids.add(txnum::kept(*hash, key_length));
                rows.push(recent_txnum::table(&delta), &recent_txnum::key(*hash, *txnum), &[])?;
            }
            rows.finish()
        };
        let shares: Vec<Share> = Share::each(SHARE_BITS_MAX).collect();
        let threads = self.shared.runtime.threads();
        let runs = parallel::in_chunks(threads, &shares, 1, |some| some.iter().map(write).collect())?;
        store.bulk_load(runs.into_iter().flatten().chain(rows.finish()?).collect())?;
        Ok(store.publish(&next.encode())?)
    }

    /// Reserves the numbers of the transactions that were read, durably, and writes their txids. Returns the manifest
    /// that reserves them.
    fn reserve(&self, manifest: &mut Manifest, settled: &Settled) -> Result<Manifest> {
        let Storage { txids: array, .. } = &*self.shared.storage;
        let next = self.reserve_until(manifest, settled.end())?;
        for (first, txids) in settled.txids() {
            if let Some(array) = array {
                array.write(first.0, txids.as_flattened())?;
            }
            if first.0 + txids.len() as u64 + REMEMBERED as u64 > next.next.0 {
                self.remember(txids, first);
            }
        }
        Ok(next)
    }

    /// Reserves the numbers before `end`, durably. Returns the manifest that reserves them.
    pub(super) fn reserve_until(&self, manifest: &mut Manifest, end: TxNum) -> Result<Manifest> {
        let next = Manifest { next: end, ..manifest.clone() };
        self.shared.storage.store.publish(&next.encode())?;
        manifest.next = end;
        Ok(next)
    }

    /// Finds transactions of earlier blocks: the newest in memory, the others as [`fundings::find`] does.
    pub(super) fn find_fundings(&self, before: &Snapshot, fundings: &[Funding]) -> Result<Vec<Option<TxNum>>> {
        let mut recent = self.recent_txids.lock();
        let is_it = |funding: &Funding, txnum: TxNum| before.is_live(txnum) && funding.may_be(txnum, &before.headers);
        let known = |funding: &Funding| recent.get(&Key(funding.txid)).copied().filter(|txnum| is_it(funding, *txnum));
        let mut found: Vec<Option<TxNum>> = fundings.iter().map(known).collect();
        drop(recent);
        let unknown: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
        let wanted: Vec<Funding> = unknown.iter().map(|index| fundings[*index]).collect();
        for (index, txnum) in unknown.into_iter().zip(fundings::find(before, &wanted)?) {
            found[index] = txnum;
        }
        Ok(found)
    }

    pub(super) fn remember(&self, txids: &[[u8; 32]], first: TxNum) {
        let mut recent = self.recent_txids.lock();
        for (txid, txnum) in txids.iter().zip(first.0..) {
            recent.insert(Key(*txid), TxNum(txnum));
        }
    }
}
