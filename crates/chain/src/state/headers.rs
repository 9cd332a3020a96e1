//! The header chain in memory.
//!
//! A chain is a list of shared chunks. The chain of the next tip shares all but its last chunk with this one, so a
//! snapshot keeps its own chain at the cost of a few pointers. The merkle levels inside a full chunk are computed once,
//! when a proof first needs them.
//!
//! Invariant: block `h` has index `h`, and its header names the block before it.

use std::sync::{Arc, OnceLock};

use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, CompactTarget, Target, Work};

use crate::block::merkle;
use crate::names::{Hash256, Height, TxNum, sha256d};
use crate::outside::{BlockId, FilePosition};
use crate::rows::HeaderRow;

/// Blocks in a chunk: a whole subtree of the merkle tree over block hashes.
const CHUNK: usize = 1 << CHUNK_LEVELS;
const CHUNK_LEVELS: usize = 11;

/// One block of the chain.
#[derive(Debug, Clone)]
pub(crate) struct ChainBlock {
    pub(super) hash: Hash256,
    pub(crate) header: [u8; 80],
    pub(crate) first_txnum: TxNum,
    pub(crate) tx_count: u32,
    pub(crate) bytes: u32,
    pub(crate) weight: u32,
    pub(crate) position: Option<FilePosition>,
}

impl ChainBlock {
    pub(crate) fn of(row: &HeaderRow) -> Self {
        Self {
            hash: sha256d(&row.header),
            header: row.header,
            first_txnum: row.first_txnum,
            tx_count: row.tx_count,
            bytes: row.bytes,
            weight: row.weight,
            position: row.position,
        }
    }

    pub(crate) fn block_hash(&self) -> BlockHash {
        BlockHash::from_byte_array(self.hash)
    }

    pub(super) fn end_txnum(&self) -> TxNum {
        TxNum(self.first_txnum.0 + u64::from(self.tx_count))
    }

    /// True if the txnum is one of the block's transactions.
    pub(crate) fn has(&self, txnum: TxNum) -> bool {
        (self.first_txnum..self.end_txnum()).contains(&txnum)
    }

    /// The time in the header, in seconds since 1970.
    pub(crate) fn time(&self) -> u32 {
        u32::from_le_bytes(self.header[68..72].try_into().expect("four bytes"))
    }

    fn previous(&self) -> &[u8] {
        &self.header[4..36]
    }

    fn work(&self) -> Work {
        let bits = u32::from_le_bytes(self.header[72..76].try_into().expect("four bytes"));
        Target::from_compact(CompactTarget::from_consensus(bits)).to_work()
    }
}

#[derive(Debug, Clone, Default)]
struct Chunk {
    blocks: Vec<ChainBlock>,
    /// Their first txnums. A search among these touches a few cache lines; among the blocks it touches one at every
    /// step.
    starts: Vec<TxNum>,
    /// Levels 0 to [`CHUNK_LEVELS`] over the block hashes, once the chunk is full.
    levels: OnceLock<Vec<Vec<Hash256>>>,
}

impl Chunk {
    fn new(blocks: Vec<ChainBlock>) -> Self {
        let starts = blocks.iter().map(|block| block.first_txnum).collect();
        Self { blocks, starts, levels: OnceLock::new() }
    }

    fn push(&mut self, block: ChainBlock) {
        self.starts.push(block.first_txnum);
        self.blocks.push(block);
    }

    fn hashes(&self) -> Vec<Hash256> {
        self.blocks.iter().map(|block| block.hash).collect()
    }

    fn levels(&self) -> &[Vec<Hash256>] {
        debug_assert_eq!(self.blocks.len(), CHUNK);
        self.levels.get_or_init(|| {
            let mut levels = vec![self.hashes()];
            for level in 0..CHUNK_LEVELS {
                levels.push(merkle::parents(&levels[level]));
            }
            levels
        })
    }
}

/// A chain of blocks from the genesis block on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Headers {
    chunks: Vec<Arc<Chunk>>,
    /// The first txnum of each chunk.
    starts: Vec<TxNum>,
}

impl Headers {
    /// The number of blocks.
    pub(crate) fn len(&self) -> u32 {
        let last = self.chunks.last().map_or(0, |chunk| chunk.blocks.len());
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        u32::try_from(full + last).expect("heights fit 32 bits")
    }

    pub(crate) fn get(&self, height: Height) -> Option<&ChainBlock> {
        let index = height.0 as usize;
        self.chunks.get(index / CHUNK)?.blocks.get(index % CHUNK)
    }

    pub(crate) fn tip(&self) -> Option<BlockId> {
        let height = Height(self.len().checked_sub(1)?);
        self.get(height).map(|block| BlockId { height, hash: block.block_hash() })
    }

    /// Work of the blocks from `height` on; zero above the tip.
    pub(crate) fn work_from(&self, height: Height) -> Work {
        let blocks = (height.0..self.len()).filter_map(|height| self.get(Height(height)));
        blocks.fold(Work::from_be_bytes([0; 32]), |sum, block| sum + block.work())
    }

    /// First txnum after the last block.
    pub(crate) fn end_txnum(&self) -> TxNum {
        self.chunks.last().and_then(|chunk| chunk.blocks.last()).map_or(TxNum(0), ChainBlock::end_txnum)
    }

    /// True if a block with this header may follow the last one.
    pub(crate) fn accepts(&self, header: &[u8; 80]) -> bool {
        match self.chunks.last().and_then(|chunk| chunk.blocks.last()) {
            Some(last) => header[4..36] == last.hash,
            None => header[4..36] == [0; 32],
        }
    }

    /// Appends the next block. It must be one that the chain [accepts](Self::accepts).
    pub(crate) fn push(&mut self, block: ChainBlock) {
        assert!(self.accepts(&block.header), "a block follows the one its header names");
        match self.chunks.last_mut() {
            Some(chunk) if chunk.blocks.len() < CHUNK => Arc::make_mut(chunk).push(block),
            _ => {
                self.starts.push(block.first_txnum);
                self.chunks.push(Arc::new(Chunk::new(vec![block])));
            }
        }
    }

    /// Removes all blocks but the first `len`.
    pub(crate) fn truncate(&mut self, len: u32) {
        let len = len as usize;
        self.chunks.truncate(len.div_ceil(CHUNK));
        self.starts.truncate(self.chunks.len());
        let partial = len % CHUNK;
        if partial > 0
            && let Some(last) = self.chunks.last_mut()
            && last.blocks.len() > partial
        {
            *last = Arc::new(Chunk::new(last.blocks[..partial].to_vec()));
        }
    }

    /// The block that holds a txnum.
    pub(crate) fn block_of(&self, txnum: TxNum) -> Option<(Height, &ChainBlock)> {
        let chunk = self.starts.partition_point(|start| *start <= txnum).checked_sub(1)?;
        let Chunk { blocks, starts, .. } = &*self.chunks[chunk];
        let index = starts.partition_point(|start| *start <= txnum).checked_sub(1)?;
        let height = Height(u32::try_from(chunk * CHUNK + index).expect("heights fit 32 bits"));
        let block = &blocks[index];
        block.has(txnum).then_some((height, block))
    }

    /// The block with the highest time that is no later than `time`; of several, the last.
    pub(crate) fn last_at_time(&self, time: u32) -> Option<(Height, &ChainBlock)> {
        let blocks = (0..self.len()).filter_map(|height| Some((Height(height), self.get(Height(height))?)));
        blocks.filter(|(_, block)| block.time() <= time).max_by_key(|(height, block)| (block.time(), *height))
    }

    /// Branch and root from the block hash at `height` over block hashes `0..=cp_height`
    /// (Electrum protocol, "`blockchain.block.header`").
    pub(crate) fn branch(&self, height: Height, cp_height: Height) -> Option<(Vec<Hash256>, Hash256)> {
        if height > cp_height || cp_height.0 >= self.len() {
            return None;
        }
        let leaves = cp_height.0 as usize + 1;
        let at = height.0 as usize;
        if leaves <= CHUNK {
            let hashes = &self.chunks[0].hashes()[..leaves];
            return Some(merkle::branch(hashes, at));
        }
        // Above the first levels whole chunks are leaves. The last, partial one is a subtree of its own; its odd ends
        // are paired with themselves up to the same level.
        let full = leaves / CHUNK;
        let mut tops: Vec<Hash256> = self.chunks[..full].iter().map(|chunk| chunk.levels()[CHUNK_LEVELS][0]).collect();
        let mut partial = Vec::new();
        if !leaves.is_multiple_of(CHUNK) {
            partial = partial_levels(self.chunks[full].hashes()[..leaves % CHUNK].to_vec());
            tops.push(partial[CHUNK_LEVELS][0]);
        }
        let levels = if at / CHUNK < full { self.chunks[at / CHUNK].levels() } else { &partial };
        let mut siblings: Vec<Hash256> =
            (0..CHUNK_LEVELS).map(|level| sibling(&levels[level], (at % CHUNK) >> level)).collect();
        let (upper, root) = merkle::branch(&tops, at / CHUNK);
        siblings.extend(upper);
        Some((siblings, root))
    }

    /// True if every header names the block before it.
    pub(crate) fn is_chained(&self) -> bool {
        let blocks = self.chunks.iter().flat_map(|chunk| &chunk.blocks);
        blocks.clone().zip(blocks.skip(1)).all(|(block, next)| next.previous() == block.hash)
    }
}

fn sibling(level: &[Hash256], at: usize) -> Hash256 {
    level[(at ^ 1).min(level.len() - 1)]
}

fn partial_levels(hashes: Vec<Hash256>) -> Vec<Vec<Hash256>> {
    let mut levels = vec![hashes];
    for level in 0..CHUNK_LEVELS {
        levels.push(merkle::parents(&levels[level]));
    }
    levels
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn chain(len: u32) -> Headers {
        let mut headers = Headers::default();
        let mut previous = [0; 32];
        for height in 0..len {
            let mut header = [0; 80];
            header[4..36].copy_from_slice(&previous);
            header[36..40].copy_from_slice(&height.to_le_bytes());
            let hash = sha256d(&header);
            let first_txnum = TxNum(u64::from(height) * 3 + u64::from(height > 2500) * 50);
            headers.push(ChainBlock {
                hash,
                header,
                first_txnum,
                tx_count: 3,
                bytes: 300,
                weight: 1200,
                position: None,
            });
            previous = hash;
        }
        headers
    }

    #[test]
    fn branches_over_chunks_equal_branches_over_the_plain_list() {
        let headers = chain(5000);
        let hashes: Vec<Hash256> = (0..5000).map(|h| headers.get(Height(h)).unwrap().hash).collect();
        for cp in [0, 1, 6, 2046, 2047, 2048, 2049, 4095, 4096, 4097, 4999] {
            for height in [0, 1, 5, 2047, 2048, 3000, 4095, 4096, 4997, 4998, 4999] {
                let expected = (height <= cp).then(|| merkle::branch(&hashes[..=cp as usize], height as usize));
                assert_eq!(headers.branch(Height(height), Height(cp)), expected, "{height} {cp}");
            }
        }
        assert_eq!(headers.branch(Height(0), Height(5000)), None);
    }

    #[test]
    fn a_txnum_is_found_in_its_block_and_gaps_are_nobodys() {
        let headers = chain(5000);
        for height in [0, 1, 2047, 2048, 2500, 2501, 4999] {
            let block = headers.get(Height(height)).unwrap();
            for txnum in block.first_txnum.0..block.end_txnum().0 {
                assert_eq!(headers.block_of(TxNum(txnum)).unwrap().0, Height(height));
            }
        }
        let gap = headers.get(Height(2500)).unwrap().end_txnum();
        assert!(headers.block_of(gap).is_none());
        assert!(headers.block_of(headers.end_txnum()).is_none());
    }

    #[test]
    fn truncating_and_appending_again_gives_the_same_chain_and_leaves_the_clone_alone() {
        let full = chain(5000);
        for keep in [0, 1, 2047, 2048, 2049, 4096, 4999, 5000] {
            let mut cut = full.clone();
            cut.truncate(keep);
            assert_eq!(cut.len(), keep);
            for height in keep..5000 {
                cut.push(full.get(Height(height)).unwrap().clone());
            }
            assert_eq!(cut.tip(), full.tip());
            assert!(cut.is_chained());
        }
        assert_eq!(full.len(), 5000);
    }
}
