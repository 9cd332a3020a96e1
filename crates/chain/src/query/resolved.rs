//! Transactions with the outputs that they spend.
//!
//! The outputs come from the funding transactions, which are looked up together, or from the block's undo data: one
//! block is read at the price of some dozens of transactions, and without random access. Beside a pruned node the undo
//! data has them where the block of a funding transaction is gone, and rows have some where the undo data is gone, too.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction, TxOut, Txid, consensus};

use crate::block::{Block, SpentOutputs};
use crate::error::{Error, Result};
use crate::names::{Hash256, Height, TxNum};
use crate::outside::{BlockId, SourceError, SourceErrorKind};
use crate::query::portions::PageList;
use crate::rows::txpos::Span;
use crate::state::{ResolvedTransaction, Snapshot};

/// The most inputs of one block's transactions whose outputs are looked up. Above it, block and undo data are read.
const LOOKUPS_MAX: usize = 128;
/// Bytes of a block's header.
const HEADER_BYTES: u32 = 80;

/// The outputs that the inputs of a transaction spend, in their order, where they are known; none for a coinbase.
type Prevouts = Vec<Option<TxOut>>;

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
        self.whole_page(self.list_block(height, first, count))
    }

    /// Lists the transactions of a block from `first` on, at most `count`; none beyond the tip or the block.
    pub fn list_block(&self, height: Height, first: u32, count: u32) -> PageList {
        let Some(block) = self.headers.get(height) else { return PageList::default() };
        let end = first.saturating_add(count).min(block.tx_count);
        let confirmed = (first..end).map(|index| TxNum(block.first_txnum.0 + u64::from(index))).collect();
        PageList { confirmed, ..PageList::default() }
    }

    /// Returns these transactions of the mempool; it must hold them.
    pub(super) fn resolved_in_mempool(&self, txids: &[Txid]) -> Result<Vec<ResolvedTransaction>> {
        let raws = txids.iter().map(|txid| {
            let raw = &self.mempool.get(txid).expect("the caller found it in the mempool").raw;
            self.budget.charge_transaction(raw.len())?;
            parsed(raw)
        });
        let transactions = raws.collect::<Result<Vec<Transaction>>>()?;
        let prevouts = self.funding_outputs(&transactions.iter().collect::<Vec<_>>())?;
        let resolved = txids.iter().zip(transactions).zip(prevouts).map(|((txid, transaction), mut prevouts)| {
            self.add_from_rows(&transaction, &mut prevouts)?;
            Ok(ResolvedTransaction::new(*txid, transaction, prevouts, None))
        });
        resolved.collect()
    }

    /// The transactions of live txnums, in their order.
    pub(super) fn resolved_in_chain(&self, txnums: &[TxNum]) -> Result<Vec<ResolvedTransaction>> {
        self.resolved_within(txnums, usize::MAX)
    }

    /// The first transactions of live txnums, one at least, up to the one with which they have `bytes_max` bytes.
    pub(super) fn resolved_within(&self, txnums: &[TxNum], bytes_max: usize) -> Result<Vec<ResolvedTransaction>> {
        let txids = self.txids_of(txnums)?;
        let raws = self.proven_raws(&txids, txnums, bytes_max)?;
        let txnums = &txnums[..raws.len()];
        let transactions = raws.iter().map(|raw| parsed(raw)).collect::<Result<Vec<Transaction>>>()?;
        let prevouts = self.spent_outputs(txnums, &transactions)?;
        let found = txids.into_iter().map(Txid::from_byte_array).zip(txnums).zip(transactions).zip(prevouts);
        let resolved = found.map(|(((txid, txnum), transaction), prevouts)| {
            let (height, block) = self.block_of(*txnum)?;
            if prevouts.len() != spent_count(&transaction) {
                return Err(Error::unreadable_transaction());
            }
            let block = Some(BlockId { height, hash: block.block_hash() });
            Ok(ResolvedTransaction::new(txid, transaction, prevouts, block))
        });
        resolved.collect()
    }

    /// The outputs that transactions spend: of each block either way that this file begins with.
    fn spent_outputs(&self, txnums: &[TxNum], transactions: &[Transaction]) -> Result<Vec<Prevouts>> {
        let mut of_blocks: BTreeMap<Height, Vec<usize>> = BTreeMap::new();
        for (at, txnum) in txnums.iter().enumerate() {
            of_blocks.entry(self.height_of(*txnum)?).or_default().push(at);
        }
        let mut spent: Vec<Prevouts> = transactions.iter().map(|found| vec![None; spent_count(found)]).collect();
        let mut looked_up = Vec::new();
        for (height, mut ats) in of_blocks {
            let count: usize = ats.iter().map(|at| spent[*at].len()).sum();
            if count <= LOOKUPS_MAX || !self.undo(height, &ats, txnums, &mut spent)? {
                looked_up.append(&mut ats);
            }
        }
        let spending: Vec<&Transaction> = looked_up.iter().map(|at| &transactions[*at]).collect();
        let mut unknown: BTreeMap<Height, Vec<usize>> = BTreeMap::new();
        for (at, outputs) in looked_up.into_iter().zip(self.funding_outputs(&spending)?) {
            if outputs.iter().any(Option::is_none) {
                unknown.entry(self.height_of(txnums[at])?).or_default().push(at);
            }
            spent[at] = outputs;
        }
        for (height, ats) in unknown {
            self.undo(height, &ats, txnums, &mut spent)?;
        }
        for (transaction, outputs) in transactions.iter().zip(&mut spent) {
            self.add_from_rows(transaction, outputs)?;
        }
        Ok(spent)
    }

    /// True if a block may be where it lay in the node's files when it was indexed.
    pub(crate) fn has_block(&self, height: Height) -> Result<bool> {
        let position = self.headers.get(height).and_then(|block| block.position);
        let header = Span { offset: 0, len: HEADER_BYTES };
        position.map_or(Ok(true), |position| Ok(self.reader().peek(position, header)?.is_some()))
    }

    /// Sets the outputs that some transactions of a block spend, by its undo data; returns false if the node has
    /// removed that. To search for a block that is gone would cost more than the answer is worth.
    fn undo(&self, height: Height, ats: &[usize], txnums: &[TxNum], spent: &mut [Prevouts]) -> Result<bool> {
        if !self.has_block(height)? {
            return Ok(false);
        }
        let mut ats = ats.to_vec();
        ats.sort_unstable_by_key(|at| txnums[*at]);
        let own: Vec<TxNum> = ats.iter().map(|at| txnums[*at]).collect();
        let undone = self.undone_outputs(height, &own)?;
        let is_there = !undone.is_empty();
        for (at, outputs) in ats.into_iter().zip(undone) {
            spent[at] = outputs.into_iter().map(Some).collect();
        }
        Ok(is_there)
    }

    /// The outputs that transactions of a block spend, by its undo data; none if the node has removed that. The txnums
    /// ascend.
    fn undone_outputs(&self, height: Height, txnums: &[TxNum]) -> Result<Vec<Vec<TxOut>>> {
        self.budget.charge_unbounded()?;
        let block = self.headers.get(height).expect("the block of a live txnum");
        let fetched = match self.shared.storage.source.block(block.block_hash()) {
            Err(error) if self.is_removed(&error) => return Ok(Vec::new()),
            fetched => fetched?,
        };
        let parsed = Block::parse(&fetched.block).map_err(Error::unreadable_block)?;
        let spent = SpentOutputs::decode(fetched.spent.as_bytes(), parsed.input_counts(), parsed.inputs.len());
        let spent = spent.map_err(|error| Error::Block { height, error })?;
        let mut all: Vec<Vec<TxOut>> = vec![Vec::new(); txnums.len()];
        for (input, (script, value)) in parsed.inputs.iter().zip(spent.scripts().zip(spent.values())) {
            if let Ok(at) = txnums.binary_search(&TxNum(block.first_txnum.0 + u64::from(input.tx))) {
                all[at].push(output(script, value));
            }
        }
        Ok(all)
    }

    /// The outputs that each transaction spends, by the transactions that fund them, but for those that the node has
    /// removed.
    fn funding_outputs(&self, transactions: &[&Transaction]) -> Result<Vec<Prevouts>> {
        let inputs = transactions.iter().filter(|tx| !tx.is_coinbase()).flat_map(|tx| &tx.input);
        let mut txids: Vec<Txid> = inputs.map(|input| input.previous_output.txid).collect();
        txids.sort_unstable();
        txids.dedup();
        let (unconfirmed, confirmed): (Vec<Txid>, Vec<Txid>) =
            txids.into_iter().partition(|txid| self.mempool.get(txid).is_some());
        let raws = self.confirmed_raws(&confirmed)?;
        let unconfirmed = unconfirmed.iter().filter_map(|txid| Some((*txid, self.mempool.get(txid)?.raw.as_ref())));
        let confirmed = confirmed.iter().zip(&raws).filter_map(|(txid, raw)| Some((*txid, raw.as_deref()?)));
        let funding = unconfirmed.chain(confirmed).map(|(txid, raw): (Txid, &[u8])| {
            let transaction = Block::of_transaction(raw).map_err(|_| Error::unreadable_transaction())?;
            Ok((txid, transaction))
        });
        let funding = funding.collect::<Result<HashMap<Txid, Block<'_>>>>()?;
        let spent = |tx: &&Transaction| {
            let inputs = tx.input.iter().filter(|_| !tx.is_coinbase()).map(|input| input.previous_output);
            let outputs = inputs.map(|OutPoint { txid, vout }| {
                let Some(funding) = funding.get(&txid) else { return Ok(None) };
                let spent = funding.outputs.get(vout as usize).ok_or(Error::UnknownTransaction { txid })?;
                Ok(Some(output(spent.script, spent.value)))
            });
            outputs.collect::<Result<Prevouts>>()
        };
        transactions.iter().map(spent).collect()
    }

    /// The bytes of confirmed transactions; `None` where the node has removed them.
    fn confirmed_raws(&self, txids: &[Txid]) -> Result<Vec<Option<Vec<u8>>>> {
        self.budget.charge_lookups(txids.len())?;
        let hashes: Vec<Hash256> = txids.iter().map(|txid| txid.to_byte_array()).collect();
        let found = self.find_txnums(&hashes)?.into_iter().zip(txids);
        let txnums = found.map(|(txnum, txid)| txnum.ok_or(Error::UnknownTransaction { txid: *txid }));
        let raws = self.kept_raws(&hashes, &txnums.collect::<Result<Vec<_>>>()?, usize::MAX)?;
        Ok(raws.into_iter().map(Result::ok).collect())
    }

    /// Checks that the outputs that these transactions spend are known.
    ///
    /// # Errors
    /// [`Error::Removed`] with the transactions that fund those of which they are not.
    pub(super) fn demand_spent(&self, resolved: &[ResolvedTransaction]) -> Result<()> {
        let unknown = resolved.iter().flat_map(|found| found.transaction.input.iter().zip(&found.known_prevouts));
        let unknown = unknown.filter(|(_, known)| known.is_none());
        let spent = unknown.map(|(input, _)| input.previous_output.txid);
        let txids: BTreeSet<Hash256> = spent.map(Txid::to_byte_array).collect();
        let txids: Vec<Hash256> = txids.into_iter().collect();
        let found = self.find_txnums(&txids)?;
        let parts = found.into_iter().flatten().map(|txnum| self.part_of(txnum)).collect::<Result<Vec<_>>>()?;
        if parts.is_empty() { Ok(()) } else { Err(Error::Removed { parts }) }
    }

    /// True if a block can be fetched that the source lacks.
    fn is_removed(&self, error: &SourceError) -> bool {
        error.kind == SourceErrorKind::NotFound && self.shared.storage.source.fetches_removed()
    }
}

fn output(script: &[u8], value: u64) -> TxOut {
    TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::from_bytes(script.to_vec()) }
}

/// The number of outputs that a transaction spends.
fn spent_count(transaction: &Transaction) -> usize {
    if transaction.is_coinbase() { 0 } else { transaction.input.len() }
}

fn parsed(raw: &[u8]) -> Result<Transaction> {
    consensus::deserialize(raw).map_err(|_| Error::unreadable_transaction())
}
