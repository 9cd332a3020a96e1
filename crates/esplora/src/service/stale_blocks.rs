//! Blocks that a reorg took out of the chain since this server runs, the newest of them, with their transactions: what
//! pages tell somebody whose confirmed payment is unconfirmed again.

use std::collections::VecDeque;
use std::sync::Arc;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, Index, Snapshot};
use birdhouse_net::offload;
use bitcoin::{BlockHash, Txid};
use parking_lot::Mutex;

use crate::clock;
use crate::limits::{STALE_BLOCKS, STALE_TXIDS};

/// A block that left the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleBlock {
    /// Its height and hash.
    pub block: BlockId,
    /// The time at which this server noticed, in seconds since 1970.
    pub since: u64,
    /// Its transactions; none if they are too many.
    pub(crate) txids: Vec<Txid>,
}

/// The newest blocks that left the chain.
#[derive(Debug, Default)]
pub(crate) struct StaleBlocks {
    /// The last that left comes first.
    blocks: Mutex<VecDeque<StaleBlock>>,
}

impl StaleBlocks {
    /// Follows the index for as long as it lives.
    pub(crate) async fn follow(self: Arc<Self>, index: Arc<Index>) {
        let mut updates = index.updates();
        let mut known = index.snapshot().ok();
        while let Some(update) = index.next_update(&mut updates).await {
            let next = Arc::clone(&update.snapshot);
            if let Some(before) = known.replace(Arc::clone(&next)).filter(|before| is_left(before, &next)) {
                offload(|| self.compare(&before, &next, clock::now()));
            }
        }
    }

    fn compare(&self, before: &Snapshot, now: &Snapshot, since: u64) {
        let heights = (0..=before.tip().height.0).rev().map(Height);
        let left = heights.take_while(|height| before.block_hash(*height) != now.block_hash(*height));
        let mut left: Vec<Height> = left.take(STALE_BLOCKS).collect();
        left.reverse();
        for height in left {
            let Some(hash) = before.block_hash(height) else { continue };
            let txids = before.txids_of_block(height).ok().flatten().unwrap_or_default();
            self.add(StaleBlock { block: BlockId { height, hash }, since, txids });
        }
    }

    fn add(&self, block: StaleBlock) {
        let mut blocks = self.blocks.lock();
        blocks.retain(|known| known.block != block.block);
        blocks.push_front(block);
        blocks.truncate(STALE_BLOCKS);
        let mut left = STALE_TXIDS;
        for block in &mut *blocks {
            match left.checked_sub(block.txids.len()) {
                Some(rest) => left = rest,
                None => block.txids = Vec::new(),
            }
        }
    }

    /// Returns the last block with a transaction that left the chain.
    pub(crate) fn with_transaction(&self, txid: &Txid) -> Option<StaleBlock> {
        self.blocks.lock().iter().find(|known| known.txids.contains(txid)).cloned()
    }

    /// Returns a block that left the chain.
    pub(crate) fn get(&self, hash: &BlockHash) -> Option<StaleBlock> {
        self.blocks.lock().iter().find(|known| known.block.hash == *hash).cloned()
    }
}

/// True if the chain of `now` lacks the tip of `before`.
fn is_left(before: &Snapshot, now: &Snapshot) -> bool {
    now.block_hash(before.tip().height) != Some(before.tip().hash)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;

    fn stale(number: u8, txids: usize) -> StaleBlock {
        let block = BlockId { height: Height(number.into()), hash: BlockHash::from_byte_array([number; 32]) };
        let txid = |_| Txid::from_byte_array([number; 32]);
        StaleBlock { block, since: 7, txids: (0..txids).map(txid).collect() }
    }

    #[test]
    fn the_oldest_blocks_and_the_transactions_of_older_ones_are_forgotten() {
        let known = StaleBlocks::default();
        known.add(stale(1, STALE_TXIDS));
        known.add(stale(2, 1));
        let at = |number: u8| known.with_transaction(&Txid::from_byte_array([number; 32])).map(|found| found.block);
        assert_eq!((at(1), at(2)), (None, Some(stale(2, 1).block)));
        assert_eq!(known.get(&stale(1, 0).block.hash), Some(stale(1, 0)));
        for number in 3..=u8::try_from(STALE_BLOCKS + 2).expect("few") {
            known.add(stale(number, 0));
        }
        assert_eq!((known.get(&stale(2, 0).block.hash), known.blocks.lock().len()), (None, STALE_BLOCKS));
    }
}
