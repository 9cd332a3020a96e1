//! Blocks that are read to be appended together.

use std::sync::atomic::{AtomicBool, Ordering};

use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Txid};

use crate::build::run_set::RunSet;
use crate::error::{Error, Result};
use crate::fresh::{BlockRecords, Gathered};
use crate::headers::{ChainBlock, Headers};
use crate::index::Index;
use crate::ingest::NewBlock;
use crate::mempool::Mempool;
use crate::parallel;
use crate::rows;
use crate::rows::header::HeaderRow;
use crate::scripthash::ScriptHash;
use crate::touched::TouchedScripts;
use crate::txnum::TxNum;

/// Blocks that are fetched and parsed at once. Threads begin anew for each such list, with buffers of their own.
const FETCHED_BLOCKS: usize = 32;

/// Bounds of one reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadBounds {
    /// Transactions after which no more blocks are fetched.
    pub(crate) txs_max: u64,
    /// True if the scripts that the blocks touch are wanted.
    pub(crate) names_scripts: bool,
    pub(crate) threads: usize,
}

/// Blocks that were read, and the records of their scripts.
pub(crate) struct BulkRead {
    pub(crate) gathered: Gathered,
    /// The chain up to the last of the blocks.
    pub(crate) headers: Headers,
    /// Header row and transaction offsets of each block.
    blocks: Vec<(HeaderRow, Vec<u32>)>,
    /// The scripts that the blocks touch, if wanted.
    pub(crate) touched: TouchedScripts,
}

impl std::fmt::Debug for BulkRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkRead").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl BulkRead {
    /// Number of blocks.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("heights fit 32 bits")
    }

    /// True if these are the first of the blocks with `hashes`, which follow those of `before` and get txnums from
    /// `first` on.
    pub(crate) fn begins(&self, before: &Headers, hashes: &[BlockHash], first: TxNum) -> bool {
        let last = self.blocks.len().checked_sub(1).and_then(|last| hashes.get(last));
        let follows = self.headers.len() - self.len() == before.len() && self.gathered.first() == first;
        follows && last.is_some() && last.copied() == self.headers.tip().map(|tip| tip.hash)
    }

    /// Adds the rows of the blocks to `runs`.
    pub(crate) fn write_blocks(&self, runs: &mut RunSet<'_>) -> Result<()> {
        for (row, offsets) in &self.blocks {
            rows::of_block(row, offsets).try_for_each(|(table, key, value)| runs.push(table, &key, &value))?;
        }
        Ok(())
    }

    /// Removes from a mempool what the blocks confirm, and what conflicts with it. Adds the scripts of both.
    pub(crate) fn confirm_in(&mut self, mempool: &mut Mempool) {
        let txids = self.gathered.txids.iter().map(|txid| Txid::from_byte_array(*txid));
        mempool.confirm(txids, self.gathered.spent(), &mut self.touched);
    }
}

impl Index {
    /// Reads blocks that follow `before` until the records fill their bound, `hashes` end, or a block has a sibling. The
    /// first transaction gets the number `first`.
    ///
    /// # Errors
    /// Failures of the source; [`Error::Cancelled`] once `stop` is set.
    pub(crate) fn read_bulk(
        &self,
        before: &Headers,
        hashes: &[BlockHash],
        first: TxNum,
        bounds: ReadBounds,
        stop: &AtomicBool,
    ) -> Result<BulkRead> {
        let mut read = BulkRead {
            gathered: Gathered::new(first),
            headers: before.clone(),
            blocks: Vec::new(),
            touched: TouchedScripts::new(),
        };
        let mut scripts: Vec<ScriptHash> = Vec::new();
        for some in hashes.chunks(FETCHED_BLOCKS) {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let blocks = self.fetch_some(read.headers.tip(), some, bounds.threads)?;
            let alone = blocks.iter().position(|block| block.has_sibling).unwrap_or(blocks.len());
            self.gather(&mut read, &blocks[..alone], bounds.threads)?;
            if bounds.names_scripts {
                scripts.extend(blocks[..alone].iter().flat_map(NewBlock::scripthashes));
            }
            let is_full = read.gathered.is_full() || read.gathered.end().0 - first.0 >= bounds.txs_max;
            if alone < blocks.len() || is_full {
                break;
            }
        }
        // Built at once from all of them: to insert one after the other takes several times as long.
        read.touched = scripts.into_iter().collect();
        Ok(read)
    }

    fn gather(&self, read: &mut BulkRead, blocks: &[NewBlock], threads: usize) -> Result<()> {
        let mut end = read.gathered.end();
        let numbered = blocks.iter().map(|block| {
            let first = end;
            end.0 += block.touches.txids.len() as u64;
            (block, first)
        });
        let numbered: Vec<(&NewBlock, TxNum)> = numbered.collect();
        let records = parallel::in_chunks(threads, &numbered, 1, |one| {
            let records = |(block, first): &(&NewBlock, TxNum)| {
                BlockRecords::of(&block.touches, block.height, *first, &self.shared.keyer)
            };
            one.iter().map(records).collect()
        })?;
        for ((block, first), records) in numbered.into_iter().zip(records) {
            let row = block.header_row(first);
            read.headers.push(ChainBlock::of(&row));
            read.blocks.push((row, block.touches.offsets.clone()));
            read.gathered.push(&block.touches, records);
        }
        Ok(())
    }
}
