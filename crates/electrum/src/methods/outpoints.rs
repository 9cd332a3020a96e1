//! `blockchain.outpoint.*` and `blockchain.utxo.*`.

use birdhouse_chain::{Confirmation, FoundOutput, Snapshot};
use bitcoin::{OutPoint, Transaction, Txid, consensus};

use crate::answer::{Answer, OutpointState, OutpointStatus, Prospect, Utxo};
use crate::error::RpcError;

/// Blocks on top of a spender after which an outpoint is not followed any more. The protocol's own example.
const BURIED_BLOCKS: u32 = 100;

/// `blockchain.outpoint.get_status`, and the answer to `subscribe`.
pub(crate) fn status(at: &Snapshot, outpoint: OutPoint) -> Result<Answer, RpcError> {
    state(at, outpoint).map(Answer::Outpoint)
}

/// Returns the state of an outpoint at a snapshot.
pub(crate) fn state(at: &Snapshot, outpoint: OutPoint) -> Result<OutpointState, RpcError> {
    let Some(FoundOutput { scripthash, funding, spender, .. }) = at.output(outpoint)? else {
        let status = OutpointStatus { funding: unspendable(at, outpoint)?, spender: None };
        return Ok(OutpointState { status, script: None, prospect: Prospect::Open });
    };
    let status = OutpointStatus { funding: Some(funding), spender };
    Ok(OutpointState { status, script: Some(scripthash), prospect: prospect(at, spender) })
}

fn prospect(at: &Snapshot, spender: Option<(Txid, Confirmation)>) -> Prospect {
    match spender {
        Some((_, Confirmation::Confirmed(height))) if height.0 + BURIED_BLOCKS <= at.tip().height.0 => Prospect::Final,
        _ => Prospect::Open,
    }
}

/// Returns the confirmation of an output that can never be spent. The index has no such outputs, so the function reads
/// the funding transaction.
fn unspendable(at: &Snapshot, outpoint: OutPoint) -> Result<Option<Confirmation>, RpcError> {
    let Some(confirmation) = at.confirmation(outpoint.txid)? else { return Ok(None) };
    let raw = match at.mempool().get(&outpoint.txid) {
        Some(transaction) => transaction.raw.to_vec(),
        None => at.transaction(outpoint.txid)?.ok_or_else(RpcError::internal)?.raw,
    };
    let transaction: Transaction = consensus::deserialize(&raw).map_err(|_| RpcError::internal())?;
    let has_output = usize::try_from(outpoint.vout).is_ok_and(|vout| vout < transaction.output.len());
    Ok(has_output.then_some(confirmation))
}

/// `blockchain.utxo.get_info`. An output that the mempool spends is no UTXO.
pub(crate) fn utxo(at: &Snapshot, outpoint: OutPoint) -> Result<Answer, RpcError> {
    let unspent = at.output(outpoint)?.filter(|found| found.spender.is_none());
    let utxo = unspent.map(|FoundOutput { scripthash, value, funding, .. }| Utxo { scripthash, value, funding });
    Ok(Answer::Utxo(utxo))
}
