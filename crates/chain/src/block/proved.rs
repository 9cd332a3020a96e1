//! A block proved by its header, with its txids and the outputs that it spends. Pure.
//!
//! A block is hashed once: the reader of block files proves it by its txids, and passes these on.

use std::ops::Range;

use crate::block::parse::{Block, BlockError, Output, TransactionSpans};
use crate::block::spent::SpentOutputs;
use crate::names::Hash256;
use crate::outside::SpentBytes;

/// A parsed block whose transactions hash to the merkle root of its header, and the outputs that it spends.
#[derive(Debug)]
pub struct ProvedBlock<'a> {
    pub(super) block: Block<'a>,
    pub(super) txids: Vec<Hash256>,
    pub(super) spent: SpentOutputs,
}

/// A transaction of a proved block, and what it spends.
#[derive(Debug)]
pub(crate) struct ProvedTransaction<'a> {
    /// Its index in the block.
    pub(crate) index: usize,
    /// Serialised, with witness.
    pub(crate) raw: &'a [u8],
    /// All its outputs.
    pub(crate) outputs: &'a [Output<'a>],
    spent: &'a SpentOutputs,
    /// Its inputs among those of the block.
    inputs: Range<usize>,
}

impl<'a> ProvedTransaction<'a> {
    /// Returns the scriptPubKeys of the outputs that it spends, in the order of its inputs.
    pub(crate) fn spent_scripts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let spent = self.spent;
        self.inputs.clone().map(|at| spent.script(at))
    }
}

impl<'a> ProvedBlock<'a> {
    /// Parses and hashes a block, and proves it by its merkle root.
    ///
    /// # Errors
    /// The bytes are malformed, or contradict the header or each other.
    pub(crate) fn of(bytes: &'a [u8], spent: SpentBytes<'_>) -> Result<Self, BlockError> {
        let block = Block::parse(bytes)?;
        let txids = block.txids();
        block.prove_merkle_root(&txids)?;
        Self::with_txids(block, txids, spent)
    }

    /// The same of a block that its source has proved by these txids.
    ///
    /// # Errors
    /// The spent outputs are malformed, or do not fit the inputs of the block.
    pub(super) fn with_txids(block: Block<'a>, txids: Vec<Hash256>, spent: SpentBytes<'_>) -> Result<Self, BlockError> {
        // Sources disagree on the outputs that the genesis block spends: it has no undo data.
        let spent = if is_genesis(block.bytes) {
            SpentOutputs::default()
        } else {
            SpentOutputs::decode(spent, block.input_counts(), block.inputs.len())?
        };
        Ok(Self { block, txids, spent })
    }

    /// Returns the serialised block, with witness.
    pub fn bytes(&self) -> &'a [u8] {
        self.block.bytes
    }

    /// Returns the txids, in the order of the block and in the byte order of the hash function.
    pub fn txids(&self) -> &[Hash256] {
        &self.txids
    }

    /// Returns the scriptPubKeys of all outputs, in the order of the block.
    pub fn funded_scripts(&self) -> impl Iterator<Item = &'a [u8]> {
        self.block.outputs.iter().map(|output| output.script)
    }

    /// Returns the transactions in the order of the block, without the coinbase.
    pub(crate) fn transactions(&self) -> impl Iterator<Item = ProvedTransaction<'_>> {
        self.block.spans().skip(1).map(|TransactionSpans { index, raw, inputs, outputs }| ProvedTransaction {
            index,
            raw,
            outputs,
            spent: &self.spent,
            inputs,
        })
    }

    /// Returns the scriptPubKeys of the spent outputs, in the order of the inputs. The coinbase has none.
    pub fn spent_scripts(&self) -> impl Iterator<Item = &[u8]> {
        self.spent.scripts()
    }
}

pub(super) fn is_genesis(block: &[u8]) -> bool {
    block[4..36] == [0; 32]
}
