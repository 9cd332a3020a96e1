//! Following the node: its chain, then its mempool, both installed as one snapshot.
//!
//! Invariant: an installed snapshot has each transaction once. A publish of a block removes the transactions that the
//! block confirms from the mempool. After a reorg the mempool is polled before the new tip is installed, for it holds
//! the stale blocks' transactions again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::headers::{ChainBlock, Headers, Step, next_step};
use crate::index::Index;
use crate::ingest::Advanced;
use crate::mempool::Mempool;
use crate::mirror::Mirror;
use crate::snapshot::Snapshot;
use crate::source::{Node, NodeUpdate, SourceErrorKind};
use crate::touched::{Touched, TouchedScripts};
use crate::txnum::Height;

/// The most blocks that are appended together when the index is behind.
const APPEND_BLOCKS_MAX: u32 = 64;
/// The longest wait for an update of the node.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The shortest wait between polls of a node that does not publish the changes of its mempool.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The wait after a poll, as a multiple of its duration: a node with a large mempool has other work, too.
const WAIT_PER_POLL: u32 = 20;
/// Pause before a failed request to the node is repeated: doubled each time, from the first to the second.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

impl Index {
    /// Follows the node until `stop`. Logs and repeats after failures that are not permanent.
    ///
    /// # Errors
    /// A failure that a person must resolve.
    pub fn follow(&self, node: &dyn Node, stop: &AtomicBool) -> Result<()> {
        let mut update = NodeUpdate::Unknown;
        while let Some(next) = patiently(stop, || {
            // If this fails, chain and mempool must be compared again.
            let (update, began) = (std::mem::replace(&mut update, NodeUpdate::Unknown), Instant::now());
            self.apply(node, &update, stop)?;
            self.wait(node, wait_after(&update, began.elapsed()))
        })? {
            update = next;
        }
        Ok(())
    }

    /// Brings the index to the node's tip and mempool once, unless `stop` is set first. Repeats after failures as
    /// [`Self::follow`] does.
    ///
    /// # Errors
    /// A failure that a person must resolve.
    pub fn catch_up(&self, node: &dyn Node, stop: &AtomicBool) -> Result<()> {
        patiently(stop, || self.apply(node, &NodeUpdate::Unknown, stop)).map(drop)
    }

    /// Brings the index to the node's tip and mempool. Returns true if anything changed.
    ///
    /// # Errors
    /// Failures of the node, the source or the store; [`Error::NotReady`] before the first build has finished.
    pub fn sync(&self, node: &dyn Node) -> Result<bool> {
        self.apply(node, &NodeUpdate::Unknown, &AtomicBool::new(false))
    }

    fn wait(&self, node: &dyn Node, at_most: Duration) -> Result<NodeUpdate> {
        let tip = self.snapshot().map_err(|_| Error::NotReady)?.tip();
        Ok(node.wait_for_update(tip.hash, at_most)?)
    }

    /// Applies an update of the node, or compares everything, until index and node agree or `stop` is set. Returns true
    /// if anything changed.
    fn apply(&self, node: &dyn Node, update: &NodeUpdate, stop: &AtomicBool) -> Result<bool> {
        let mut mirror = self.mirror.lock();
        let (mut update, mut changed) = (update, false);
        while !stop.load(Ordering::Relaxed) {
            if *update == NodeUpdate::Unknown || matches!(update, NodeUpdate::Changes { blocks: true, .. }) {
                changed |= self.sync_chain(node, &mut mirror, stop)?;
            }
            let at = self.snapshot().map_err(|_| Error::NotReady)?;
            let mut touched = TouchedScripts::new();
            let applied = match update {
                NodeUpdate::Unknown => None,
                NodeUpdate::Changes { mempool, .. } => mirror.apply(node, &at, mempool, &mut touched)?,
            };
            let mempool = match applied {
                None => mirror.poll(node, &at, &mut touched)?,
                applied => applied,
            };
            if let Some(mempool) = mempool {
                return Ok(self.install_mempool(&at, mempool, touched) || changed);
            }
            // The node's tip moved while its mempool was listed. No update has announced that block yet, so the chain
            // is compared first.
            update = &NodeUpdate::Unknown;
        }
        Ok(changed)
    }

    fn sync_chain(&self, node: &dyn Node, mirror: &mut Mirror, stop: &AtomicBool) -> Result<bool> {
        let mut changed = false;
        while !stop.load(Ordering::Relaxed) {
            let snapshot = self.snapshot().map_err(|_| Error::NotReady)?;
            let best = node.best_block()?;
            let shared = shared_blocks(&snapshot.headers, node, best.height)?;
            match next_step(snapshot.headers.len(), shared, best.height) {
                Step::InSync => return Ok(changed),
                Step::Append { keep } => {
                    let end = best.height.0.saturating_add(1).min(keep.saturating_add(APPEND_BLOCKS_MAX));
                    let hashes = node.block_hashes(Height(keep)..Height(end))?;
                    if let Some(advanced) = self.advance(&snapshot, keep, &hashes)? {
                        self.install_advanced(node, mirror, advanced, keep < snapshot.headers.len());
                        changed = true;
                    }
                }
            }
        }
        Ok(changed)
    }

    fn install_advanced(&self, node: &dyn Node, mirror: &mut Mirror, advanced: Advanced, is_reorg: bool) {
        let Advanced { mut snapshot, mut touched, stale_known } = advanced;
        if is_reorg {
            match mirror.poll(node, &snapshot, &mut touched) {
                Ok(Some(mempool)) => snapshot.mempool = mempool,
                // The tip has moved meanwhile, and the next round polls again.
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "failed to poll the mempool after a reorg"),
            }
        }
        let touched = if stale_known { Touched::Scripts(touched.into_iter().collect()) } else { Touched::Any };
        self.install(snapshot, touched);
    }

    fn install_mempool(&self, at: &Snapshot, mempool: Mempool, touched: TouchedScripts) -> bool {
        // Every change of a mempool touches a script: each transaction spends from one.
        if touched.is_empty() {
            return false;
        }
        tracing::debug!(transactions = mempool.len(), scripts = touched.len(), "mempool changed");
        let snapshot = Snapshot { mempool, ..at.clone() };
        self.install(snapshot, Touched::Scripts(touched.into_iter().collect()));
        true
    }
}

/// The longest wait for the next update after one that took `took` to apply.
fn wait_after(update: &NodeUpdate, took: Duration) -> Duration {
    match update {
        NodeUpdate::Unknown => (took * WAIT_PER_POLL).clamp(WAIT_MIN, WAIT_MAX),
        NodeUpdate::Changes { .. } => WAIT_MAX,
    }
}

/// Repeats `attempt` until it succeeds or fails for good; `None` if `stop` is set first.
fn patiently<T>(stop: &AtomicBool, mut attempt: impl FnMut() -> Result<T>) -> Result<Option<T>> {
    let mut pause = RETRY_MIN;
    while !stop.load(Ordering::Relaxed) {
        match attempt() {
            Ok(done) => {
                if pause > RETRY_MIN {
                    tracing::info!("the node answers again");
                }
                return Ok(Some(done));
            }
            Err(Error::Source(error)) if error.kind != SourceErrorKind::Permanent => {
                tracing::warn!(%error, retry_ms = pause.as_millis(), "the node cannot answer, trying again");
                std::thread::sleep(pause);
                pause = (pause * 2).min(RETRY_MAX);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The number of blocks, from the genesis block on, that our chain and the node's share.
fn shared_blocks(headers: &Headers, node: &dyn Node, best: Height) -> Result<u32> {
    let ours = headers.len();
    let mut known_shared = 0;
    let mut step = 1;
    let mut top = ours.min(best.0.saturating_add(1));
    // Compare the last blocks first, then in growing steps towards the genesis block.
    while top > known_shared {
        let from = top.saturating_sub(step);
        let theirs = node.block_hashes(Height(from)..Height(top))?;
        let agree = |index: &usize| {
            let height = Height(from + u32::try_from(*index).expect("few"));
            headers.get(height).map(ChainBlock::block_hash) == Some(theirs[*index])
        };
        if let Some(last) = (0..theirs.len()).rev().find(agree) {
            known_shared = from + u32::try_from(last).expect("few") + 1;
            break;
        }
        top = from;
        step = (step * 2).min(2000);
    }
    Ok(known_shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_publishes_nothing_is_polled_as_often_as_a_poll_is_cheap() {
        let ms = Duration::from_millis;
        for (took, wait) in [(0, 100), (1, 100), (10, 200), (40, 800), (70_000, 1000)] {
            assert_eq!(wait_after(&NodeUpdate::Unknown, ms(took)), ms(wait));
        }
        assert_eq!(wait_after(&NodeUpdate::Changes { blocks: false, mempool: Vec::new() }, ms(0)), ms(1000));
    }
}
