//! `blockchain.scripthash.*` and `blockchain.scriptpubkey.*`.

use birdhouse_chain::{Confirmation, Height, ScriptHash, Snapshot, UpTo};

use crate::error::RpcError;
use crate::protocol::{Answer, FirstUse, Script};

/// `get_balance`.
pub(crate) fn balance(at: &Snapshot, scripthash: &ScriptHash) -> birdhouse_chain::Result<Answer> {
    Ok(Answer::Balance(at.balance(scripthash)?))
}

/// `get_history`. A history that ends at a height leaves out the mempool.
pub(crate) fn history(
    up_to: UpTo<'_>,
    at: &Snapshot,
    script: Script,
    from: Height,
    to: Option<Height>,
) -> birdhouse_chain::Result<Answer> {
    let confirmed = match (from, to) {
        (Height(0), None) => up_to.history(&script.hash)?,
        (from, to) => up_to.history_between(&script.hash, from..to.unwrap_or(Height(u32::MAX)))?,
    };
    let unconfirmed = if to.is_none() { at.unconfirmed(&script.hash) } else { Vec::new() };
    Ok(Answer::History { confirmed, unconfirmed, naming: script.naming })
}

/// `get_mempool`.
pub(crate) fn mempool(at: &Snapshot, script: Script) -> Answer {
    Answer::History { confirmed: Vec::new(), unconfirmed: at.unconfirmed(&script.hash), naming: script.naming }
}

/// `listunspent`.
pub(crate) fn unspent(up_to: UpTo<'_>, script: Script) -> birdhouse_chain::Result<Answer> {
    Ok(Answer::Unspent { outputs: up_to.unspent(&script.hash)?, naming: script.naming })
}

/// `get_status`, and the answer to `subscribe`.
pub(crate) fn status(at: &Snapshot, scripthash: &ScriptHash) -> birdhouse_chain::Result<Answer> {
    Ok(Answer::Status(at.status(scripthash)?))
}

/// `get_first_use`.
pub(crate) fn first_use(at: &Snapshot, scripthash: &ScriptHash) -> Result<Answer, RpcError> {
    let Some((txid, confirmation)) = at.first_use(scripthash)? else { return Ok(Answer::FirstUse(None)) };
    let block = match confirmation {
        Confirmation::Unconfirmed { .. } => None,
        Confirmation::Confirmed(height) => Some((height, at.block_hash(height).ok_or_else(RpcError::internal)?)),
    };
    Ok(Answer::FirstUse(Some(FirstUse { txid, block })))
}
