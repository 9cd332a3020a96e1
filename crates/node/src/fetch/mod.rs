//! Blocks that a pruned node has removed, brought back from its peers one by one.
//!
//! The node is asked to get a block (`getblockfrompeer`), and then for the block itself. It may lose the block again,
//! so each transaction that was read is kept in a cache of our own. Nobody but a peer learns of it, and a peer learns
//! no more than the block.
//!
//! Source: Core's `getblockfrompeer` in `rpc/blockchain.cpp`, `FetchBlock` in `net_processing.cpp`.

mod asking;
mod blocks;
mod counts;
mod parts;
mod peers;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use birdhouse_chain::Height;
use birdhouse_chain::source::{
    BlockMeta, BlockPart, BlockSource, FetchedBlock, FilePosition, SourceErrorKind, SourceResult, Unit, Visit,
};
use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::error::transient;
use crate::remote::part_of;
use crate::rpc::Rpc;

use blocks::Blocks;
pub use counts::{FetchCounters, FetchCounts};
use parts::{LazyParts, Parts};
use peers::Peers;
pub use peers::full_peers;

/// Bytes that stay free on the node's disk: a block that is brought back is written there, and nothing but pruning
/// removes it again. Strangers may ask for every old block, one after the other.
pub const FETCH_FLOOR_BYTES: u64 = 2_000_000_000;

/// A source of blocks that brings back those that the node has removed.
pub struct Fetching {
    source: Box<dyn BlockSource>,
    peers: Peers,
    free_bytes: FreeBytes,
    blocks: Mutex<Blocks>,
    /// Opened when the node lacks a block for the first time.
    parts: LazyParts,
    flights: Mutex<HashMap<BlockHash, Arc<Flight>>>,
    counters: Arc<FetchCounters>,
}

/// Returns the bytes that are free on the node's disk; `None` where this is unknown.
type FreeBytes = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// A block under way: its outcome, once it has one. All who want it wait for the lock.
type Flight = Mutex<Option<SourceResult<()>>>;

impl Fetching {
    /// Returns a source that asks the peers of the node behind `rpc` for what `source` lacks, and keeps transactions in
    /// `folder`, which is made once there are some.
    pub fn new(source: Box<dyn BlockSource>, rpc: Rpc, folder: &Path) -> Self {
        Self {
            source,
            peers: Peers::new(rpc),
            free_bytes: Box::new(|| None),
            blocks: Mutex::default(),
            parts: LazyParts::new(folder),
            flights: Mutex::default(),
            counters: Arc::default(),
        }
    }

    /// Brings blocks back only while the node's disk has [`FETCH_FLOOR_BYTES`] free, by what this returns; `None` where
    /// it is unknown.
    #[must_use]
    pub fn with_free_bytes(self, free_bytes: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self { free_bytes: Box::new(free_bytes), ..self }
    }

    /// Returns the counters of what is fetched.
    pub fn counters(&self) -> Arc<FetchCounters> {
        Arc::clone(&self.counters)
    }

    /// Uses the parts on the disk; `None` if they cannot be opened.
    fn with_parts<R>(&self, act: impl FnOnce(&mut Parts) -> R) -> Option<R> {
        self.parts.with(Instant::now(), |parts| {
            let done = act(parts);
            self.counters.set_kept_bytes(parts.bytes());
            done
        })
    }

    /// Returns a part of a block that was brought back; one that is read from a whole block is kept.
    fn kept(&self, part: BlockPart) -> Option<Vec<u8>> {
        if let Some(bytes) = self.with_parts(|parts| parts.get(part)).flatten() {
            return Some(bytes);
        }
        let block = self.blocks.lock().get(part.block)?;
        let bytes = part_of(part.block, &block, part.offset, part.len).ok()?;
        self.with_parts(|parts| parts.keep(part, &bytes));
        Some(bytes)
    }

    /// Brings a block into memory. Those who want it meanwhile wait for the same outcome.
    fn bring_once(&self, hash: BlockHash) -> SourceResult<()> {
        let flight = Arc::clone(self.flights.lock().entry(hash).or_default());
        let mut outcome = flight.lock();
        if let Some(outcome) = &*outcome {
            return outcome.clone();
        }
        let brought = if self.blocks.lock().has(hash) { Ok(()) } else { self.bring(hash) };
        *outcome = Some(brought.clone());
        // Whoever comes later begins anew: the block may have left memory, or a peer may have come.
        self.flights.lock().remove(&hash);
        brought
    }

    fn bring(&self, hash: BlockHash) -> SourceResult<()> {
        let block = self.check_disk().and_then(|()| self.peers.bring(hash));
        let block = block.inspect_err(|_| self.counters.count_failure())?;
        self.counters.count_block();
        self.blocks.lock().keep(hash, block.into());
        Ok(())
    }
}

impl Fetching {
    fn check_disk(&self) -> SourceResult<()> {
        match (self.free_bytes)() {
            Some(free) if free < FETCH_FLOOR_BYTES => Err(transient(format!(
                "old blocks are fetched only while the node's disk has {} MB free, and it has {} MB; try again later",
                FETCH_FLOOR_BYTES / 1_000_000,
                free / 1_000_000
            ))),
            _ => Ok(()),
        }
    }
}

impl BlockSource for Fetching {
    fn describe(&self) -> String {
        self.source.describe()
    }

    fn gives_undo_data(&self) -> bool {
        self.source.gives_undo_data()
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        self.source.chain(tip)
    }

    fn units(&self, chain: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        self.source.units(chain, heights)
    }

    fn read_unit(&self, chain: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        self.source.read_unit(chain, unit, visit)
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        self.source.block(hash)
    }

    fn close_deleted(&self) {
        self.source.close_deleted();
    }

    fn first_file(&self) -> SourceResult<u32> {
        self.source.first_file()
    }

    fn peek(&self, position: FilePosition, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        self.source.peek(position, offset, len)
    }

    fn read_part(
        &self,
        hash: BlockHash,
        position: Option<FilePosition>,
        offset: u32,
        len: u32,
    ) -> SourceResult<Vec<u8>> {
        match self.source.read_part(hash, position, offset, len) {
            Err(error) if error.kind == SourceErrorKind::NotFound => {
                self.kept(BlockPart { block: hash, offset, len }).ok_or(error)
            }
            part => part,
        }
    }

    fn fetches_removed(&self) -> bool {
        true
    }

    fn fetch_removed(&self, part: BlockPart) -> SourceResult<()> {
        if self.kept(part).is_some() {
            return Ok(());
        }
        self.bring_once(part.block)?;
        // It is kept before the block leaves memory.
        let kept = self.kept(part).map(drop);
        kept.ok_or_else(|| transient(format!("block {} was fetched, and left memory too early", part.block)))
    }
}
