//! `blockchain.scripthash.*`: the confirmed part; the mempool counts as empty.

use birdhouse_chain::{ScriptHash, Snapshot};

use crate::error::RpcError;
use crate::response::Answer;
use crate::statuses::Statuses;

/// `blockchain.scripthash.get_balance`.
pub(crate) fn balance(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::Balance { confirmed: at.balance(scripthash)? })
}

/// `blockchain.scripthash.get_history`.
pub(crate) fn history(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::History(at.history(scripthash)?))
}

/// `blockchain.scripthash.listunspent`.
pub(crate) fn unspent(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::Unspent(at.unspent(scripthash)?))
}

/// `blockchain.scripthash.subscribe`: its answer.
pub(crate) fn status(statuses: &Statuses, at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::Status(statuses.get(at, scripthash)?))
}
