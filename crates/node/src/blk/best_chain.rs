//! Choice of the chain among the blocks in the files, by headers alone (pure).

use std::cmp::Reverse;

use bitcoin::BlockHash;
use bitcoin::hashes::Hash;

use super::scan::{FoundBlock, proven_target};

/// Blocks found in the files, sorted by hash. The copies of a block that was written twice are neighbours.
#[derive(Debug)]
pub(crate) struct FoundBlocks(Vec<FoundBlock>);

/// The gap in the chain to a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingBlock {
    /// The missing block.
    pub(crate) hash: BlockHash,
    /// Number of blocks found above it.
    pub(crate) found_above: usize,
}

impl FoundBlocks {
    pub(crate) fn new(mut blocks: Vec<FoundBlock>) -> Self {
        blocks.sort_unstable_by_key(|b| (b.head.hash, b.file, b.offset));
        Self(blocks)
    }

    /// Returns every copy of a block.
    pub(crate) fn copies(&self, hash: BlockHash) -> &[FoundBlock] {
        let from = self.0.partition_point(|b| b.head.hash < hash);
        let len = self.0[from..].iter().take_while(|b| b.head.hash == hash).count();
        &self.0[from..from + len]
    }

    /// Returns the hashes of the chain that ends in `tip`, from the block without a previous one on.
    pub(crate) fn chain_to(&self, tip: BlockHash) -> Result<Vec<BlockHash>, MissingBlock> {
        let mut chain = Vec::new();
        let mut hash = tip;
        while hash != BlockHash::all_zeros() {
            let Some(block) = self.copies(hash).first() else {
                return Err(MissingBlock { hash, found_above: chain.len() });
            };
            chain.push(hash);
            hash = block.head.previous();
        }
        chain.reverse();
        Ok(chain)
    }

    /// Returns the blocks whose ancestors all exist, by descending work of their chain. Equals are in the order of
    /// storing, because Core prefers the block it saw first.
    pub(crate) fn candidates(&self) -> Vec<BlockHash> {
        let mut work: Vec<ChainWork> = vec![ChainWork::Unknown; self.0.len()];
        for at in 0..self.0.len() {
            self.fill_work(&mut work, at);
        }
        let mut ranked: Vec<(Reverse<u128>, u32, u32, BlockHash)> = self
            .0
            .iter()
            .zip(&work)
            .filter_map(|(b, work)| match work {
                ChainWork::Sum(sum) => Some((Reverse(*sum), b.file, b.offset, b.head.hash)),
                _ => None,
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(.., hash)| hash).collect()
    }

    /// Computes the work of a block's chain: down to the first known ancestor, then up again.
    fn fill_work(&self, work: &mut [ChainWork], mut at: usize) {
        let mut path = Vec::new();
        let mut sum = loop {
            match work[at] {
                ChainWork::Unknown => path.push(at),
                known => break known,
            }
            let previous = self.0[at].head.previous();
            if previous == BlockHash::all_zeros() {
                break ChainWork::Sum(0);
            }
            let parent = self.0.partition_point(|b| b.head.hash < previous);
            if self.0.get(parent).is_none_or(|b| b.head.hash != previous) {
                break ChainWork::Orphan;
            }
            at = parent;
        };
        for at in path.into_iter().rev() {
            sum = sum.add(own_work(&self.0[at]));
            work[at] = sum;
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum ChainWork {
    Unknown,
    Orphan,
    Sum(u128),
}

impl ChainWork {
    fn add(self, own: u128) -> Self {
        match self {
            Self::Sum(sum) => Self::Sum(sum.saturating_add(own)),
            other => other,
        }
    }
}

/// Returns the work of a header, capped at 128 bits (the whole main chain has used 2^96).
fn own_work(block: &FoundBlock) -> u128 {
    let Some(target) = proven_target(&block.head.header, block.head.hash) else { return 0 };
    let bytes = target.to_work().to_be_bytes();
    let (high, low) = bytes.split_at(16);
    if high.iter().any(|byte| *byte != 0) {
        return u128::MAX;
    }
    low.iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}
