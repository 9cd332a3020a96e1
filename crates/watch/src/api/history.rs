//! Transactions of watched scripts in their order: by block, within it as the block has them, then those of the mempool
//! with parents before children. So an output comes before its spending.

use std::collections::{BTreeMap, HashMap, HashSet};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, Result, ScriptHash, Snapshot};
use bitcoin::{BlockHash, Txid};

use crate::api::missing::Missing;
use crate::limits::SCRIPT_HISTORY_MAX;

/// A transaction and its block; `None` in the mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) txid: Txid,
    pub(super) block: Option<BlockId>,
}

impl Entry {
    /// Returns the height of its block.
    pub(super) fn height(&self) -> Option<u32> {
        self.block.map(|block| block.height.0)
    }
}

/// Returns the transactions of these scripts in blocks from a height on, and in the mempool.
///
/// # Errors
/// A script with more than [`SCRIPT_HISTORY_MAX`] transactions, and failures of the index.
pub(super) fn entries(at: &Snapshot, scripts: &[ScriptHash], from: Height) -> Result<Vec<Entry>> {
    let heights = from..Height(at.tip().height.0 + 1);
    let mut blocks: BTreeMap<Height, HashSet<Txid>> = BTreeMap::new();
    let mut unconfirmed = HashSet::new();
    for script in scripts {
        at.charge_step()?;
        if heights.start < heights.end {
            for entry in at.up_to(SCRIPT_HISTORY_MAX).history_between(script, heights.clone())? {
                blocks.entry(entry.height).or_default().insert(entry.txid);
            }
        }
        unconfirmed.extend(at.mempool().txids_of_script(script));
    }
    let (mut entries, mut missing) = (Vec::new(), Missing::default());
    for (height, txids) in blocks {
        let hash =
            at.block_hash(height).unwrap_or_else(|| BlockHash::from_raw_hash(bitcoin::hashes::Hash::all_zeros()));
        let block = Some(BlockId { height, hash });
        let ordered = missing.take(in_order(at, height, txids))?.unwrap_or_default();
        entries.extend(ordered.into_iter().map(|txid| Entry { txid, block }));
    }
    missing.end()?;
    entries.extend(parents_first(at, unconfirmed).into_iter().map(|txid| Entry { txid, block: None }));
    Ok(entries)
}

/// Returns transactions of a block as it has them.
fn in_order(at: &Snapshot, height: Height, txids: HashSet<Txid>) -> Result<Vec<Txid>> {
    if txids.len() < 2 {
        return Ok(txids.into_iter().collect());
    }
    let all = at.txids_of_block(height)?.unwrap_or_default();
    Ok(all.into_iter().filter(|txid| txids.contains(txid)).collect())
}

/// Returns transactions of the mempool by the time of their arrival, but none before one that it spends from.
fn parents_first(at: &Snapshot, txids: HashSet<Txid>) -> Vec<Txid> {
    let mempool = at.mempool();
    let mut left: HashMap<Txid, u64> =
        txids.into_iter().map(|txid| (txid, mempool.get(&txid).map_or(0, |found| found.first_seen))).collect();
    let mut by_time: Vec<Txid> = left.keys().copied().collect();
    by_time.sort_unstable_by_key(|txid| (left[txid], *txid));
    let mut ordered = Vec::with_capacity(by_time.len());
    for txid in by_time {
        let mut waiting = vec![txid];
        while let Some(txid) = waiting.last().copied() {
            if !left.contains_key(&txid) {
                waiting.pop();
                continue;
            }
            let found = mempool.get(&txid);
            let parents = found.into_iter().flat_map(|found| mempool.parents(found));
            let parents: Vec<Txid> = parents.filter(|parent| left.contains_key(parent)).collect();
            if parents.is_empty() {
                waiting.pop();
                left.remove(&txid);
                ordered.push(txid);
            } else {
                waiting.extend(parents);
            }
        }
    }
    ordered
}
