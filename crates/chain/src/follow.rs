//! Following the node: its chain, then its mempool, and showing both as one.
//!
//! Invariant: what is shown has each transaction once. A block takes what it confirms out of the mempool in the publish
//! that brings it; after a reorg the mempool is looked at before the new tip is shown, for it has the stale blocks'
//! transactions again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::headers::{ChainBlock, Headers, Step, next_step};
use crate::index::{Index, Touched};
use crate::ingest::Advanced;
use crate::mempool::{Mempool, TouchedScripts};
use crate::mirror::Mirror;
use crate::query::Snapshot;
use crate::source::{Node, NodeUpdate, SourceErrorKind};
use crate::txnum::Height;
use crate::{Error, Result};

/// Blocks that are appended together, at most, when the index is behind.
const APPEND_BLOCKS_MAX: u32 = 64;
/// How long one wait for news lasts, at most.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// And at least, where the node does not tell its mempool's changes and is looked at instead.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// Then the wait is so many times what the look took: a node with a large mempool has other work, too.
const WAIT_PER_LOOK: u32 = 20;
/// Pause before asking a node again that could not answer: doubled each time, up to the second.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

impl Index {
    /// Follows the node until `stop`. Failures that waiting can mend are logged and waited out.
    ///
    /// # Errors
    /// A failure that a person must mend.
    pub fn follow(&self, node: &dyn Node, stop: &AtomicBool) -> Result<()> {
        let mut news = NodeUpdate::Unknown;
        while let Some(next) = patiently(stop, || {
            // Should this fail, all has to be looked at again.
            let (news, began) = (std::mem::replace(&mut news, NodeUpdate::Unknown), Instant::now());
            self.take(node, &news, stop)?;
            self.wait(node, wait_after(&news, began.elapsed()))
        })? {
            news = next;
        }
        Ok(())
    }

    /// Brings the index to the node's tip and mempool once, unless it is stopped. Waits as [`Self::follow`] does.
    ///
    /// # Errors
    /// A failure that a person must mend.
    pub fn catch_up(&self, node: &dyn Node, stop: &AtomicBool) -> Result<()> {
        patiently(stop, || self.take(node, &NodeUpdate::Unknown, stop)).map(drop)
    }

    /// Brings the index to the node's tip and mempool. Returns whether anything changed.
    pub fn sync(&self, node: &dyn Node) -> Result<bool> {
        self.take(node, &NodeUpdate::Unknown, &AtomicBool::new(false))
    }

    fn wait(&self, node: &dyn Node, at_most: Duration) -> Result<NodeUpdate> {
        let tip = self.snapshot().map_err(|_| Error::NotReady)?.tip();
        Ok(node.wait_for_update(tip.hash, at_most)?)
    }

    /// Applies news of the node, or looks at everything, until index and node agree or `stop`. Returns whether anything changed.
    fn take(&self, node: &dyn Node, news: &NodeUpdate, stop: &AtomicBool) -> Result<bool> {
        let mut mirror = self.mirror.lock().expect("no follower panics");
        let (mut news, mut changed) = (news, false);
        while !stop.load(Ordering::Relaxed) {
            if *news == NodeUpdate::Unknown || matches!(news, NodeUpdate::Changes { blocks: true, .. }) {
                changed |= self.sync_chain(node, &mut mirror, stop)?;
            }
            let at = self.snapshot().map_err(|_| Error::NotReady)?;
            let mut touched = TouchedScripts::new();
            let told = match news {
                NodeUpdate::Unknown => None,
                NodeUpdate::Changes { mempool, .. } => mirror.apply(node, &at, mempool, &mut touched)?,
            };
            let mempool = match told {
                None => mirror.look(node, &at, &mut touched)?,
                told => told,
            };
            if let Some(mempool) = mempool {
                return Ok(self.install_mempool(&at, mempool, touched) || changed);
            }
            // The node's tip moved while its mempool was listed. Nobody told of that block yet, so the chain is looked at first.
            news = &NodeUpdate::Unknown;
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
            match mirror.look(node, &snapshot, &mut touched) {
                Ok(Some(mempool)) => snapshot.mempool = mempool,
                // More blocks are to come.
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "the mempool after a reorg cannot be seen yet"),
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

/// How long to wait for news after such were taken.
fn wait_after(news: &NodeUpdate, took: Duration) -> Duration {
    match news {
        NodeUpdate::Unknown => (took * WAIT_PER_LOOK).clamp(WAIT_MIN, WAIT_MAX),
        NodeUpdate::Changes { .. } => WAIT_MAX,
    }
}

/// Tries until it succeeds, or until `stop`. Failures that waiting can mend are logged and waited out.
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

/// How many blocks our chain and the node's have in common, from the genesis block on.
fn shared_blocks(headers: &Headers, node: &dyn Node, best: Height) -> Result<u32> {
    let ours = headers.len();
    let mut known_shared = 0;
    let mut step = 1;
    let mut top = ours.min(best.0.saturating_add(1));
    // Look at the last blocks first, then in growing steps towards the genesis block.
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
    fn a_node_that_tells_nothing_is_looked_at_as_often_as_a_look_is_cheap() {
        let ms = Duration::from_millis;
        for (took, wait) in [(0, 100), (1, 100), (10, 200), (40, 800), (70_000, 1000)] {
            assert_eq!(wait_after(&NodeUpdate::Unknown, ms(took)), ms(wait));
        }
        assert_eq!(wait_after(&NodeUpdate::Changes { blocks: false, mempool: Vec::new() }, ms(0)), ms(1000));
    }
}
