//! The cache of blocks: what was read and proved lately, for lookups and scans of all segments of a store.
//!
//! A cached block costs neither a system call nor a checksum. Merges pass the cache by.

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::block::Entries;

/// About how many bytes a block has, for the size of the cache's table.
const BLOCK_BYTES_USUAL: u64 = 4096;
/// Memory of an entry beside its bytes, an estimate.
const ENTRY_BYTES: u64 = 100;

/// Number of a file and offset in it. Numbers are never reused.
pub(super) type BlockId = (u64, u64);

/// Blocks, up to a number of bytes; those that were not used lately leave first.
#[derive(Debug)]
pub(super) struct BlockCache(Cache<BlockId, Entries, ByBytes>);

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<BlockId, Entries> for ByBytes {
    fn weight(&self, _: &BlockId, entries: &Entries) -> u64 {
        entries.bytes() as u64 + ENTRY_BYTES
    }
}

impl BlockCache {
    pub(super) fn new(bytes_max: u64) -> Self {
        let blocks = usize::try_from(bytes_max / BLOCK_BYTES_USUAL).unwrap_or(usize::MAX).max(1);
        Self(Cache::with_weighter(blocks, bytes_max, ByBytes))
    }

    pub(super) fn get(&self, id: BlockId) -> Option<Entries> {
        self.0.get(&id)
    }

    pub(super) fn insert(&self, id: BlockId, entries: Entries) {
        self.0.insert(id, entries);
    }

    /// Bytes of the cached blocks.
    pub(super) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}
