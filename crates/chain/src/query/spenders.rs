//! Inputs that spend outputs.

use std::collections::{BTreeMap, HashMap, HashSet};

use bitcoin::hashes::Hash as _;
use bitcoin::{OutPoint, Txid};

use crate::block::{Block, is_indexed};
use crate::error::{Error, Result};
use crate::names::{Height, ScriptHash, TxNum};
use crate::outside::BlockId;
use crate::query::spending::{Funding, Spending};
use crate::state::{Snapshot, Spender};

/// An output of a known transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptOutput {
    /// Its number in the transaction.
    pub vout: u32,
    /// The script that it pays.
    pub scripthash: ScriptHash,
}

impl Snapshot {
    /// Returns the input that spends an output; `None` if there is none, or no such output.
    pub fn spender_of(&self, outpoint: OutPoint) -> Result<Option<Spender>> {
        let found = self.find_spenders(outpoint.txid, Some(outpoint.vout))?;
        Ok(found.and_then(|(_, mut found)| found.remove(&outpoint.vout)))
    }

    /// Returns for each output of a transaction the input that spends it; `None` if neither chain nor mempool holds the
    /// transaction.
    pub fn spenders_of(&self, txid: Txid) -> Result<Option<Vec<Option<Spender>>>> {
        let Some((outputs, mut found)) = self.find_spenders(txid, None)? else { return Ok(None) };
        Ok(Some((0..outputs).map(|vout| found.remove(&vout)).collect()))
    }

    /// Returns the numbers of those outputs of the transaction at an index of a block that blocks spend. Neither it nor
    /// a spender is read, so this takes a few rows an output.
    ///
    /// # Errors
    /// [`Error::NoBlocks`] beyond the tip, and failures of the store.
    pub fn spent_in_blocks(&self, height: Height, index: u32, outputs: &[ScriptOutput]) -> Result<HashSet<u32>> {
        let txnum = self.txnum_at(height, index)?;
        let mut spent = HashSet::new();
        for (scripthash, vouts) in by_script(outputs) {
            spent.extend(self.spent_vouts(self.key_of(&scripthash)?, txnum, vouts)?);
        }
        Ok(spent)
    }

    /// Returns the inputs of blocks that spend outputs of the transaction at an index of a block, by the numbers of the
    /// outputs.
    ///
    /// # Errors
    /// Those of [`Self::spent_in_blocks`], and failures of the node's files.
    pub fn spenders_in_blocks(
        &self,
        height: Height,
        index: u32,
        outputs: &[ScriptOutput],
    ) -> Result<HashMap<u32, Spender>> {
        let (txnum, txid) = (self.txnum_at(height, index)?, self.txid_at(height, index)?.ok_or(Error::NoBlocks)?);
        let mut found = HashMap::new();
        for (scripthash, vouts) in by_script(outputs) {
            let funding = Funding { txid, txnum, key: self.key_of(&scripthash)? };
            self.find_confirmed(funding, vouts, &mut found)?;
        }
        Ok(found)
    }

    fn txnum_at(&self, height: Height, index: u32) -> Result<TxNum> {
        let block = self.headers.get(height).filter(|block| index < block.tx_count).ok_or(Error::NoBlocks)?;
        Ok(TxNum(block.first_txnum.0 + u64::from(index)))
    }

    /// Returns the number of outputs of a transaction; `None` if neither chain nor mempool holds it.
    pub fn output_count(&self, txid: Txid) -> Result<Option<u32>> {
        let Some(raw) = self.transaction_bytes(txid)? else { return Ok(None) };
        Ok(Some(count_of(&Block::of_transaction(&raw).map_err(Error::unreadable_block)?)))
    }

    /// The number of a transaction's outputs, and the spenders of one output or of all, by vout; `None` if there is no
    /// such transaction.
    fn find_spenders(&self, txid: Txid, only: Option<u32>) -> Result<Option<(u32, HashMap<u32, Spender>)>> {
        let Some(raw) = self.transaction_bytes(txid)? else { return Ok(None) };
        let funding = Block::of_transaction(&raw).map_err(Error::unreadable_block)?;
        let mut found = HashMap::new();
        // Outputs that a block may have spent, by their scripts.
        let mut open: BTreeMap<ScriptHash, Vec<u32>> = BTreeMap::new();
        let wanted = funding.outputs.iter().filter(|output| only.is_none_or(|only| output.vout == only));
        for output in wanted.filter(|output| is_indexed(output.script)) {
            match self.mempool.spending_input(&OutPoint { txid, vout: output.vout }) {
                Some((txid, vin)) => drop(found.insert(output.vout, Spender { txid, vin, block: None })),
                None => open.entry(ScriptHash::of(output.script)).or_default().push(output.vout),
            }
        }
        if let Some(txnum) = self.find_txnum(&txid.to_byte_array())? {
            for (scripthash, vouts) in open {
                let funding = Funding { txid, txnum, key: self.key_of(&scripthash)? };
                self.find_confirmed(funding, vouts.into_iter().collect(), &mut found)?;
            }
        }
        Ok(Some((count_of(&funding), found)))
    }

    /// Adds the confirmed spenders of outputs of one script.
    fn find_confirmed(&self, funding: Funding, vouts: HashSet<u32>, found: &mut HashMap<u32, Spender>) -> Result<()> {
        for Spending { vout, txnum, vin } in self.spendings(funding, vouts)? {
            let (height, block) = self.block_of(txnum)?;
            let txid = Txid::from_byte_array(self.txids_of(&[txnum])?[0]);
            found.insert(vout, Spender { txid, vin, block: Some(BlockId { height, hash: block.block_hash() }) });
        }
        Ok(())
    }
}

fn by_script(outputs: &[ScriptOutput]) -> BTreeMap<ScriptHash, HashSet<u32>> {
    let mut by_script: BTreeMap<ScriptHash, HashSet<u32>> = BTreeMap::new();
    for output in outputs {
        by_script.entry(output.scripthash).or_default().insert(output.vout);
    }
    by_script
}

fn count_of(transaction: &Block<'_>) -> u32 {
    u32::try_from(transaction.outputs.len()).expect("a transaction has fewer than 2^32 outputs")
}
