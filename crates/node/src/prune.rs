//! Deletion of a node's old blocks, as far as nobody needs them: the plan (pure), and the call.
//!
//! Core deletes whole files, of which every block is at least 288 below its tip, and never the newest file. Its answer
//! is the last height without full data, which is not what the call has deleted.
//!
//! Source: Core's `rpc/blockchain.cpp` (`pruneblockchain`), `node/blockstorage.cpp` (`FindFilesToPruneManual`).

use std::time::Duration;

use birdhouse_chain::Height;
use birdhouse_chain::source::SourceResult;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::permanent;
use crate::pruning::{KeptBlocks, PruneInfo, PruneMode};
use crate::rpc::{Rpc, to_source_error};

/// Blocks below its tip that a node never deletes (Core's `MIN_BLOCKS_TO_KEEP`).
const KEPT_BLOCKS: u32 = 288;
/// Time for one call, which writes the node's cache of coins.
const CALL_TIMEOUT: Duration = Duration::from_mins(30);

/// Bounds on deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneBounds {
    /// Blocks below the last one that every index has which are kept: as many as a reorg may take back unasked.
    pub margin_blocks: u32,
    /// Fewest bytes to delete. Each call makes the node write its cache of coins, so a call for each file is too dear.
    pub step_bytes: u64,
}

impl Default for PruneBounds {
    fn default() -> Self {
        Self { margin_blocks: 1000, step_bytes: 10_000_000_000 }
    }
}

/// The blocks of a node on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeDisk {
    /// The blocks that it keeps.
    pub kept: KeptBlocks,
    /// The height of its tip.
    pub tip: Height,
    /// Bytes of its blocks and their undo data.
    pub bytes: u64,
}

/// Blocks to delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunePlan {
    /// Bytes of the node's blocks and undo data.
    pub node_bytes: u64,
    /// The lowest height that it keeps.
    pub first: u32,
    /// The height of its tip.
    pub tip: u32,
    /// The last height that may be deleted: the indexes have read it, and it is far enough below their tip.
    pub last: u32,
    /// Fewest bytes to delete.
    pub step_bytes: u64,
    /// The last height to delete; `None` where too little would be freed.
    pub height: Option<u32>,
    /// Bytes that this frees, estimated from the sizes of the blocks.
    pub freed_bytes: u64,
}

impl NodeDisk {
    /// Asks a node.
    ///
    /// # Errors
    /// The node does not answer.
    pub fn of(rpc: &Rpc) -> SourceResult<Self> {
        #[derive(Deserialize)]
        struct Info {
            blocks: u32,
            size_on_disk: u64,
            #[serde(flatten)]
            pruning: PruneInfo,
        }
        let info: Info = rpc.call("getblockchaininfo", &json!([])).map_err(to_source_error)?;
        Ok(Self { kept: info.pruning.kept(), tip: Height(info.blocks), bytes: info.size_on_disk })
    }

    /// Plans the deletion of the oldest blocks until about `keep_bytes` are left. `indexed` is the last height that
    /// every index has durably read, and `block_bytes` returns the size of a block.
    pub fn plan(
        &self,
        keep_bytes: u64,
        indexed: Height,
        bounds: PruneBounds,
        block_bytes: impl Fn(Height) -> Option<u32>,
    ) -> PrunePlan {
        let (first, tip) = (self.kept.first.0, self.tip.0);
        let last = indexed.0.saturating_sub(bounds.margin_blocks).min(tip.saturating_sub(KEPT_BLOCKS));
        let excess = self.bytes.saturating_sub(keep_bytes);
        let step_bytes = bounds.step_bytes;
        let nothing = PrunePlan { node_bytes: self.bytes, first, tip, last, step_bytes, height: None, freed_bytes: 0 };
        if excess < bounds.step_bytes {
            return nothing;
        }
        let bytes_of = |height: u32| u64::from(block_bytes(Height(height)).unwrap_or(0));
        // Undo data and what lies between blocks count with the blocks.
        let of_blocks: u64 = (first..=tip).map(bytes_of).sum();
        let on_disk =
            |blocks: u64| u64::try_from(u128::from(blocks) * u128::from(self.bytes) / u128::from(of_blocks.max(1)));
        let (mut height, mut freed, mut blocks) = (None, 0, 0);
        for at in first..=last {
            if freed >= excess {
                break;
            }
            blocks += bytes_of(at);
            (height, freed) = (Some(at), on_disk(blocks).unwrap_or(u64::MAX));
        }
        if freed < bounds.step_bytes.max(1) {
            return nothing;
        }
        PrunePlan { height, freed_bytes: freed, ..nothing }
    }
}

impl KeptBlocks {
    /// Checks that the node deletes blocks when it is asked to, and only then.
    ///
    /// # Errors
    /// Permanent, with advice.
    pub fn check_manual(&self) -> SourceResult<()> {
        match self.mode {
            PruneMode::Manual => Ok(()),
            PruneMode::Off => Err(permanent(
                "the node keeps every block; set prune=1 in bitcoin.conf (not beside txindex=1) and restart bitcoind, \
                 which then deletes blocks only when birdhouse asks it to",
            )),
            PruneMode::Automatic => Err(permanent(
                "the node prunes automatically; set prune=1 in bitcoin.conf in place of its size and restart bitcoind, \
                 so that birdhouse decides what may go",
            )),
        }
    }
}

/// Deletes the node's blocks up to `height`, as far as whole files allow. A node that finds nothing to delete is no
/// error.
///
/// # Errors
/// The node refuses or does not answer.
pub fn prune_blocks(rpc: &Rpc, height: Height) -> SourceResult<()> {
    rpc.call_slow::<i64>("pruneblockchain", &json!([height.0]), CALL_TIMEOUT).map(drop).map_err(to_source_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: PruneBounds = PruneBounds { margin_blocks: 100, step_bytes: 50 };

    /// A node with 1001 blocks of 10 bytes, which take 20 each on disk, from `first` on.
    fn node(first: u32) -> NodeDisk {
        let kept = KeptBlocks { mode: PruneMode::Manual, first: Height(first), headers: Height(1000) };
        NodeDisk { kept, tip: Height(1000), bytes: u64::from(1001 - first) * 20 }
    }

    fn planned(first: u32, keep_bytes: u64, indexed: u32) -> (Option<u32>, u64) {
        let plan = node(first).plan(keep_bytes, Height(indexed), BOUNDS, |height| (height.0 <= 1000).then_some(10));
        (plan.height, plan.freed_bytes)
    }

    #[test]
    fn the_oldest_blocks_go_until_enough_is_free() {
        assert_eq!(planned(0, 20_020 - 200, 1000), (Some(9), 200));
        assert_eq!(planned(0, 20_020 - 201, 1000), (Some(10), 220));
        assert_eq!(planned(300, 701 * 20 - 60, 1000), (Some(302), 60));
    }

    #[test]
    fn what_an_index_or_the_node_needs_stays() {
        // The node keeps 288 blocks below its tip.
        assert_eq!(planned(0, 0, 1000), (Some(712), 713 * 20));
        // The index has blocks up to 600.
        assert_eq!(planned(0, 0, 600), (Some(500), 501 * 20));
        for indexed in [0, 99, 100] {
            assert_eq!(planned(0, 0, indexed), (None, 0), "{indexed}");
        }
        assert_eq!(planned(500, 0, 600), (None, 0));
        assert_eq!(planned(600, 0, 600), (None, 0));
    }

    #[test]
    fn a_call_that_frees_too_little_is_not_made() {
        // Whole blocks of 20 bytes go, once there are 50 bytes more than are kept.
        assert_eq!(planned(0, 20_020 - 49, 1000), (None, 0));
        assert_eq!(planned(0, 20_020 - 50, 1000), (Some(2), 60));
        assert_eq!(planned(0, 20_020, 1000), (None, 0));
        assert_eq!(planned(0, u64::MAX, 1000), (None, 0));
    }
}
