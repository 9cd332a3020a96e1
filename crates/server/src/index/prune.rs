//! Deletion of the node's old blocks once every index has them: `birdhouse prune`, and the setting `node-prune-keep`.
//!
//! Nothing brings a deleted block back but a download, so a block goes only if the index and each derived index that is
//! on have published what they made of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use birdhouse_chain::{Height, Index, Profile, Snapshot};
use birdhouse_node::{FetchCounters, KeptBlocks, NodeDisk, PruneBounds, PrunePlan, Rpc, prune_blocks};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::process::Shutdown;
use crate::storage::IndexStore;

/// Pause between two moments at which a look at the node's disk may be due.
const PAUSE: Duration = Duration::from_secs(5);
/// Time after which the node is asked again although the index has the same tip.
const LOOK_IDLE: Duration = Duration::from_mins(1);
/// Time after which the bytes that can be freed are summed up again: the sizes of all blocks.
const SUM_AGAIN: Duration = Duration::from_mins(5);

/// Deletes old blocks of the node.
pub(crate) struct Pruner {
    pub(super) rpc: Arc<Rpc>,
    pub(super) index: Arc<Index>,
    pub(super) store: IndexStore,
    pub(super) profile: Profile,
    pub(super) bounds: PruneBounds,
    /// Counters of the blocks that are fetched once they are deleted.
    pub(crate) fetches: Arc<FetchCounters>,
    /// Held over a call, so that two do not delete for the same reason.
    pub(super) calling: Mutex<()>,
    /// The last look.
    pub(super) blocks: Mutex<Option<NodeBlocks>>,
}

/// The node's blocks on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeBlocks {
    /// Bytes of blocks and undo data.
    pub(crate) bytes: u64,
    /// The lowest height from which all are there.
    pub(crate) first: Height,
    /// Bytes that can be freed; `None` if the node does not leave that to us.
    pub(crate) prunable_bytes: Option<u64>,
}

/// A look at the node's disk.
#[derive(Debug, Clone, Copy)]
struct Look {
    at: Instant,
    /// The tip of the index.
    tip: Height,
}

impl Look {
    /// Returns `true` if the disk may be another one: each new block makes it grow.
    fn is_old(&self, tip: Height, now: Instant) -> bool {
        tip != self.tip || now.duration_since(self.at) >= LOOK_IDLE
    }
}

/// An offer to delete blocks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) plan: PrunePlan,
    /// The derived index that has read fewer blocks than all others, and so holds deletion back; `None` if they have
    /// what the index has.
    pub(crate) held_by: Option<String>,
    /// Bytes of the index on disk.
    pub(crate) index_bytes: u64,
}

/// The node's disk after a deletion.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pruned {
    /// Bytes that are free now.
    pub(crate) freed_bytes: u64,
    /// Bytes of the node's blocks and undo data.
    pub(crate) node_bytes: u64,
    /// The lowest height that it keeps.
    pub(crate) first: u32,
}

/// The blocks that every index has read.
#[derive(Debug, PartialEq, Eq)]
struct Indexed {
    /// The last one.
    height: Height,
    /// The derived index that has read no more.
    held_by: Option<&'static str>,
}

/// A derived index, and the height of the block that it reads next.
#[derive(Debug, Clone, Copy)]
struct Reader {
    name: &'static str,
    next: Height,
}

impl Indexed {
    /// Returns what an index with this tip and derived indexes have read, beside a node with all blocks from `first`
    /// on. A derived index whose next block is gone cannot go on, and keeping later blocks for it would be in vain.
    fn of(tip: Height, readers: impl Iterator<Item = Reader>, first: Height) -> Self {
        let behind = readers.filter(|reader| reader.next >= first && reader.next <= tip);
        match behind.min_by_key(|reader| reader.next) {
            Some(Reader { name, next }) => Self { height: Height(next.0.saturating_sub(1)), held_by: Some(name) },
            None => Self { height: tip, held_by: None },
        }
    }
}

/// Returns the error of a lean index beside a node that has lost blocks; `None` where it has them all.
pub(crate) fn lean_refusal(profile: Profile, kept: &KeptBlocks) -> Option<String> {
    (profile == Profile::Lean && kept.first.0 > 0).then(|| {
        format!(
            "the profile lean reads txids from the node's blocks, and the node has lost those below {}; build the index \
             with profile = \"full\" beside a node that has all blocks",
            kept.first
        )
    })
}

impl Pruner {
    /// Plans a deletion that leaves about `keep_bytes` of the node's blocks.
    ///
    /// # Errors
    /// The reason why nothing may be deleted.
    pub(crate) fn offer(&self, keep_bytes: u64) -> Result<Offer> {
        self.offer_of(&NodeDisk::of(&self.rpc)?, keep_bytes)
    }

    fn offer_of(&self, node: &NodeDisk, keep_bytes: u64) -> Result<Offer> {
        ensure!(
            self.profile == Profile::Full,
            "failed to prune: the profile lean reads txids from the node's blocks; build the index with profile = \
             \"full\" first"
        );
        if self.store.replica().is_some() {
            bail!("failed to prune: another process writes the index; prune beside that one");
        }
        node.kept.check_manual()?;
        // A build that must begin anew needs all blocks again, though early rows of them answer already.
        ensure!(self.index.is_ready(), "failed to prune: the index is not built yet");
        let at = self.index.snapshot().context("failed to prune")?;
        let sizes = |height| at.block_summary(height).map(|block| block.bytes);
        let Indexed { height, held_by } = self.indexed(&at, node.kept.first);
        let plan = node.plan(keep_bytes, height, self.bounds, sizes);
        let held_by = held_by.map(str::to_owned);
        Ok(Offer {
            plan,
            held_by,
            index_bytes: self.store.sizes().unwrap_or_default().iter().map(|(_, bytes)| bytes).sum(),
        })
    }

    /// Deletes blocks until about `keep_bytes` are left; `None` if there is too little to delete.
    ///
    /// # Errors
    /// The reason why nothing may be deleted, or the node's refusal.
    pub(crate) fn prune(&self, keep_bytes: u64) -> Result<Option<Pruned>> {
        let _calling = self.calling.lock();
        self.prune_of(&NodeDisk::of(&self.rpc)?, keep_bytes)
    }

    /// Deletes blocks as [`Self::prune`] does, of a disk that was looked at under the same lock.
    fn prune_of(&self, node: &NodeDisk, keep_bytes: u64) -> Result<Option<Pruned>> {
        let Offer { plan: PrunePlan { node_bytes, step_bytes, height, .. }, held_by, .. } =
            self.offer_of(node, keep_bytes)?;
        let Some(height) = height else {
            return match held_by {
                Some(name) if node_bytes.saturating_sub(keep_bytes) >= step_bytes => bail!(
                    "{name} has not read the blocks yet that would go; look at its progress in the status, and switch \
                     it off if it cannot go on"
                ),
                _ => Ok(None),
            };
        };
        tracing::info!(height, "deleting the node's blocks up to this height");
        prune_blocks(&self.rpc, Height(height)).context("failed to prune")?;
        self.index.close_deleted_blocks();
        let NodeDisk { kept, bytes, .. } = NodeDisk::of(&self.rpc)?;
        let pruned = Pruned { freed_bytes: node_bytes.saturating_sub(bytes), node_bytes: bytes, first: kept.first.0 };
        tracing::info!(
            freed_mb = pruned.freed_bytes / 1_000_000,
            first = pruned.first,
            "deleted old blocks of the node"
        );
        Ok(Some(pruned))
    }

    /// Returns what all indexes have published, beside a node with all blocks from `first` on.
    fn indexed(&self, at: &Snapshot, first: Height) -> Indexed {
        let derived = self.index.derived().iter();
        let readers = derived.map(|derived| Reader { name: derived.name(), next: Height(derived.len(at)) });
        Indexed::of(at.tip().height, readers, first)
    }

    /// Returns the node's blocks at the last look.
    pub(crate) fn blocks(&self) -> Option<NodeBlocks> {
        *self.blocks.lock()
    }

    /// Looks at the node's disk until shutdown, when the index has a new tip, else once a minute; deletes blocks
    /// whenever enough of them are above `keep_bytes`.
    pub(super) fn watch(&self, keep_bytes: Option<u64>, shutdown: &Shutdown) {
        let (mut logged, mut last, mut summed) = (String::new(), None::<Look>, None::<Instant>);
        while !shutdown.is_requested() {
            let (tip, now) = (self.index.snapshot().map(|at| at.tip().height), Instant::now());
            // While the index is built, or the node is silent, others say so.
            if self.index.is_ready()
                && let Ok(tip) = tip
                && last.is_none_or(|look| look.is_old(tip, now))
            {
                last = Some(Look { at: now, tip });
                match self.look(keep_bytes, &mut summed, now) {
                    // What is left is another look.
                    Ok(Some(_)) => last = None,
                    Ok(None) => {}
                    Err(error) if error == logged => {}
                    Err(error) => {
                        tracing::warn!(error, "the node's blocks are not pruned");
                        logged = error;
                    }
                }
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Asks the node for its disk once, deletes what is above `keep_bytes`, and notes the rest.
    ///
    /// # Errors
    /// The reason why nothing may be deleted.
    fn look(
        &self,
        keep_bytes: Option<u64>,
        summed: &mut Option<Instant>,
        now: Instant,
    ) -> Result<Option<Pruned>, String> {
        let _calling = self.calling.lock();
        let Ok(node) = NodeDisk::of(&self.rpc) else { return Ok(None) };
        let before = self.blocks().filter(|_| summed.is_some_and(|at| now - at < SUM_AGAIN));
        let prunable_bytes = if let Some(before) = before {
            before.prunable_bytes
        } else {
            *summed = Some(now);
            self.offer_of(&node, 0).ok().map(|offer| offer.plan.freed_bytes)
        };
        *self.blocks.lock() = Some(NodeBlocks { bytes: node.bytes, first: node.kept.first, prunable_bytes });
        let pruned = keep_bytes.map(|keep_bytes| self.prune_of(&node, keep_bytes)).transpose();
        if matches!(pruned, Ok(Some(Some(_)))) {
            *summed = None;
        }
        pruned.map(Option::flatten).map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexed(next: &[u32], first: u32) -> (u32, Option<&'static str>) {
        let readers = ["one", "two"].into_iter().zip(next).map(|(name, next)| Reader { name, next: Height(*next) });
        let Indexed { height, held_by } = Indexed::of(Height(900), readers, Height(first));
        (height.0, held_by)
    }

    #[test]
    fn blocks_stay_for_a_derived_index_that_can_go_on_and_for_no_other() {
        assert_eq!(indexed(&[], 0), (900, None));
        assert_eq!(indexed(&[901, 901], 0), (900, None));
        assert_eq!(indexed(&[901, 500], 0), (499, Some("two")));
        assert_eq!(indexed(&[400, 500], 400), (399, Some("one")));
        assert_eq!(indexed(&[0, 901], 0), (0, Some("one")));
        // The block that it needs next is gone.
        assert_eq!(indexed(&[0, 901], 1), (900, None));
        assert_eq!(indexed(&[399, 500], 400), (499, Some("two")));
    }

    #[test]
    fn the_node_is_asked_when_the_index_has_a_new_tip_and_else_once_a_minute() {
        let now = Instant::now();
        let look = Look { at: now, tip: Height(7) };
        assert!(look.is_old(Height(8), now));
        let looks = (0..120).filter(|pause| look.is_old(Height(7), now + PAUSE * *pause)).min();
        assert_eq!(looks, Some(12));
    }
}
