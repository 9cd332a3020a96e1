//! The cache of blocks and of pages of filters: what was read and proved lately, for lookups and scans of all segments
//! of a store.
//!
//! A cached block costs neither a system call nor a checksum. Merges pass the cache by.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// About how many bytes a block has, for the size of the cache's table.
const BLOCK_BYTES_USUAL: u64 = 4096;
/// Memory of an entry beside its bytes, an estimate.
const ENTRY_BYTES: u64 = 100;

/// The number of a file and the offset in it. Numbers are never reused.
pub(super) type BlockId = (u64, u64);

/// The entries of a block, or the lines of a page of a filter.
pub(super) type Proved = Arc<[u8]>;

/// Proved bytes, up to a number of them; those that were not used lately leave first.
#[derive(Debug)]
pub(super) struct BlockCache(Cache<BlockId, Proved, ByBytes>);

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<BlockId, Proved> for ByBytes {
    fn weight(&self, _: &BlockId, proved: &Proved) -> u64 {
        proved.len() as u64 + ENTRY_BYTES
    }
}

impl BlockCache {
    pub(super) fn new(bytes_max: u64) -> Self {
        let blocks = usize::try_from(bytes_max / BLOCK_BYTES_USUAL).unwrap_or(usize::MAX).max(1);
        Self(Cache::with_weighter(blocks, bytes_max, ByBytes))
    }

    pub(super) fn get(&self, id: BlockId) -> Option<Proved> {
        self.0.get(&id)
    }

    pub(super) fn insert(&self, id: BlockId, proved: Proved) {
        self.0.insert(id, proved);
    }

    /// Bytes of the cached blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}
