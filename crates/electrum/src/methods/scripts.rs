//! `blockchain.scripthash.*`: chain and mempool together.

use birdhouse_chain::{ScriptHash, Snapshot};

use crate::error::RpcError;
use crate::response::Answer;

/// `blockchain.scripthash.get_balance`.
pub(crate) fn balance(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::Balance(at.balance(scripthash)?))
}

/// `blockchain.scripthash.get_history`.
pub(crate) fn history(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::History { confirmed: at.history(scripthash)?, unconfirmed: at.unconfirmed(scripthash) })
}

/// `blockchain.scripthash.get_mempool`.
pub(crate) fn mempool(at: &Snapshot, scripthash: &ScriptHash) -> Answer {
    Answer::History { confirmed: Vec::new(), unconfirmed: at.unconfirmed(scripthash) }
}

/// `blockchain.scripthash.listunspent`.
pub(crate) fn unspent(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::Unspent(at.unspent(scripthash)?))
}

/// `blockchain.scripthash.subscribe`: its answer.
pub(crate) fn status(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    Ok(Answer::Status(at.status(scripthash)?))
}
