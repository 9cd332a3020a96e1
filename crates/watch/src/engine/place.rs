//! The place of a transaction in a snapshot.

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Confirmation, Error as ChainError, Snapshot};
use bitcoin::Txid;

use super::step::Place;
use crate::error::Result;
use crate::state::Open;

/// The place of a transaction in a snapshot.
pub(super) fn place(at: &Snapshot, txid: Txid, open: &Open) -> Result<Place> {
    if let Some(block) = open.block
        && at.block_hash(block.height) == Some(block.hash)
    {
        return Ok(Place::Block(block));
    }
    if at.mempool().get(&txid).is_some() {
        return Ok(Place::Mempool);
    }
    if let Some(Confirmation::Confirmed(height)) = at.confirmation(txid)?
        && let Some(hash) = at.block_hash(height)
    {
        return Ok(Place::Block(BlockId { height, hash }));
    }
    for outpoint in &open.spends {
        if let Some((by, _)) = at.mempool().spending_input(outpoint) {
            return Ok(Place::Replaced { by });
        }
    }
    for outpoint in &open.spends {
        match at.spender_of(*outpoint) {
            Ok(Some(spender)) => return Ok(Place::Replaced { by: spender.txid }),
            Ok(None) | Err(ChainError::Removed { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Place::Absent)
}
