//! `blockchain.outpoint.*` and `blockchain.utxo.*`.

use birdhouse_chain::{Confirmation, FoundOutput, Snapshot};
use bitcoin::{OutPoint, Transaction, consensus};

use crate::error::RpcError;
use crate::protocol::{Answer, OutpointState, OutpointStatus, Output, Prospect, Utxo};

/// Blocks on top of the last transaction of an outpoint after which it is not followed any more. The protocol's own
/// example.
const BURIED_BLOCKS: u32 = 100;

/// `blockchain.outpoint.get_status`, and the answer to `subscribe`.
pub(crate) fn status(at: &Snapshot, outpoint: OutPoint) -> Result<Answer, RpcError> {
    state(at, outpoint).map(Answer::Outpoint)
}

/// Returns the state of an outpoint at a snapshot.
pub(crate) fn state(at: &Snapshot, outpoint: OutPoint) -> Result<OutpointState, RpcError> {
    let Some(FoundOutput { scripthash, funding, spender, .. }) = at.output(outpoint)? else {
        return unindexed(at, outpoint);
    };
    let status = OutpointStatus { funding: Some(funding), spender };
    let last = spender.map(|(_, confirmation)| confirmation);
    Ok(OutpointState { status, output: Output::Of(scripthash), prospect: prospect(at, last) })
}

/// Returns the state of an outpoint whose output can never be spent. Its transaction is not read.
pub(crate) fn unspendable(at: &Snapshot, outpoint: OutPoint) -> Result<OutpointState, RpcError> {
    let funding = at.confirmation(outpoint.txid)?;
    let status = OutpointStatus { funding, spender: None };
    Ok(OutpointState { status, output: Output::Unspendable, prospect: prospect(at, funding) })
}

/// Returns the prospect of an outpoint whose last transaction has this confirmation.
fn prospect(at: &Snapshot, last: Option<Confirmation>) -> Prospect {
    match last {
        Some(Confirmation::Confirmed(height)) if height.0 + BURIED_BLOCKS <= at.tip().height.0 => Prospect::Final,
        _ => Prospect::Open,
    }
}

/// Returns the state of an outpoint that the index does not have. Whether the funding transaction has such an output,
/// which can never be spent then, only that transaction tells.
fn unindexed(at: &Snapshot, outpoint: OutPoint) -> Result<OutpointState, RpcError> {
    let none = OutpointStatus { funding: None, spender: None };
    if at.confirmation(outpoint.txid)?.is_none() {
        return Ok(OutpointState { status: none, output: Output::Unseen, prospect: Prospect::Open });
    }
    let raw = match at.mempool().get(&outpoint.txid) {
        Some(transaction) => transaction.raw.to_vec(),
        None => at.transaction(outpoint.txid)?.ok_or_else(RpcError::internal)?.raw,
    };
    let transaction: Transaction = consensus::deserialize(&raw).map_err(|_| RpcError::internal())?;
    if usize::try_from(outpoint.vout).is_ok_and(|vout| vout < transaction.output.len()) {
        return unspendable(at, outpoint);
    }
    // A txid names all outputs: there will never be another.
    Ok(OutpointState { status: none, output: Output::Unseen, prospect: Prospect::Final })
}

/// `blockchain.utxo.get_info`. An output that the mempool spends is no UTXO.
pub(crate) fn utxo(at: &Snapshot, outpoint: OutPoint) -> Result<Answer, RpcError> {
    let unspent = at.output(outpoint)?.filter(|found| found.spender.is_none());
    let utxo = unspent.map(|FoundOutput { scripthash, value, funding, .. }| Utxo { scripthash, value, funding });
    Ok(Answer::Utxo(utxo))
}
