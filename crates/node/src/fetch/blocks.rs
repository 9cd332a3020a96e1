//! Whole blocks in memory, of which further transactions may be asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use bitcoin::BlockHash;

/// Bytes of blocks that are kept, and one more block.
const BYTES_MAX: usize = 32 << 20;

/// The blocks that were brought last.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The newest last.
    kept: VecDeque<(BlockHash, Arc<[u8]>)>,
    bytes: usize,
}

impl Blocks {
    pub(super) fn has(&self, hash: BlockHash) -> bool {
        self.kept.iter().any(|(kept, _)| *kept == hash)
    }

    pub(super) fn get(&self, hash: BlockHash) -> Option<Arc<[u8]>> {
        self.kept.iter().find(|(kept, _)| *kept == hash).map(|(_, block)| Arc::clone(block))
    }

    pub(super) fn keep(&mut self, hash: BlockHash, block: Arc<[u8]>) {
        if self.has(hash) {
            return;
        }
        self.bytes += block.len();
        self.kept.push_back((hash, block));
        while self.bytes > BYTES_MAX && self.kept.len() > 1 {
            self.bytes -= self.kept.pop_front().map_or(0, |(_, oldest)| oldest.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;

    #[test]
    fn the_oldest_blocks_go_and_the_last_one_stays() {
        let (hash, mut blocks) = (|number: u8| BlockHash::from_byte_array([number; 32]), Blocks::default());
        for number in 1..=3 {
            blocks.keep(hash(number), vec![number; BYTES_MAX / 2].into());
        }
        assert_eq!([1, 2, 3].map(|number| blocks.has(hash(number))), [false, true, true]);
        blocks.keep(hash(4), vec![4; BYTES_MAX + 1].into());
        assert_eq!([2, 3, 4].map(|number| blocks.has(hash(number))), [false, false, true]);
        assert_eq!(blocks.get(hash(4)).map(|block| block.len()), Some(BYTES_MAX + 1));
    }
}
