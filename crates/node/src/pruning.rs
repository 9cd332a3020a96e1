//! The blocks that a node keeps, and those that an index still needs (pure).
//!
//! A pruned node serves an index that has read what the node deleted. Deleting must be the operator's act
//! (`prune=1`, manual pruning) until the index is at the tip: nothing holds back a node that deletes by itself.
//!
//! Source: Core's `node/blockstorage.cpp` (`FindFilesToPrune`), `rpc/blockchain.cpp` (`getblockchaininfo`).

use birdhouse_chain::Height;
use birdhouse_chain::source::SourceResult;
use serde::Deserialize;
use serde_json::json;

use crate::error::permanent;
use crate::rpc::{Rpc, to_source_error};

/// Blocks that an index may be behind a node that prunes by itself. It appends them in less time than the node takes
/// to connect those that make it delete more, though a process that is killed reads the blocks of a pack again: some
/// thousands where their records lie on disk.
const AUTOMATIC_GAP_MAX: u32 = 10_000;

/// The way in which a node deletes blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneMode {
    /// It keeps every block.
    Off,
    /// It deletes blocks when its operator asks for it (`prune=1`).
    Manual,
    /// It deletes old blocks by itself (`prune=N`).
    Automatic,
}

/// The blocks that a node keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBlocks {
    /// The way in which it deletes others.
    pub mode: PruneMode,
    /// The lowest height from which it has all blocks and their undo data.
    pub first: Height,
    /// The height of the best header.
    pub headers: Height,
}

/// The fields of `getblockchaininfo` about pruning.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct PruneInfo {
    pub(crate) headers: u32,
    #[serde(default)]
    pruned: bool,
    #[serde(default)]
    automatic_pruning: bool,
    #[serde(default)]
    pruneheight: u32,
}

impl PruneInfo {
    pub(crate) fn kept(&self) -> KeptBlocks {
        let mode = match (self.pruned, self.automatic_pruning) {
            (false, _) => PruneMode::Off,
            (true, false) => PruneMode::Manual,
            (true, true) => PruneMode::Automatic,
        };
        KeptBlocks { mode, first: Height(self.pruneheight), headers: Height(self.headers) }
    }
}

impl KeptBlocks {
    /// Asks a node.
    ///
    /// # Errors
    /// The node does not answer.
    pub fn of(rpc: &Rpc) -> SourceResult<Self> {
        let info: PruneInfo = rpc.call("getblockchaininfo", &json!([])).map_err(to_source_error)?;
        Ok(info.kept())
    }

    /// Checks that an index with this tip can be built or continued from the node.
    ///
    /// # Errors
    /// Permanent: the first block that is missing, or the reason why later ones may be missing, with advice.
    pub fn check(&self, indexed: Option<Height>) -> SourceResult<()> {
        match self.refusal(indexed) {
            Some(refusal) => Err(permanent(refusal)),
            None => Ok(()),
        }
    }

    /// Returns the error of a node that has lost the block which follows `indexed`, with the remedies.
    pub(crate) fn lost_after(&self, indexed: Option<Height>) -> Option<String> {
        let next = next(indexed);
        if self.mode == PruneMode::Off || next >= self.first.0 {
            return None;
        }
        let rebuild = "set prune=1 in bitcoin.conf and start bitcoind -reindex once: it downloads the chain again, and \
                       deletes nothing before birdhouse has read it";
        let lost = format!("the node is pruned and has lost block {next} and all others below {}", self.first);
        let backup = format!("restore the backup of an index of height {} or more", self.first.0 - 1);
        Some(match next {
            0 => format!("{lost}, which the index needs once; {rebuild}. Or {backup}"),
            _ => format!("{lost}, and the index ends at {}; {backup}. Or {rebuild}", next - 1),
        })
    }

    fn refusal(&self, indexed: Option<Height>) -> Option<String> {
        if let Some(lost) = self.lost_after(indexed) {
            return Some(lost);
        }
        let next = next(indexed);
        let gap = self.headers.0.saturating_sub(next.saturating_sub(1));
        let is_far = next == 0 || gap > AUTOMATIC_GAP_MAX;
        (self.mode == PruneMode::Automatic && is_far).then(|| {
            format!(
                "the node prunes automatically, so it deletes blocks before they are indexed ({next} of {} are); set \
                 prune=1 in bitcoin.conf and restart bitcoind, which then deletes only what birdhouse asks it to",
                self.headers.0.saturating_add(1)
            )
        })
    }
}

/// Returns the height of the block that an index with this tip needs next. An index of the genesis block alone is one
/// that has not begun.
fn next(indexed: Option<Height>) -> u32 {
    indexed.filter(|tip| tip.0 > 0).map_or(0, |tip| tip.0 + 1)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_chain::source::SourceErrorKind;

    use super::*;

    fn kept(info: &str) -> KeptBlocks {
        serde_json::from_str::<PruneInfo>(info).unwrap().kept()
    }

    fn said(info: &str, indexed: Option<u32>) -> Option<String> {
        let checked = kept(info).check(indexed.map(Height));
        checked.err().map(|error| {
            assert_eq!(error.kind, SourceErrorKind::Permanent);
            error.message
        })
    }

    const MANUAL: &str = r#"{"headers":900000,"pruned":true,"automatic_pruning":false,"pruneheight":500}"#;
    const AUTOMATIC: &str =
        r#"{"headers":900000,"pruned":true,"automatic_pruning":true,"pruneheight":880000,"prune_target_size":1}"#;

    #[test]
    fn a_node_that_keeps_all_blocks_is_fit_for_every_index() {
        for indexed in [None, Some(0), Some(7)] {
            assert_eq!(said(r#"{"headers":7,"pruned":false}"#, indexed), None);
            // Manual pruning has deleted nothing: as after a first start with prune=1.
            let fresh = r#"{"headers":7,"pruned":true,"automatic_pruning":false,"pruneheight":0}"#;
            assert_eq!(said(fresh, indexed), None);
        }
    }

    #[test]
    fn the_first_missing_block_is_named() {
        for indexed in [None, Some(0)] {
            let none = said(MANUAL, indexed).unwrap();
            assert!(none.contains("lost block 0 ") && none.contains("below 500") && none.contains("prune=1"), "{none}");
            assert!(none.contains("height 499"), "{none}");
        }
        let low = said(MANUAL, Some(498)).unwrap();
        assert!(low.contains("lost block 499 ") && low.contains("ends at 498"), "{low}");
        for indexed in [499, 500, 899_999, 900_000, 900_010] {
            assert_eq!(said(MANUAL, Some(indexed)), None, "{indexed}");
        }
    }

    #[test]
    fn a_node_that_deletes_by_itself_needs_an_index_near_its_tip() {
        let fresh = r#"{"headers":900000,"pruned":true,"automatic_pruning":true,"pruneheight":0}"#;
        for (info, indexed) in [(fresh, None), (fresh, Some(0)), (fresh, Some(889_999))] {
            let refusal = said(info, indexed).unwrap();
            assert!(refusal.contains("before they are indexed") && refusal.contains("prune=1"), "{refusal}");
        }
        assert_eq!(said(fresh, Some(890_000)), None);
        assert!(said(AUTOMATIC, Some(870_000)).unwrap().contains("lost block 870001 "));
        assert_eq!(said(AUTOMATIC, Some(899_990)), None);
    }
}
