//! Parts of a transaction that was not broadcast.

use birdhouse_chain::Snapshot;
use birdhouse_esplora::{Question, Tested};
use bitcoin::{OutPoint, Transaction, TxOut, consensus};

use super::transaction::part;
use crate::views::decoded::{Decoded, Input};
use crate::views::parts::PARTS_PAGE;

/// Returns what a page shows of a transaction.
pub(super) fn decoded(question: &Question<'_>, transaction: &Transaction, tested: Tested) -> Decoded {
    let first = PARTS_PAGE as usize;
    let input = |outpoint: OutPoint| {
        let spent = spent_output(question.at, outpoint);
        Input { outpoint, part: spent.map(|output| part(question, &output)) }
    };
    Decoded {
        txid: transaction.compute_txid(),
        wtxid: transaction.compute_wtxid(),
        version: transaction.version.0,
        lock_time: transaction.lock_time.to_consensus_u32(),
        size: transaction.total_size() as u64,
        vsize: transaction.vsize() as u64,
        weight: transaction.weight().to_wu(),
        tested,
        inputs: transaction.input.iter().take(first).map(|own| input(own.previous_output)).collect(),
        outputs: transaction.output.iter().take(first).map(|output| part(question, output)).collect(),
        input_count: transaction.input.len(),
        output_count: transaction.output.len(),
    }
}

/// The output, if a few reads find it.
fn spent_output(at: &Snapshot, outpoint: OutPoint) -> Option<TxOut> {
    let raw = at.within_budget(|at| at.transaction_bytes(outpoint.txid)).ok().flatten().flatten()?;
    let funding: Transaction = consensus::deserialize(&raw).ok()?;
    funding.output.get(outpoint.vout as usize).cloned()
}
