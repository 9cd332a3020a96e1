//! Scripts that each transaction of a block funds or spends from. Pure.
//!
//! All txids and all scripts of a block are hashed together (`names::sha`).
//!
//! Invariant: the result is proved by the block's header, for the txids hash to its merkle root.

use crate::block::bytes::Malformed;
use crate::block::parse::{Block, BlockError, Output, is_indexed};
use crate::block::proved::{ProvedBlock, is_genesis};
use crate::block::spent::{Origin, SpentOutputs};
use crate::names::{Hash256, ScriptHash, sha256_many};
use crate::outside::{FetchedBlock, SpentBytes};

/// The outputs that the transactions of one block fund and spend.
#[derive(Debug, Default)]
pub(crate) struct BlockTouches {
    /// Txids in block order.
    pub(crate) txids: Vec<Hash256>,
    /// Offset of each transaction in the block, and the block's end.
    pub(crate) offsets: Vec<u32>,
    /// Weight of the block ([BIP 141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki)).
    pub(crate) weight: u32,
    pub(crate) funded: Vec<Funded>,
    pub(crate) spent: Vec<SpendingInput>,
}

/// An output that pays a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Funded {
    pub(crate) scripthash: Hash256,
    pub(crate) tx: u32,
    pub(crate) vout: u32,
    pub(crate) value: u64,
}

/// An input that spends an output of a script.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpendingInput {
    pub(crate) scripthash: Hash256,
    pub(crate) tx: u32,
    pub(crate) prev_txid: Hash256,
    pub(crate) prev_vout: u32,
    pub(crate) value: u64,
    /// The place of the funding transaction, from undo data.
    pub(crate) origin: Option<Origin>,
}

impl BlockTouches {
    /// Parses and hashes a block, and proves it by its merkle root.
    ///
    /// # Errors
    /// The bytes are malformed, or contradict the header or each other.
    pub(crate) fn of(block: &[u8], spent: SpentBytes<'_>) -> Result<Self, BlockError> {
        Self::of_proved(ProvedBlock::of(block, spent)?)
    }

    /// The same of a fetched block, whose source may have proved it.
    ///
    /// # Errors
    /// Those of [`Self::of`].
    pub(crate) fn of_fetched(fetched: &mut FetchedBlock) -> Result<Self, BlockError> {
        let Some(txids) = fetched.txids.take() else { return Self::of(&fetched.block, fetched.spent.as_bytes()) };
        let block = Block::parse(&fetched.block)?;
        if txids.len() != block.txs.len() {
            return Err(BlockError::MerkleRoot);
        }
        Self::of_proved(ProvedBlock::with_txids(block, txids, fetched.spent.as_bytes())?)
    }

    /// The same of a proved block.
    ///
    /// # Errors
    /// The block is longer than offsets can name.
    pub(crate) fn of_proved(proved: ProvedBlock<'_>) -> Result<Self, BlockError> {
        let ProvedBlock { block, txids, spent } = proved;
        let offsets = block.txs.iter().map(|span| span.start).chain([block.bytes.len()]);
        let offsets = offsets
            .map(|offset| u32::try_from(offset).map_err(|_| Malformed { what: "block size", offset }))
            .collect::<Result<_, _>>()?;
        let weight = block.weight();
        if is_genesis(block.bytes) {
            // Its output cannot be spent and is not indexed (Electrum protocol basics).
            return Ok(Self { txids, offsets, weight, ..Self::default() });
        }
        Ok(Self { txids, offsets, weight, funded: funded(&block), spent: spent_of(&block, &spent) })
    }

    /// The scripts of all outputs funded and spent, with repetitions.
    pub(crate) fn scripthashes(&self) -> impl Iterator<Item = ScriptHash> {
        let funded = self.funded.iter().map(|funded| ScriptHash(funded.scripthash));
        funded.chain(self.spent.iter().map(|spent| ScriptHash(spent.scripthash)))
    }
}

fn funded(block: &Block<'_>) -> Vec<Funded> {
    let indexed: Vec<&Output<'_>> = block.outputs.iter().filter(|output| is_indexed(output.script)).collect();
    let scripts: Vec<&[u8]> = indexed.iter().map(|output| output.script).collect();
    let mut hashes = Vec::new();
    sha256_many(&scripts, &mut hashes);
    let funded = indexed.iter().zip(hashes);
    funded
        .map(|(output, scripthash)| Funded { scripthash, tx: output.tx, vout: output.vout, value: output.value })
        .collect()
}

fn spent_of(block: &Block<'_>, spent: &SpentOutputs) -> Vec<SpendingInput> {
    let scripts: Vec<&[u8]> = spent.scripts().collect();
    let mut hashes = Vec::new();
    sha256_many(&scripts, &mut hashes);
    let inputs = block.inputs.iter().zip(hashes).zip(spent.values()).enumerate();
    inputs
        .map(|(at, ((input, scripthash), value))| SpendingInput {
            scripthash,
            tx: input.tx,
            prev_txid: *input.prev_txid,
            prev_vout: input.prev_vout,
            value,
            origin: spent.origin(at),
        })
        .collect()
}
