//! Catching up from far behind: a thousand buried blocks or more become one pack, by way of records on disk.
//!
//! Memory bounds the packs of [`bulk_append`](super::bulk_append), so an index that lacks much of the chain would write
//! each of its rows several times, and merge packs again and again. The first build sorts without such a bound: it
//! spools its records to disk. Here the buried blocks are spooled in the same form, in the folder and within the bounds
//! of the last build, and [`SpoolBounds`](crate::SpoolBounds) bounds what a killed process reads again.
//!
//! The rows of the pack are written first, into no table. Then the numbers of its transactions are reserved, durably,
//! txids are written under them, and all else is published with the pack. So an attempt that ends before leaves nothing
//! behind. After a failure the same blocks are appended within memory, which stops at a block that is at fault.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use birdhouse_store::disk_free_bytes;
use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::build::{PARTITION_BITS, RunSet};
use crate::error::{Error, Result};
use crate::merging::{EarlierSpend, NewBlocks, SpoolCounts, Spooled, SpooledWriter};
use crate::names::{Height, TouchedScripts, TxNum};
use crate::outside::{BlockId, Node};
use crate::rows;
use crate::state::{ChainBlock, Headers, Manifest, Mempool, Snapshot, State};
use crate::tip::bulk_append::{FETCHED_BLOCKS, Free, REMEMBERED, WrittenPack};
use crate::tip::index::Index;
use crate::tip::ingest::{Advanced, NewBlock};
use crate::tip::spooled_txids::SpooledTxids;
use crate::work::parallel;

/// The part of the free disk that temporary files may take.
const FREE_DISK_PARTS: u64 = 8;
/// The part of a build's memory that the records of one partition may take: they are sorted in memory with the state of
/// their scripts, and all records of one script are in one partition.
const PARTITION_PARTS: u64 = 8;
/// Parts of a pack after each of which the log has a line.
const LOGGED_PARTS: u64 = 10;

/// Bounds of one pack, and the folder of its temporary files.
struct Limits {
    temp_dir: PathBuf,
    bytes_max: u64,
    partition_bytes_max: u64,
    /// The height after the last block that may be taken.
    end: Height,
}

/// Blocks that are being spooled, in the order of the chain.
struct Spooling<'a, 's> {
    index: &'a Index,
    before: &'a Snapshot,
    spooled: &'s Spooled,
    stop: &'a AtomicBool,
    /// Those that no thread uses.
    writers: Mutex<Vec<SpooledWriter<'s>>>,
    /// The chain up to the last of the blocks.
    headers: Headers,
    /// First txnum after the blocks.
    end: TxNum,
    /// The rows of the blocks themselves.
    rows: RunSet<'a>,
    txids: SpooledTxids,
    spends: Vec<EarlierSpend>,
    mempool: Mempool,
    /// The scripts of transactions that left the mempool.
    touched: TouchedScripts,
    /// Parts of the pack that the log has a line of.
    logged: u64,
}

/// Blocks that were spooled, but for their records.
struct SpooledBlocks<'a> {
    headers: Headers,
    end: TxNum,
    rows: RunSet<'a>,
    txids: SpooledTxids,
    mempool: Mempool,
    touched: TouchedScripts,
}

/// A pack whose rows are written, and whose transactions have no numbers yet.
struct Unnumbered {
    pack: WrittenPack,
    headers: Headers,
    end: TxNum,
    txids: SpooledTxids,
    mempool: Mempool,
    touched: TouchedScripts,
}

impl Index {
    /// Returns how many packs were begun and published by way of records on disk since the index was opened.
    pub fn spool_counts(&self) -> SpoolCounts {
        self.spooling.lock().counts
    }

    /// True if the blocks after those below `known`, on the way to `best`, are appended by way of records on disk.
    pub(super) fn is_spooled(&self, known: u32, best: Height) -> bool {
        let is_behind =
            self.buried(best).0 >= known.saturating_add(self.merging.spooled_blocks.max(self.bulk_blocks()));
        // The height of a spent output tells whether it is one of the same blocks.
        is_behind && self.shared.storage.source.gives_undo_data() && self.spool_limits(known, best).is_some()
    }

    /// The height after the last block that a reorg will hardly replace.
    fn buried(&self, best: Height) -> Height {
        Height(best.0.saturating_add(1).saturating_sub(self.merging.tip_blocks))
    }

    /// The bounds of the next pack; `None` where the disk is too full, no build had bounds, or the next blocks are
    /// appended in other ways.
    fn spool_limits(&self, known: u32, best: Height) -> Option<Limits> {
        let bounds = self.merging.spooling;
        let (options, from) = {
            let state = self.spooling.lock();
            (state.options.clone()?, state.from)
        };
        let bounded = options.spool_bytes_max(1 << PARTITION_BITS, None);
        let free = existing(&options.temp_dir).and_then(disk_free_bytes).unwrap_or(u64::MAX) / FREE_DISK_PARTS;
        let bytes_max = bounds.bytes_max.min(bounded).min(free);
        let partition_bytes_max = options.memory_bytes / PARTITION_PARTS;
        let limits = Limits { temp_dir: options.temp_dir, bytes_max, partition_bytes_max, end: self.buried(best) };
        (known >= from && bytes_max >= bounds.bytes_min.min(bounded)).then_some(limits)
    }

    /// Appends buried blocks that follow those of `before`, on the way to `best`, as one pack. Returns `None` where too
    /// few can be read for one, or spooling them failed: they are appended in another way.
    ///
    /// # Errors
    /// Failures of the node or the source before a block was read; those of the store once the rows of the pack are
    /// written; [`Error::Cancelled`] if `stop` is set. No block is published then.
    pub(super) fn append_spooled(
        &self,
        before: &Arc<Snapshot>,
        node: &dyn Node,
        best: BlockId,
        manifest: &mut Manifest,
        free: Free,
        stop: &AtomicBool,
    ) -> Result<Option<Advanced>> {
        let known = before.headers.len();
        let Some(limits) = self.spool_limits(known, best.height) else { return Ok(None) };
        self.spooling.lock().counts.begun += 1;
        let written = match self.write_spooled(before, node, manifest, free, &limits, stop) {
            Err(error @ (Error::Cancelled | Error::Source(_))) => return Err(error),
            Err(error) => {
                self.give_up_spooling(known, &error);
                return Ok(None);
            }
            Ok(written) => written,
        };
        let Some(Unnumbered { pack, headers, end, txids, mempool, touched }) = written else { return Ok(None) };
        // Where the rest fails, the disk of the index does: it is not filled by the next attempts.
        let published = self.number_spooled(manifest, end, &txids).and_then(|()| self.publish_pack(pack));
        *manifest = published.inspect_err(|error| self.give_up_spooling(known, error))?;
        self.spooling.lock().counts.published += 1;
        let snapshot = Snapshot { mempool, ..self.snapshot_of(manifest, headers) };
        let (tip, blocks) = (snapshot.tip(), snapshot.headers.len() - known);
        tracing::info!(height = tip.height.0, hash = %tip.hash, blocks, kind = "large pack", "indexed blocks together");
        Ok(Some(Advanced { snapshot, touched, touched_known: false }))
    }

    /// Reads blocks, and writes the rows of their pack into no table yet. `None` where too few can be read.
    fn write_spooled(
        &self,
        before: &Arc<Snapshot>,
        node: &dyn Node,
        manifest: &Manifest,
        free: Free,
        limits: &Limits,
        stop: &AtomicBool,
    ) -> Result<Option<Unnumbered>> {
        let Limits { temp_dir, bytes_max, end, .. } = limits;
        let known = before.headers.len();
        std::fs::create_dir_all(temp_dir).map_err(Error::io("create", temp_dir))?;
        let mut spooled = Spooled::create(temp_dir, Height(known))?;
        let txids = SpooledTxids::create(self.shared.storage.txids.as_ref().map(|_| temp_dir.as_path()), REMEMBERED)?;
        let mut spooling = Spooling::new(self, before, manifest.next, &spooled, txids, stop);
        tracing::info!(from = known, end = end.0, bytes_max, "reading blocks of a large pack; the tip stays meanwhile");
        spooling.read(node, limits)?;
        let blocks = spooling.headers.len() - known;
        if blocks < self.bulk_blocks() {
            // A bound that is so low would end the next readings, too.
            let from = if spooling.is_full(limits) { end.0 } else { spooling.headers.len() };
            let mut state = self.spooling.lock();
            state.from = state.from.max(from);
            return Ok(None);
        }
        let SpooledBlocks { headers, end, rows, txids, mempool, touched } = spooling.finish()?;
        spooled.count_scripts()?;
        tracing::info!(blocks, txs = end.0 - manifest.next.0, "writing a large pack");
        let mut next = Manifest { next: end, ..manifest.clone() };
        next.extend(manifest.next, end);
        next.state = State::Ready(headers.tip().ok_or(Error::NoBlocks)?);
        let pack = self.write_pack(before, next, free, NewBlocks::Spooled(spooled), rows, stop)?;
        Ok(Some(Unnumbered { pack, headers, end, txids, mempool, touched }))
    }

    /// Reserves the numbers before `end`, durably, and writes the txids of those that were not.
    fn number_spooled(&self, manifest: &mut Manifest, end: TxNum, txids: &SpooledTxids) -> Result<()> {
        let first = manifest.next;
        self.reserve_until(manifest, end)?;
        if let Some(array) = &self.shared.storage.txids {
            txids.copy_to(&**array, first)?;
        }
        let last = txids.last();
        self.remember(last, TxNum(end.0 - last.len() as u64));
        Ok(())
    }

    /// Leaves the next blocks after those below `known` to memory, after a failure to spool them.
    fn give_up_spooling(&self, known: u32, error: &Error) {
        let mut state = self.spooling.lock();
        // The failure may be that of a block which was read.
        let from = known.saturating_add(self.merging.spooled_blocks.max(1)).max(state.reached);
        state.from = from;
        if std::mem::replace(&mut state.has_failed, true) {
            tracing::debug!(%error, from, "failed to append blocks by way of the disk again");
        } else {
            tracing::warn!(%error, from, "failed to append blocks by way of the disk; appending them within memory");
        }
    }
}

/// The folder, or the one that it is to be made in.
fn existing(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|folder| folder.exists())
}

impl<'a, 's> Spooling<'a, 's> {
    /// No blocks after `before`; `end` will be the number of the first transaction.
    fn new(
        index: &'a Index,
        before: &'a Snapshot,
        end: TxNum,
        spooled: &'s Spooled,
        txids: SpooledTxids,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            index,
            before,
            spooled,
            stop,
            writers: Mutex::default(),
            headers: Headers::clone(&before.headers),
            end,
            rows: RunSet::new(&*index.shared.storage.store),
            txids,
            spends: Vec::new(),
            mempool: before.mempool.clone(),
            touched: TouchedScripts::new(),
            logged: 0,
        }
    }

    /// Reads blocks until their records reach a bound, or one of them cannot be spooled.
    fn read(&mut self, node: &dyn Node, limits: &Limits) -> Result<()> {
        let end = limits.end.0;
        while self.headers.len() < end {
            let from = self.headers.len();
            let until = end.min(from.saturating_add(self.index.merging.spooling.asked_blocks.max(1)));
            let asked = node.block_hashes(Height(from)..Height(until));
            let Some(hashes) = self.or_end(asked.map_err(Error::Source))? else { return Ok(()) };
            for some in hashes.chunks(FETCHED_BLOCKS) {
                if !self.read_some(some)? || self.is_full(limits) {
                    return Ok(());
                }
            }
            if hashes.len() < (until - from) as usize {
                break;
            }
        }
        Ok(())
    }

    /// Ends the reading at a failure, with the blocks before it: the next step meets it again.
    ///
    /// # Errors
    /// The failure, if no block was read.
    fn or_end<T>(&self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Err(error) if self.headers.len() > self.before.headers.len() => {
                tracing::debug!(%error, "failed to read more blocks of a pack");
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Reads the next blocks. Returns false if one of them cannot be appended together with those before it.
    fn read_some(&mut self, hashes: &[BlockHash]) -> Result<bool> {
        self.look()?;
        let threads = self.index.shared.runtime.threads();
        let fetched = self.index.fetch_some(self.headers.tip(), hashes, threads);
        let Some(blocks) = self.or_end(fetched)? else { return Ok(false) };
        let alone = blocks.iter().position(NewBlock::is_alone).unwrap_or(blocks.len());
        self.index.spooling.lock().reached = blocks[..alone].last().map_or(0, |block| block.height.0 + 1);
        self.push(&blocks[..alone], threads)?;
        if let Some(block) = blocks.get(alone) {
            self.index.spooling.lock().from = block.height.0 + 1;
        }
        Ok(alone == blocks.len())
    }

    /// Ends the work once it is to stop.
    fn look(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Returns true once a bound is reached. Logs each tenth of the way to the first of them.
    fn is_full(&mut self, limits: &Limits) -> bool {
        let bytes = self.spooled.bytes() + self.txids.bytes();
        let (first, height) = (u64::from(self.before.headers.len()), u64::from(self.headers.len()));
        let of_blocks = (height - first) * LOGGED_PARTS / (u64::from(limits.end.0) - first).max(1);
        let parts = (bytes * LOGGED_PARTS / limits.bytes_max.max(1)).max(of_blocks);
        if parts > self.logged {
            self.logged = parts;
            tracing::info!(height, bytes, "read blocks of a large pack");
        }
        bytes >= limits.bytes_max || self.spooled.longest() >= limits.partition_bytes_max
    }

    fn push(&mut self, blocks: &[NewBlock], threads: usize) -> Result<()> {
        let mut numbered = Vec::with_capacity(blocks.len());
        for block in blocks {
            numbered.push((block, self.end));
            let row = block.header_row(self.end);
            self.headers.push(ChainBlock::of(&row));
            rows::of_block(&row, &block.touches.offsets)
                .try_for_each(|(table, key, value)| self.rows.push(table, &key, &value))?;
            block.confirm_in(&mut self.mempool, &mut self.touched);
            self.txids.push(&block.touches.txids)?;
            self.end = row.end_txnum();
        }
        let (writers, spooled, keyer) = (&self.writers, self.spooled, &self.index.shared.keyer);
        let spends = parallel::in_chunks(threads, &numbered, 1, |one| -> Result<_> {
            let mut writer = writers.lock().pop().unwrap_or_else(|| spooled.writer());
            let push = |(block, first): &(&NewBlock, TxNum)| writer.push(&block.touches, block.height, *first, keyer);
            let spends = one.iter().map(push).collect::<Result<Vec<_>>>()?;
            writers.lock().push(writer);
            Ok(spends)
        })?;
        self.spends.extend(spends.into_iter().flatten());
        if self.spends.len() >= self.index.merging.spooling.spends_held { self.number_spends() } else { Ok(()) }
    }

    /// Looks up what the blocks spend of earlier ones.
    fn number_spends(&mut self) -> Result<()> {
        let mut writer = self.writers.lock().pop().unwrap_or_else(|| self.spooled.writer());
        let spends = std::mem::take(&mut self.spends);
        writer.push_earlier(spends, self.index.merging.spooling.looked_up, |fundings| {
            self.look()?;
            self.index.find_fundings(self.before, fundings)
        })?;
        self.writers.lock().push(writer);
        Ok(())
    }

    /// Writes all that is held to the files.
    fn finish(mut self) -> Result<SpooledBlocks<'a>> {
        self.number_spends()?;
        self.writers.into_inner().into_iter().try_for_each(SpooledWriter::finish)?;
        let Self { headers, end, rows, txids, mempool, touched, .. } = self;
        Ok(SpooledBlocks { headers, end, rows, txids, mempool, touched })
    }
}
