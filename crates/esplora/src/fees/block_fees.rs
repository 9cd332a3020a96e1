//! Fee rates of the transactions of whole blocks, of those blocks that were looked at last.

use std::collections::VecDeque;
use std::sync::Arc;

use birdhouse_chain::{Height, Result, Snapshot};
use bitcoin::BlockHash;
use parking_lot::Mutex;

use crate::fees::projection::{PERCENTILES, rate_at};

/// Blocks whose fees are kept.
const BLOCKS_MAX: usize = 64;

/// Fees of the transactions of a block, without the coinbase.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockFees {
    /// Their sum in satoshis.
    pub total: u64,
    /// Fee rates in sat/vB, ascending: the lowest, percentiles by virtual bytes, the highest. Zeros without
    /// transactions.
    pub rates: [f64; 7],
}

/// Fees of the blocks that were looked at last.
#[derive(Debug, Default)]
pub(crate) struct KnownBlockFees {
    known: Mutex<VecDeque<(BlockHash, Arc<BlockFees>)>>,
}

impl KnownBlockFees {
    pub(crate) fn of(&self, at: &Snapshot, height: Height) -> Result<Option<Arc<BlockFees>>> {
        let Some(hash) = at.block_hash(height) else { return Ok(None) };
        let known = self.known.lock().iter().find(|(known, _)| *known == hash).map(|(_, fees)| Arc::clone(fees));
        if known.is_some() {
            return Ok(known);
        }
        let Some(fees) = read(at, height)?.map(Arc::new) else { return Ok(None) };
        let mut known = self.known.lock();
        known.push_back((hash, Arc::clone(&fees)));
        if known.len() > BLOCKS_MAX {
            known.pop_front();
        }
        Ok(Some(fees))
    }
}

/// Reads the fees of a block; `None` if the node has removed what it spends.
fn read(at: &Snapshot, height: Height) -> Result<Option<BlockFees>> {
    let transactions = at.resolved_in_block(height, 1, u32::MAX)?;
    let mut rates: Vec<(f64, u64)> = Vec::with_capacity(transactions.len());
    let mut total = 0;
    for found in &transactions {
        let Some(fee) = found.fee() else { return Ok(None) };
        let vsize = found.transaction.vsize() as u64;
        total += fee;
        rates.push((quotient(fee, vsize), vsize));
    }
    rates.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
    let vsize: u64 = rates.iter().map(|(_, vsize)| vsize).sum();
    let rates = PERCENTILES.map(|percent| rate_at(&rates, vsize * percent / 100));
    Ok(Some(BlockFees { total, rates }))
}

/// Returns a fee rate in sat/vB.
#[expect(clippy::cast_precision_loss, reason = "fees and sizes are far below 2^52")]
pub fn quotient(fee: u64, vsize: u64) -> f64 {
    fee as f64 / vsize.max(1) as f64
}
