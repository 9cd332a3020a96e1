//! Heights by block hash, for all snapshots of an index.
//!
//! A table of open addressing holds heights alone, 8 to 16 bytes a block. The header chain of a snapshot has the
//! hashes, and decides if a height that the table names is right. Entries of stale blocks therefore do no harm, and are
//! dropped when the table grows.
//!
//! Invariant: the table has an entry for every block of the chain that was installed last. A snapshot of a branch that
//! was left finds that branch's blocks until the table grows.

use parking_lot::RwLock;

use crate::names::{Hash256, Height};
use crate::state::headers::Headers;

/// A slot without an entry.
const EMPTY: u32 = u32::MAX;
/// Slots of the first table.
const SLOTS_MIN: usize = 1024;

/// Heights by block hash.
#[derive(Debug, Default)]
pub(crate) struct HeightIndex {
    slots: RwLock<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// A power of two, at most half of them used.
    heights: Vec<u32>,
    used: usize,
    /// The chain that was added last.
    covered: Headers,
}

impl HeightIndex {
    /// The height of a block of this chain.
    pub(crate) fn find(&self, headers: &Headers, hash: &Hash256) -> Option<Height> {
        self.slots.read().find(headers, hash)
    }

    /// Adds the blocks of a chain that the table lacks: from its tip down to the last one that it shares with the chain
    /// before. A block that is found proves nothing about those below it, for an entry of the chain before may have
    /// the same height.
    pub(crate) fn cover(&self, headers: &Headers) {
        let mut slots = self.slots.write();
        if slots.covered.tip() == headers.tip() {
            return;
        }
        for height in (0..headers.len()).rev() {
            let hash = headers.get(Height(height)).expect("below its length").hash;
            if slots.covered.get(Height(height)).is_some_and(|block| block.hash == hash) {
                break;
            }
            if slots.find(headers, &hash).is_some() {
                continue;
            }
            if (slots.used + 1) * 2 > slots.heights.len() {
                *slots = Slots::of(headers);
                return;
            }
            slots.insert(&hash, height);
        }
        slots.covered = headers.clone();
    }
}

impl Slots {
    /// A table of exactly this chain, with room to grow.
    fn of(headers: &Headers) -> Self {
        let slots = (headers.len() as usize * 2 + 2).next_power_of_two().max(SLOTS_MIN);
        let mut table = Self { heights: vec![EMPTY; slots], used: 0, covered: headers.clone() };
        for height in 0..headers.len() {
            table.insert(&headers.get(Height(height)).expect("below its length").hash, height);
        }
        table
    }

    fn find(&self, headers: &Headers, hash: &Hash256) -> Option<Height> {
        let is_there = |height: &Height| headers.get(*height).is_some_and(|block| block.hash == *hash);
        self.probe(hash).map(|slot| self.heights[slot]).take_while(|height| *height != EMPTY).map(Height).find(is_there)
    }

    fn insert(&mut self, hash: &Hash256, height: u32) {
        let free = self.probe(hash).find(|slot| self.heights[*slot] == EMPTY);
        self.heights[free.expect("half of the slots are free")] = height;
        self.used += 1;
    }

    /// The slots of a hash, in the order in which they are used. The zeros of a block hash are its last bytes.
    fn probe(&self, hash: &Hash256) -> impl Iterator<Item = usize> {
        let slots = self.heights.len();
        let start = u32::from_le_bytes(hash[..4].try_into().expect("four bytes")) as usize;
        (0..slots).map(move |step| (start + step) & (slots - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::sha256d;
    use crate::state::headers::ChainBlock;

    fn extend(headers: &mut Headers, blocks: u32, salt: u32) {
        for _ in 0..blocks {
            let mut header = [0; 80];
            if let Some(tip) = headers.tip() {
                header[4..36].copy_from_slice(&headers.get(tip.height).expect("the tip").hash);
            }
            header[36..40].copy_from_slice(&salt.to_le_bytes());
            let first_txnum = headers.end_txnum();
            let hash = sha256d(&header);
            headers.push(ChainBlock {
                hash,
                header,
                first_txnum,
                tx_count: 1,
                bytes: 300,
                weight: 1200,
                position: None,
            });
        }
    }

    fn assert_found(index: &HeightIndex, headers: &Headers) {
        for height in (0..headers.len()).map(Height) {
            assert_eq!(index.find(headers, &headers.get(height).expect("a block").hash), Some(height));
        }
    }

    #[test]
    fn blocks_of_a_chain_are_found_and_those_of_another_branch_are_not() {
        let (index, mut first) = (HeightIndex::default(), Headers::default());
        assert_eq!(index.find(&first, &[1; 32]), None);
        extend(&mut first, 5000, 1);
        index.cover(&first);
        assert_found(&index, &first);
        let mut second = first.clone();
        second.truncate(4000);
        extend(&mut second, 3000, 2);
        index.cover(&second);
        assert_found(&index, &second);
        assert_found(&index, &first);
        let stale = first.get(Height(4500)).expect("a block").hash;
        assert_eq!(index.find(&second, &stale), None);
    }

    #[test]
    fn every_block_of_a_branch_is_found_whatever_heights_the_branch_before_had() {
        let (index, mut chain) = (HeightIndex::default(), Headers::default());
        extend(&mut chain, 300, 1);
        for salt in 2..400 {
            index.cover(&chain);
            assert_found(&index, &chain);
            chain.truncate(280);
            extend(&mut chain, 20, salt);
        }
    }

    #[test]
    fn a_branch_that_comes_back_after_the_table_grew_is_found() {
        let (index, mut first) = (HeightIndex::default(), Headers::default());
        extend(&mut first, 400, 1);
        index.cover(&first);
        let mut second = first.clone();
        second.truncate(100);
        extend(&mut second, 2000, 2);
        index.cover(&second);
        index.cover(&first);
        assert_found(&index, &first);
        assert_found(&index, &second);
    }
}
