//! Catching up: many buried blocks become one pack.
//!
//! A follower that is far behind would write each row several times, to the log, a delta and packs, and look up funding
//! transactions in no order. Here the records of new blocks are sorted in memory, as the first build does on disk, and
//! merged with the deltas before them. The last [`tip_blocks`](crate::MergeOptions::tip_blocks) follow one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bitcoin::BlockHash;

use crate::adopt::take;
use crate::build::run_set::RunSet;
use crate::error::{Error, Result};
use crate::fresh::{BlockRecords, Gathered};
use crate::fundings;
use crate::headers::{ChainBlock, Headers};
use crate::index::Index;
use crate::ingest::{Advanced, FETCHED_BLOCKS, NewBlock};
use crate::manifest::{Manifest, State};
use crate::mempool::Mempool;
use crate::merging::Growth;
use crate::parallel;
use crate::reader::Storage;
use crate::rows;
use crate::rows::pack::Delta;
use crate::snapshot::Snapshot;
use crate::source::{BlockId, Node};
use crate::touched::TouchedScripts;
use crate::txid_cache::Key;
use crate::txnum::{Height, TxNum};

/// The most blocks whose hashes are asked for. Of full blocks, about two hundred fill a pack.
const BLOCKS_MAX: u32 = 1024;
/// Of the appended transactions, those that are remembered for the next blocks.
const REMEMBERED: usize = 1 << 17;

/// Blocks that were read, and what they change besides rows of scripts.
struct Read<'a> {
    gathered: Gathered,
    /// The chain up to the last of them.
    headers: Headers,
    /// The rows of blocks.
    rows: RunSet<'a>,
    mempool: Mempool,
    /// The scripts of transactions that left the mempool.
    touched: TouchedScripts,
}

/// Free slots.
#[derive(Clone, Copy)]
struct Free {
    pack: u8,
    delta: u8,
}

impl Index {
    /// Appends blocks that follow those of `before`, on the way to `best`, as one pack. Returns `None` if the index is
    /// not far behind, or if they must be appended one by one: a merge runs, a reorg reached into a pack, there is no
    /// free slot, or one of the first blocks has a sibling, so that its undo data needs a proof.
    ///
    /// # Errors
    /// Failures of the node, the source or the store; [`Error::Cancelled`] if `stop` is set. Nothing is published then.
    pub(crate) fn append_bulk(
        &self,
        before: &Arc<Snapshot>,
        node: &dyn Node,
        best: BlockId,
        stop: &AtomicBool,
    ) -> Result<Option<Advanced>> {
        let known = before.headers.len();
        let Some(end) = self.bulk_end(known, best.height) else { return Ok(None) };
        self.empty_unread()?;
        let is_merging = self.merger.lock().running.is_some();
        let mut manifest = self.writer.lock();
        let free = self.free_slots(&manifest).filter(|_| !is_merging && manifest.stale.is_empty());
        let Some(free) = free else { return Ok(None) };
        let hashes = node.block_hashes(Height(known)..Height(end))?;
        let read = self.read(before, &hashes, manifest.next, stop)?;
        let blocks = read.headers.len() - known;
        if blocks < self.bulk_blocks() {
            return Ok(None);
        }
        let (snapshot, touched) = self.write_pack(before, &mut manifest, free, read, stop)?;
        let tip = snapshot.tip();
        tracing::info!(height = tip.height.0, hash = %tip.hash, blocks, "indexed to a new tip as a pack");
        Ok(Some(Advanced { snapshot, touched, touched_known: false }))
    }

    /// Returns the height after the last block that a bulk append may take, of a chain with `known` blocks here and the
    /// tip `best`; `None` if the index is not far behind.
    fn bulk_end(&self, known: u32, best: Height) -> Option<u32> {
        let buried = (best.0.saturating_add(1)).saturating_sub(self.merging.tip_blocks);
        let is_far = buried >= known.saturating_add(self.bulk_blocks());
        is_far.then(|| buried.min(known.saturating_add(BLOCKS_MAX)))
    }

    fn bulk_blocks(&self) -> u32 {
        self.merging.bulk_blocks.max(1)
    }

    fn free_slots(&self, manifest: &Manifest) -> Option<Free> {
        let slots = self.slots.lock();
        Some(Free { pack: slots.free_pack(manifest)?, delta: slots.free_delta(manifest)? })
    }

    /// Reads blocks until the records fill their bound, `hashes` end, or a block has a sibling.
    fn read(&self, before: &Snapshot, hashes: &[BlockHash], first: TxNum, stop: &AtomicBool) -> Result<Read<'_>> {
        let mut read = Read {
            gathered: Gathered::new(first),
            headers: Headers::clone(&before.headers),
            rows: RunSet::new(&*self.shared.storage.store),
            mempool: before.mempool.clone(),
            touched: TouchedScripts::new(),
        };
        for some in hashes.chunks(FETCHED_BLOCKS) {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let blocks = self.fetch_some(read.headers.tip(), some)?;
            let alone = blocks.iter().position(|block| block.has_sibling).unwrap_or(blocks.len());
            self.gather(&mut read, &blocks[..alone])?;
            if alone < blocks.len() || read.gathered.is_full() {
                break;
            }
        }
        Ok(read)
    }

    fn gather(&self, read: &mut Read<'_>, blocks: &[NewBlock]) -> Result<()> {
        let mut end = read.gathered.end();
        let numbered = blocks.iter().map(|block| {
            let first = end;
            end.0 += block.touches.txids.len() as u64;
            (block, first)
        });
        let numbered: Vec<(&NewBlock, TxNum)> = numbered.collect();
        let records = parallel::in_chunks(self.shared.runtime.threads(), &numbered, 1, |one| {
            let records = |(block, first): &(&NewBlock, TxNum)| {
                BlockRecords::of(&block.touches, block.height, *first, &self.shared.keyer)
            };
            one.iter().map(records).collect()
        })?;
        for ((block, first), records) in numbered.into_iter().zip(records) {
            let row = block.header_row(first);
            for (table, key, value) in rows::of_block(&row, &block.touches.offsets) {
                read.rows.push(table, &key, &value)?;
            }
            read.headers.push(ChainBlock::of(&row));
            block.confirm_in(&mut read.mempool, &mut read.touched);
            read.gathered.push(&block.touches, records);
        }
        Ok(())
    }

    /// Reserves the numbers of the transactions that were read, writes their pack, and publishes it. Returns the new
    /// tip, and the scripts of transactions that left the mempool.
    fn write_pack(
        &self,
        before: &Arc<Snapshot>,
        manifest: &mut Manifest,
        free: Free,
        read: Read<'_>,
        stop: &AtomicBool,
    ) -> Result<(Snapshot, TouchedScripts)> {
        let Read { gathered, headers, rows, mempool, touched } = read;
        let Storage { store, txids, .. } = &*self.shared.storage;
        let (first, end) = (manifest.next, gathered.end());
        let mut next = Manifest { next: end, ..manifest.clone() };
        store.publish(&next.encode())?;
        manifest.next = end;
        if let Some(array) = txids {
            array.write(first.0, gathered.txids.as_flattened())?;
        }
        self.remember(&gathered.txids, first);
        let fresh = gathered.number(&headers, next.key_length, |fundings| fundings::find(before, fundings))?;
        // The blocks end the last delta, and all that is unpacked is buried.
        next.deltas.push(Delta { slot: free.delta, start: end });
        let plan = self.plan(&next, end, Growth::BEHIND).expect("nothing is stale, and a delta is buried");
        let merged = self.merge_of(Arc::clone(before), &next, plan, free.pack, Some(fresh)).run(stop)?;
        let runs = merged.runs.into_iter().chain(rows.finish()?).collect();
        next.extend(first, end);
        let taken = take(&mut next, merged.plan, merged.pack);
        next.state = State::Ready(headers.tip().ok_or(Error::NoBlocks)?);
        self.load_and_publish(runs, &next, merged.pack)?;
        self.retire(taken, merged.pack, merged.filters);
        *manifest = next;
        Ok((Snapshot { mempool, ..self.snapshot_of(manifest, headers) }, touched))
    }

    fn remember(&self, txids: &[[u8; 32]], first: TxNum) {
        let mut recent = self.recent_txids.lock();
        for (txid, txnum) in txids.iter().zip(first.0..).skip(txids.len().saturating_sub(REMEMBERED)) {
            recent.insert(Key(*txid), TxNum(txnum));
        }
    }
}
