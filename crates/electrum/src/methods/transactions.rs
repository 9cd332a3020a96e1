//! `blockchain.transaction.*`: transactions in blocks and in the mempool.

use std::fmt::Write as _;

use birdhouse_chain::source::{BlockId, Node};
use birdhouse_chain::{Height, Index, Snapshot};
use bitcoin::Txid;
use bitcoin::hex::DisplayHex as _;
use serde_json::value::RawValue;

use crate::error::RpcError;
use crate::protocol::Answer;
use crate::request::BlockDetail;

/// `blockchain.transaction.get` of a transaction in a block or in the mempool. Returns `None` if it is in neither.
pub(crate) fn raw(at: &Snapshot, txid: Txid) -> birdhouse_chain::Result<Option<Answer>> {
    Ok(at.transaction_bytes(txid)?.map(Answer::Bytes))
}

/// `blockchain.transaction.get` of a transaction that the index does not know: it may have just reached the node.
pub(crate) fn unseen(index: &Index, node: Option<&dyn Node>, txid: Txid) -> Result<Answer, RpcError> {
    let node = node.ok_or_else(RpcError::no_such_transaction)?;
    let raw = node.mempool_transaction(txid)?;
    show(index, node, txid)?;
    Ok(Answer::Text(raw))
}

/// Makes every later answer show a transaction that the node has.
///
/// # Errors
/// [`RpcError::not_indexed_yet`] if the index cannot show it: one answer must not show what a later one lacks.
fn show(index: &Index, node: &dyn Node, txid: Txid) -> Result<(), RpcError> {
    if admit(index, node, txid) { Ok(()) } else { Err(RpcError::not_indexed_yet()) }
}

/// Makes later answers show a transaction that the node has taken; returns true if they do. A failure only delays that.
pub(crate) fn admit(index: &Index, node: &dyn Node, txid: Txid) -> bool {
    index.admit(node, txid).unwrap_or_else(|error| {
        tracing::debug!(%error, "failed to bring the mempool up to date");
        false
    })
}

/// `blockchain.transaction.get` with `verbose`: the answer of Core's `getrawtransaction` with `-txindex`. Without that
/// index Core would read and parse the whole block, so this function passes the bytes to `decoderawtransaction`.
pub(crate) fn verbose(index: &Index, at: &Snapshot, node: &dyn Node, txid: Txid) -> Result<Answer, RpcError> {
    let (raw, block) = if let Some(transaction) = at.mempool().get(&txid) {
        (transaction.raw.to_vec(), None)
    } else if let Some(transaction) = at.transaction(txid)? {
        (transaction.raw, Some(transaction.block))
    } else {
        let found = node.transaction_verbose(txid)?;
        show(index, node, txid)?;
        return Ok(Answer::Core(found));
    };
    let decoded = node.decode_transaction(&raw)?;
    let members =
        decoded.get().trim_end().strip_suffix('}').ok_or_else(|| RpcError::unknown_shape("decoderawtransaction"))?;
    let mut json = format!("{members},\"hex\":\"{}\"", raw.to_lower_hex_string());
    if let Some(block) = block {
        let header = at.header(block.height).ok_or_else(RpcError::internal)?;
        let time = u32::from_le_bytes(header[68..72].try_into().expect("four bytes"));
        let confirmations = at.tip().height.0 - block.height.0 + 1;
        write!(
            json,
            ",\"blockhash\":\"{}\",\"confirmations\":{confirmations},\"time\":{time},\"blocktime\":{time}",
            block.hash
        )
        .expect("a string takes everything");
    }
    json.push('}');
    RawValue::from_string(json).map(Answer::Core).map_err(|_| RpcError::unknown_shape("decoderawtransaction"))
}

/// `blockchain.transaction.get_height`.
pub(crate) fn height(at: &Snapshot, txid: Txid) -> Result<Answer, RpcError> {
    at.confirmation(txid)?.map(Answer::TransactionHeight).ok_or_else(|| unknown(txid))
}

/// `blockchain.transaction.get_confirmed_blockhash`.
pub(crate) fn block(at: &Snapshot, txid: Txid, detail: BlockDetail) -> Result<Answer, RpcError> {
    let BlockId { height, hash } = at.transaction_block(txid)?.ok_or_else(|| unknown(txid))?;
    let header = match detail {
        BlockDetail::Id => None,
        BlockDetail::Header => Some(at.header(height).ok_or_else(RpcError::internal)?),
    };
    Ok(Answer::Block { hash, height, header })
}

/// `blockchain.transaction.get_merkle`.
pub(crate) fn merkle(at: &Snapshot, txid: Txid, height: Option<Height>) -> Result<Answer, RpcError> {
    let height = match height {
        Some(height) => height,
        None => at.transaction_block(txid)?.ok_or_else(|| unknown(txid))?.height,
    };
    let branch = at
        .merkle(txid, height)?
        .ok_or_else(|| RpcError::bad_request(format!("tx {txid} not in block at height {height}")))?;
    Ok(Answer::Merkle { branch, height })
}

/// `blockchain.transaction.id_from_pos`.
pub(crate) fn txid_at(at: &Snapshot, height: Height, position: u32) -> Result<Answer, RpcError> {
    match at.transaction_at(height, position)? {
        Some((txid, _)) => Ok(Answer::Txid(txid)),
        None => Err(nothing_at(height, position)),
    }
}

/// `blockchain.transaction.id_from_pos` with `merkle`.
pub(crate) fn merkle_at(at: &Snapshot, height: Height, position: u32) -> Result<Answer, RpcError> {
    match at.transaction_at(height, position)? {
        Some((txid, branch)) => Ok(Answer::TxidMerkle { txid, branch }),
        None => Err(nothing_at(height, position)),
    }
}

fn nothing_at(height: Height, position: u32) -> RpcError {
    RpcError::bad_request(format!("no tx at position {position} in block at height {height}"))
}

fn unknown(txid: Txid) -> RpcError {
    RpcError::bad_request(format!("no transaction {txid} was found"))
}
