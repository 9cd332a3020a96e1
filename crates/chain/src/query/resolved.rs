//! Transactions with the outputs that they spend.
//!
//! The outputs come from the funding transactions, one by one, or from the block's undo data, all at once: one block is
//! read at the price of some dozens of transactions, and without random access.

use std::collections::{BTreeMap, HashMap};

use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, ScriptBuf, Transaction, TxOut, Txid, consensus};

use crate::answer::ResolvedTransaction;
use crate::block::Block;
use crate::error::{Error, Result};
use crate::headers::ChainBlock;
use crate::sha::Hash256;
use crate::snapshot::Snapshot;
use crate::source::BlockId;
use crate::spent::SpentOutputs;
use crate::txnum::{Height, TxNum};

/// The most inputs of one block's transactions whose outputs are looked up one by one. Above it, block and undo data
/// are read.
const LOOKUPS_MAX: usize = 32;

impl Snapshot {
    /// Returns a transaction with the outputs that it spends; `None` if neither chain nor mempool holds it.
    pub fn resolved(&self, txid: Txid) -> Result<Option<ResolvedTransaction>> {
        if self.mempool.get(&txid).is_some() {
            return Ok(self.resolved_in_mempool(&[txid])?.pop());
        }
        let Some(txnum) = self.find_txnum(&txid.to_byte_array())? else { return Ok(None) };
        Ok(self.resolved_in_chain(&[txnum])?.pop())
    }

    /// Returns the transactions of a block from `first` on, at most `count`; none beyond the tip or the block.
    pub fn resolved_in_block(&self, height: Height, first: u32, count: u32) -> Result<Vec<ResolvedTransaction>> {
        let Some(block) = self.headers.get(height) else { return Ok(Vec::new()) };
        let end = first.saturating_add(count).min(block.tx_count);
        let txnums: Vec<TxNum> = (first..end).map(|index| TxNum(block.first_txnum.0 + u64::from(index))).collect();
        self.resolved_in_chain(&txnums)
    }

    /// Returns these transactions of the mempool; it must hold them.
    pub(super) fn resolved_in_mempool(&self, txids: &[Txid]) -> Result<Vec<ResolvedTransaction>> {
        let raws = txids.iter().map(|txid| {
            let raw = &self.mempool.get(txid).expect("the caller found it in the mempool").raw;
            self.budget.charge_transaction(raw.len())?;
            parsed(raw)
        });
        let transactions = raws.collect::<Result<Vec<Transaction>>>()?;
        let prevouts = self.funding_outputs(&transactions)?;
        let both = transactions.into_iter().zip(prevouts);
        Ok(both.map(|(transaction, prevouts)| ResolvedTransaction { transaction, prevouts, block: None }).collect())
    }

    /// The transactions of live txnums, in their order.
    pub(super) fn resolved_in_chain(&self, txnums: &[TxNum]) -> Result<Vec<ResolvedTransaction>> {
        let mut of_blocks: BTreeMap<Height, Vec<usize>> = BTreeMap::new();
        for (at, txnum) in txnums.iter().enumerate() {
            of_blocks.entry(self.height_of(*txnum)?).or_default().push(at);
        }
        let mut resolved: Vec<Option<ResolvedTransaction>> = txnums.iter().map(|_| None).collect();
        for (height, mut ats) in of_blocks {
            ats.sort_unstable_by_key(|at| txnums[*at]);
            let own: Vec<TxNum> = ats.iter().map(|at| txnums[*at]).collect();
            for (at, transaction) in ats.into_iter().zip(self.resolved_of_block(height, &own)?) {
                resolved[at] = Some(transaction);
            }
        }
        Ok(resolved.into_iter().map(|found| found.expect("every txnum is in one block")).collect())
    }

    /// Transactions of one block, ascending.
    fn resolved_of_block(&self, height: Height, txnums: &[TxNum]) -> Result<Vec<ResolvedTransaction>> {
        let block = self.headers.get(height).expect("the block of a live txnum");
        let txids = self.txids_of(txnums)?;
        let transactions =
            txids.iter().zip(txnums).map(|(txid, txnum)| parsed(&self.proven_bytes(txid, *txnum, block)?));
        let transactions = transactions.collect::<Result<Vec<Transaction>>>()?;
        let spending = transactions.iter().filter(|transaction| !transaction.is_coinbase());
        let prevouts = if spending.map(|transaction| transaction.input.len()).sum::<usize>() > LOOKUPS_MAX {
            self.undone_outputs(block, txnums)?
        } else {
            self.funding_outputs(&transactions)?
        };
        let id = Some(BlockId { height, hash: block.block_hash() });
        let both = transactions.into_iter().zip(prevouts);
        let resolved = both.map(|(transaction, prevouts)| {
            let is_whole = transaction.is_coinbase() || prevouts.len() == transaction.input.len();
            let transaction = ResolvedTransaction { transaction, prevouts, block: id };
            is_whole.then_some(transaction).ok_or_else(Error::unreadable_transaction)
        });
        resolved.collect()
    }

    /// The outputs that transactions of a block spend, by its undo data. The txnums ascend.
    fn undone_outputs(&self, block: &ChainBlock, txnums: &[TxNum]) -> Result<Vec<Vec<TxOut>>> {
        self.budget.charge_unbounded()?;
        let fetched = self.shared.storage.source.block(block.block_hash())?;
        let parsed = Block::parse(&fetched.block).map_err(Error::unreadable_block)?;
        let spent = SpentOutputs::decode(fetched.spent.as_bytes(), parsed.input_counts(), parsed.inputs.len());
        let height = self.height_of(block.first_txnum)?;
        let spent = spent.map_err(|error| Error::Block { height, error })?;
        let mut all: Vec<Vec<TxOut>> = vec![Vec::new(); txnums.len()];
        for (input, (script, value)) in parsed.inputs.iter().zip(spent.scripts().zip(spent.values())) {
            if let Ok(at) = txnums.binary_search(&TxNum(block.first_txnum.0 + u64::from(input.tx))) {
                all[at].push(output(script, value));
            }
        }
        Ok(all)
    }

    /// The outputs that each transaction spends, by the transactions that fund them; none for a coinbase.
    fn funding_outputs(&self, transactions: &[Transaction]) -> Result<Vec<Vec<TxOut>>> {
        let inputs = || transactions.iter().filter(|tx| !tx.is_coinbase()).flat_map(|tx| &tx.input);
        let mut funding: HashMap<Hash256, Transaction> = HashMap::new();
        let mut confirmed: Vec<Hash256> = Vec::new();
        for input in inputs() {
            let txid = input.previous_output.txid;
            match self.mempool.get(&txid) {
                Some(parent) => drop(funding.insert(txid.to_byte_array(), parsed(&parent.raw)?)),
                None => confirmed.push(txid.to_byte_array()),
            }
        }
        confirmed.sort_unstable();
        confirmed.dedup();
        self.budget.charge_lookups(confirmed.len())?;
        for (txid, txnum) in confirmed.iter().zip(self.find_txnums(&confirmed)?) {
            let unknown = || Error::UnknownTransaction { txid: Txid::from_byte_array(*txid) };
            let (_, block) = self.block_of(txnum.ok_or_else(unknown)?)?;
            let raw = self.proven_bytes(txid, txnum.ok_or_else(unknown)?, block)?;
            funding.insert(*txid, parsed(&raw)?);
        }
        let spent = |tx: &Transaction| {
            let inputs = tx.input.iter().filter(|_| !tx.is_coinbase());
            let outputs = inputs.map(|input| {
                let txid = input.previous_output.txid;
                let output = funding[&txid.to_byte_array()].output.get(input.previous_output.vout as usize);
                output.cloned().ok_or(Error::UnknownTransaction { txid })
            });
            outputs.collect::<Result<Vec<TxOut>>>()
        };
        transactions.iter().map(spent).collect()
    }
}

fn output(script: &[u8], value: u64) -> TxOut {
    TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::from_bytes(script.to_vec()) }
}

fn parsed(raw: &[u8]) -> Result<Transaction> {
    consensus::deserialize(raw).map_err(|_| Error::unreadable_transaction())
}
