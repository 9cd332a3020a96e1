//! Blocks that are read to be appended together.

use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Txid};

use crate::build::RunSet;
use crate::error::Result;
use crate::merging::{BlockRecords, Gathered, Settled};
use crate::names::{TouchedScripts, TxNum};
use crate::rows;
use crate::rows::HeaderRow;
use crate::state::{ChainBlock, Headers, Mempool};

/// Blocks that are being read, in the order of the chain.
pub(super) struct Reading {
    pub(super) gathered: Gathered,
    /// The chain up to the last of the blocks.
    pub(super) headers: Headers,
    /// Header row and transaction offsets of each block.
    blocks: Vec<(HeaderRow, Vec<u32>)>,
}

/// Blocks that were read, and the records of their scripts.
pub(super) struct BulkRead {
    pub(super) settled: Settled,
    /// The chain up to the last of the blocks.
    pub(super) headers: Headers,
    blocks: Vec<(HeaderRow, Vec<u32>)>,
    /// The scripts that the blocks touch.
    pub(super) touched: TouchedScripts,
    /// False if `touched` lacks them: they are too many to be announced one by one.
    pub(super) names_scripts: bool,
}

impl std::fmt::Debug for BulkRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkRead").field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl Reading {
    /// No blocks after `before`. The first transaction will get the number `first`.
    pub(super) fn new(before: &Headers, first: TxNum) -> Self {
        Self { gathered: Gathered::new(first), headers: before.clone(), blocks: Vec::new() }
    }

    /// Adds the next block.
    pub(super) fn push(&mut self, row: HeaderRow, offsets: Vec<u32>, records: BlockRecords) {
        self.headers.push(ChainBlock::of(&row));
        self.blocks.push((row, offsets));
        self.gathered.push(records);
    }

    /// Ends the reading of blocks that touch these scripts, if they are named.
    pub(super) fn finish(self, touched: Option<TouchedScripts>) -> BulkRead {
        let Self { gathered, headers, blocks } = self;
        let (settled, names_scripts) = (gathered.settle(&headers), touched.is_some());
        BulkRead { settled, headers, blocks, touched: touched.unwrap_or_default(), names_scripts }
    }
}

impl BulkRead {
    /// Number of blocks.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("heights fit 32 bits")
    }

    /// True if these are the first of the blocks with `hashes`, which follow those of `before` and get txnums from
    /// `first` on.
    pub(super) fn begins(&self, before: &Headers, hashes: &[BlockHash], first: TxNum) -> bool {
        let last = self.blocks.len().checked_sub(1).and_then(|last| hashes.get(last));
        let follows = self.headers.len() - self.len() == before.len() && self.settled.first() == first;
        follows && last.is_some() && last.copied() == self.headers.tip().map(|tip| tip.hash)
    }

    /// Adds the rows of the blocks to `runs`.
    pub(super) fn write_blocks(&self, runs: &mut RunSet<'_>) -> Result<()> {
        for (row, offsets) in &self.blocks {
            rows::of_block(row, offsets).try_for_each(|(table, key, value)| runs.push(table, &key, &value))?;
        }
        Ok(())
    }

    /// Removes from a mempool what the blocks confirm, and what conflicts with it. Adds the scripts of both.
    pub(super) fn confirm_in(&mut self, mempool: &mut Mempool) {
        let txids = self.settled.txids().flat_map(|(_, txids)| txids);
        let txids = txids.map(|txid| Txid::from_byte_array(*txid));
        mempool.confirm(txids, self.settled.spent(), &mut self.touched);
    }
}
