//! Choice and order of the transactions of a block.

use std::collections::{BTreeSet, HashMap};

use birdhouse_regtest::block::COINBASE_MATURITY;
use bitcoin::{OutPoint, Transaction, Txid};

use crate::chains::ledger::{Ledger, Output, SpentState};

/// Weight of the transactions in a block, with room for header and coinbase.
const BLOCK_WU: u64 = 3_990_000;

/// The outputs that a block on some tip may spend, with the first height at which it may.
#[derive(Debug, Clone)]
pub(super) struct Ripe(HashMap<OutPoint, u32>);

impl Ripe {
    /// Returns the unspent outputs of a chain.
    pub(super) fn at(chain: &Ledger) -> Self {
        let outputs = chain.outputs();
        let unspent = outputs.values().filter(|output| output.spent == SpentState::No);
        let from = |output: &Output| match output.height {
            Some(made) if output.is_coinbase => made + COINBASE_MATURITY,
            _ => 0,
        };
        Self(unspent.map(|output| (output.outpoint, from(output))).collect())
    }

    /// Applies a transaction; returns false and changes nothing when it is not allowed at this height.
    fn take(&mut self, height: u32, tx: &Transaction) -> bool {
        let allowed = |input: &bitcoin::TxIn| self.0.get(&input.previous_output).is_some_and(|from| *from <= height);
        if !tx.input.iter().all(allowed) {
            return false;
        }
        for input in &tx.input {
            self.0.remove(&input.previous_output);
        }
        let txid = tx.compute_txid();
        self.0.extend((0..).zip(&tx.output).map(|(vout, _)| (OutPoint { txid, vout }, 0)));
        true
    }
}

/// Returns the transactions that are allowed in a block at this height and fit into it, in their order.
pub(super) fn fill(ripe: &mut Ripe, height: u32, mut txs: Vec<Transaction>) -> Vec<Transaction> {
    let mut room_wu = BLOCK_WU;
    txs.retain(|tx| {
        let left_wu = room_wu.checked_sub(tx.weight().to_wu());
        let stands = left_wu.is_some() && ripe.take(height, tx);
        room_wu = left_wu.filter(|_| stands).unwrap_or(room_wu);
        stands
    });
    txs
}

/// Returns the transactions of the mempool, each after those that it spends.
pub(super) fn with_parents_first(ledger: &Ledger) -> Vec<Transaction> {
    let mut done = BTreeSet::new();
    let mut ordered = Vec::new();
    for txid in ledger.mempool().keys() {
        push_with_parents(ledger, *txid, &mut done, &mut ordered);
    }
    ordered
}

/// Appends a transaction after its parents. The node limits the size of clusters, and so the depth of this recursion.
fn push_with_parents(ledger: &Ledger, txid: Txid, done: &mut BTreeSet<Txid>, ordered: &mut Vec<Transaction>) {
    let Some(waiting) = ledger.mempool().get(&txid) else { return };
    if done.insert(txid) {
        for input in &waiting.tx.input {
            push_with_parents(ledger, input.previous_output.txid, done, ordered);
        }
        ordered.push(waiting.tx.clone());
    }
}
