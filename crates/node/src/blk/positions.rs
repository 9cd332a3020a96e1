//! Positions of blocks, in 16 bytes a block: 64 bits of its hash, its file, its offset.
//!
//! Two hashes may share the 64 bits; the reader verifies the hash of the header it finds.

use birdhouse_chain::source::FilePosition;
use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

/// A sorted list of positions.
#[derive(Debug, Default)]
pub(crate) struct Positions(Vec<(u64, u32, u32)>);

impl Positions {
    /// Adds blocks. Sorting costs one pass, because the old part is already sorted.
    pub(crate) fn extend(&mut self, blocks: impl Iterator<Item = (BlockHash, FilePosition)>) {
        self.0.extend(blocks.map(|(hash, at)| (prefix(hash), at.file, at.offset)));
        #[expect(clippy::stable_sort_primitive, reason = "the stable sort takes a sorted part as it is")]
        self.0.sort();
        self.0.dedup();
    }

    /// Returns the possible positions of the block with this hash, newest file first.
    pub(crate) fn of(&self, hash: BlockHash) -> Vec<FilePosition> {
        let prefix = prefix(hash);
        let from = self.0.partition_point(|entry| entry.0 < prefix);
        let same = self.0[from..].iter().take_while(|entry| entry.0 == prefix);
        let mut found: Vec<_> = same.map(|&(_, file, offset)| FilePosition { file, offset }).collect();
        found.reverse();
        found
    }
}

/// Returns the first bytes in serialised order; the last ones are zeros by the proof of work.
fn prefix(hash: BlockHash) -> u64 {
    let first = hash.as_byte_array().first_chunk().expect("a hash has 32 bytes");
    u64::from_be_bytes(*first)
}
