//! Following the node: its chain, then its mempool, both installed as one snapshot.
//!
//! Invariant: an installed snapshot has each transaction once. A publish of a block removes the transactions that the
//! block confirms from the mempool. After a reorg the mempool is polled before the new tip is installed, for it holds
//! the stale blocks' transactions again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bitcoin::BlockHash;

use crate::error::{Error, Result};
use crate::names::{Height, Touched, TouchedScripts};
use crate::outside::{BlockId, Node, NodeProgress, NodeUpdate, Runtime, SourceErrorKind, Waiting};
use crate::state::{ChainBlock, Headers, Mempool, Snapshot};
use crate::tip::fork::{Accepted, Branch, Step, Verdict, decide, next_step};
use crate::tip::index::Index;
use crate::tip::ingest::Advanced;
use crate::tip::mirror::Mirror;
use crate::tip::unannounced::Unannounced;

/// The most blocks that are appended together when the index is behind.
const APPEND_BLOCKS_MAX: u32 = 64;
/// The longest wait for an update of a node that publishes its changes.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The longest wait between listings of the mempool of a node that does not.
const WAIT_POLLING_MAX: Duration = Duration::from_secs(30);
/// The shortest wait between polls of a node that does not publish the changes of its mempool.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The wait after a poll, as a multiple of its duration: a node with a large mempool has other work, too.
const WAIT_PER_POLL: u32 = 20;
/// Pause before a failed request to the node is repeated: doubled each time, from the first to the second.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The same after a failure that a person must resolve.
const FAILED_RETRY_MIN: Duration = Duration::from_secs(5);
const FAILED_RETRY_MAX: Duration = Duration::from_mins(1);
/// Pause before a node that is waited for is asked again: from the first to the second, by the cost of asking.
const ASK_AGAIN_MIN: Duration = Duration::from_secs(1);
const ASK_AGAIN_MAX: Duration = Duration::from_mins(1);
/// Pause between two looks at a node that downloads the chain, so that its blocks are appended together: as long as the
/// last ones took, from the first to the second.
const DOWNLOAD_PAUSE_MIN: Duration = Duration::from_secs(1);
const DOWNLOAD_PAUSE_MAX: Duration = Duration::from_secs(10);
/// The longest wait for the next block after such a pause. A node without peers, or with an old tip, stays in download
/// for ever; its best header may move without its tip.
const DOWNLOAD_WAIT_MAX: Duration = Duration::from_secs(10);
/// Blocks below the tip that are compared in one request. Most reorgs are shallower.
const COMPARED_BLOCKS: u32 = 16;

/// Result of a comparison of the chains.
#[derive(Debug, Default)]
struct Synced {
    changed: bool,
    /// The reason why the index stays at its tip.
    waiting: Option<Waiting>,
}

/// Merges while blocks are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Merges {
    /// On a thread of their own, so that a long catch-up leaves no mountain of deltas.
    Background,
    None,
}

impl Index {
    /// Follows the node until `stop`. Serves the known chain while the node is behind ([`Self::waiting`]) and after
    /// every failure, and tries again.
    ///
    /// # Errors
    /// [`Error::NotReady`] before the first build has finished; [`Error::Store`] with
    /// [`Fenced`](birdhouse_store::Error::Fenced) once another process writes the index.
    pub fn follow(&self, node: &dyn Node, stop: &AtomicBool) -> Result<()> {
        let runtime = &*self.shared.runtime;
        self.in_rounds(stop, |update| {
            let began = runtime.now();
            self.apply_or_wait(node, update, stop)?;
            self.merge_step()?;
            self.wait(node, update, runtime.now().saturating_sub(began), stop)
        })
    }

    /// Repeats `round`, which takes the last update and returns the next one, until `stop`. After a failure chain and
    /// mempool are compared.
    pub(super) fn in_rounds(
        &self,
        stop: &AtomicBool,
        mut round: impl FnMut(&NodeUpdate) -> Result<NodeUpdate>,
    ) -> Result<()> {
        let runtime = &*self.shared.runtime;
        let mut update = NodeUpdate::Unknown;
        let mut failed_pause = FAILED_RETRY_MIN;
        while !stop.load(Ordering::Relaxed) {
            match patiently(runtime, stop, || round(&std::mem::replace(&mut update, NodeUpdate::Unknown))) {
                Ok(next) => {
                    update = next.unwrap_or(NodeUpdate::Unknown);
                    failed_pause = FAILED_RETRY_MIN;
                }
                Err(error) if must_end(&error) => return Err(error),
                Err(error) => {
                    self.following.wait(Waiting::Failed { message: self.shared.storage.damage.advised(&error) });
                    runtime.sleep(failed_pause, stop);
                    failed_pause = (failed_pause * 2).min(FAILED_RETRY_MAX);
                }
            }
        }
        Ok(())
    }

    /// Brings the index to the node's tip and mempool once, unless `stop` is set first. Waits for a node that is
    /// behind, and repeats after failures of the node.
    ///
    /// # Errors
    /// A failure that a person must resolve, [`Error::Waiting`] among them.
    pub fn catch_up(&self, node: &dyn Node, stop: &AtomicBool) -> Result<()> {
        let runtime = &*self.shared.runtime;
        while patiently(runtime, stop, || self.apply_or_wait(node, &NodeUpdate::Unknown, stop))?.is_some() {
            match self.following.waiting() {
                None => break,
                Some(lasting @ (Waiting::DeepReorg { .. } | Waiting::NodeLacksBlocks { .. })) => {
                    return Err(Error::Waiting(lasting));
                }
                Some(_) => runtime.sleep(ASK_AGAIN_MIN, stop),
            }
        }
        Ok(())
    }

    /// Brings the index to the node's tip and mempool, unless the node is behind. Returns true if anything changed.
    /// Begins no merge in the background; see [`Self::merge`].
    ///
    /// # Errors
    /// Failures of the node, the source or the store; [`Error::NotReady`] before the first build has finished.
    pub fn sync(&self, node: &dyn Node) -> Result<bool> {
        self.apply(node, &NodeUpdate::Unknown, &AtomicBool::new(false), Merges::None)
    }

    /// Waits for the next update after one that took `took` to apply.
    fn wait(&self, node: &dyn Node, update: &NodeUpdate, took: Duration, stop: &AtomicBool) -> Result<NodeUpdate> {
        if self.following.waiting().is_some() {
            self.shared.runtime.sleep((took * WAIT_PER_POLL).clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX), stop);
            return Ok(NodeUpdate::Unknown);
        }
        if self.following.download().is_some() {
            return self.wait_for_download(node, took, stop);
        }
        let mut mirror = self.mirror.lock();
        if mirror.is_filling() {
            return Ok(NodeUpdate::Unknown);
        }
        let at_most = match update {
            NodeUpdate::Unknown => wait_after(mirror.listing_cost()),
            NodeUpdate::Changes { .. } => WAIT_MAX,
        };
        drop(mirror);
        if self.following.sleeps_between_looks(&*self.shared.runtime, stop) {
            return Ok(NodeUpdate::Unknown);
        }
        let tip = self.built()?.tip();
        Ok(node.wait_for_update(tip.hash, at_most)?)
    }

    /// Waits for the next blocks of a node that downloads the chain.
    fn wait_for_download(&self, node: &dyn Node, took: Duration, stop: &AtomicBool) -> Result<NodeUpdate> {
        self.shared.runtime.sleep(took.clamp(DOWNLOAD_PAUSE_MIN, DOWNLOAD_PAUSE_MAX), stop);
        if !stop.load(Ordering::Relaxed) {
            node.wait_for_update(self.built()?.tip().hash, DOWNLOAD_WAIT_MAX)?;
        }
        Ok(NodeUpdate::Unknown)
    }

    /// Applies an update of the node; waits where the node lacks the block that follows ours. Once it is known to lack
    /// that one, it is only asked whether it has it again: each attempt to read it searches all block files.
    fn apply_or_wait(&self, node: &dyn Node, update: &NodeUpdate, stop: &AtomicBool) -> Result<()> {
        let lacks = matches!(self.following.waiting(), Some(Waiting::NodeLacksBlocks { .. }));
        if lacks && self.waits_for_blocks(node)? {
            return Ok(());
        }
        match self.apply(node, update, stop, Merges::Background) {
            Err(Error::Source(failed))
                if failed.kind != SourceErrorKind::Transient && self.waits_for_blocks(node)? =>
            {
                Ok(())
            }
            applied => applied.map(drop),
        }
    }

    /// Returns true, with the reason to wait, if the node lacks the block that follows ours.
    fn waits_for_blocks(&self, node: &dyn Node) -> Result<bool> {
        let tip = self.built()?.tip();
        let Some(message) = node.missing_blocks(tip.height)? else { return Ok(false) };
        self.following.wait(Waiting::NodeLacksBlocks { message });
        Ok(true)
    }

    /// Applies an update of the node, or compares everything, until index and node agree or `stop` is set. Returns true
    /// if anything changed.
    fn apply(&self, node: &dyn Node, update: &NodeUpdate, stop: &AtomicBool, merges: Merges) -> Result<bool> {
        let mut mirror = self.mirror.lock();
        self.following.looks(self.shared.runtime.now());
        let (mut update, mut changed) = (update, false);
        while !stop.load(Ordering::Relaxed) {
            if *update == NodeUpdate::Unknown || matches!(update, NodeUpdate::Changes { blocks: true, .. }) {
                let synced = self.sync_chain(node, &mut mirror, stop, merges)?;
                changed |= synced.changed;
                if let Some(reason) = synced.waiting {
                    // The node's mempool follows its tip, so it is not looked at either.
                    self.following.wait(reason);
                    return Ok(changed);
                }
                self.following.go_on();
            }
            let at = self.built()?;
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

    /// Brings the index to the node's tip, and announces it, whatever ends the steps.
    fn sync_chain(&self, node: &dyn Node, mirror: &mut Mirror, stop: &AtomicBool, merges: Merges) -> Result<Synced> {
        let mut unannounced = Unannounced::default();
        let synced = self.step_to_tip(node, mirror, stop, merges, &mut unannounced);
        if let Some(touched) = unannounced.take() {
            self.announce(touched);
        }
        synced
    }

    fn step_to_tip(
        &self,
        node: &dyn Node,
        mirror: &mut Mirror,
        stop: &AtomicBool,
        merges: Merges,
        unannounced: &mut Unannounced,
    ) -> Result<Synced> {
        let (mut synced, mut has_reorged) = (Synced::default(), false);
        while !stop.load(Ordering::Relaxed) {
            let snapshot = self.built()?;
            let NodeProgress { tip: best, best_header } = node.progress()?;
            if let Some(best_header) = best_header {
                self.following.note_download(best.height, best_header);
            }
            let shared = shared_blocks(&snapshot.headers, node, best.height)?;
            match next_step(snapshot.headers.len(), shared, best.height) {
                Step::InSync => {
                    if best_header.is_none() {
                        self.following.end_download();
                    }
                    self.following.end_deep_reorg();
                    break;
                }
                // The node may have left the reorg that is waited for, and may begin another one at any moment.
                Step::Append => self.following.end_deep_reorg(),
                Step::Fork => {
                    let Some(verdict) = self.judge(node, &snapshot.headers, best, shared)? else { continue };
                    if let Verdict::Wait(reason) = verdict {
                        synced.waiting = Some(reason);
                        break;
                    }
                }
            }
            if let Some((mut advanced, is_last)) = self.append_next(&snapshot, shared, node, best, stop)? {
                if shared < snapshot.headers.len() {
                    has_reorged = true;
                    // The word is done: it covers no reorg that comes on the way to the tip.
                    self.following.end_deep_reorg();
                }
                if has_reorged {
                    mirror.list_next();
                }
                if has_reorged && is_last {
                    bring_back(node, mirror, &mut advanced);
                }
                self.advance_derived(&snapshot, &advanced.snapshot);
                let touched = self.install_advanced(advanced);
                synced.changed = true;
                let now = self.shared.runtime.now();
                unannounced.add(now, touched);
                if let Some(touched) = if is_last { unannounced.take() } else { unannounced.take_overdue(now) } {
                    self.announce(touched);
                }
                if merges == Merges::Background {
                    self.merge_step()?;
                }
            }
        }
        Ok(synced)
    }

    /// Keeps the first `shared` blocks and appends the next ones on the way to `best`. Returns the new tip, and true if
    /// no more follow; `None` when there was nothing to do.
    fn append_next(
        &self,
        snapshot: &Arc<Snapshot>,
        shared: u32,
        node: &dyn Node,
        best: BlockId,
        stop: &AtomicBool,
    ) -> Result<Option<(Advanced, bool)>> {
        if shared == snapshot.headers.len()
            && let Some(advanced) = self.append_bulk(snapshot, node, best, stop)?
        {
            let is_last = advanced.snapshot.tip().hash == best.hash;
            return Ok(Some((advanced, is_last)));
        }
        let end = best.height.0.saturating_add(1).min(shared.saturating_add(APPEND_BLOCKS_MAX));
        let hashes = node.block_hashes(Height(shared)..Height(end))?;
        let has_returned = hashes.first().is_some_and(|hash| is_ours(&snapshot.headers, Height(shared), *hash));
        if has_returned || hashes.is_empty() && shared < end {
            // The node came back to our chain after it was judged, or its own became shorter: a rollback would serve
            // less than both.
            return Ok(None);
        }
        // Fewer hashes than asked for: the node has lost its best block meanwhile. It may also have another one now.
        let has_shortened = (hashes.len() as u64) < u64::from(end.saturating_sub(shared));
        let ends = has_shortened || end > best.height.0;
        let advanced = self.advance(snapshot, shared, &hashes, stop)?;
        Ok(advanced.map(|advanced| {
            let tip = advanced.snapshot.tip().hash;
            let is_last = ends && hashes.last().is_none_or(|last| *last == tip);
            (advanced, is_last)
        }))
    }

    /// Asks the node about our tip, and decides; `None` if the node has moved from `best` meanwhile.
    fn judge(&self, node: &dyn Node, headers: &Headers, best: BlockId, shared: u32) -> Result<Option<Verdict>> {
        let (tip, fork) = (headers.tip().ok_or(Error::NoBlocks)?, shared.checked_sub(1).map(Height));
        let Some(fork) = fork.and_then(|fork| headers.get(fork)) else {
            let found = node.block_hashes(Height(0)..Height(1))?.first().copied();
            return Err(Error::WrongChain { found: found.unwrap_or(tip.hash), expected: self.genesis_hash() });
        };
        let view = node.chain_view(tip.hash, fork.block_hash())?;
        if view.tip != best {
            return Ok(None);
        }
        let branch = Branch { tip, shared, work: headers.work_from(Height(shared)) };
        let accepted = if self.following.is_accepted(shared) { Accepted::Yes } else { Accepted::No };
        Ok(Some(decide(&branch, &view, self.following.depth_max(), accepted)))
    }

    /// Installs a new tip without an update; returns what it touched.
    pub(super) fn install_advanced(&self, advanced: Advanced) -> Touched {
        let Advanced { snapshot, touched, touched_known } = advanced;
        let touched = if touched_known { Touched::Scripts(touched.into_iter().collect()) } else { Touched::Any };
        self.replace(snapshot, &touched);
        touched
    }

    /// Installs a mempool, and announces it if it differs from that of the snapshot. Returns true if it does.
    pub(super) fn install_mempool(&self, at: &Snapshot, mempool: Mempool, touched: TouchedScripts) -> bool {
        // Every change of transactions touches a script: each spends from one.
        let is_changed = !touched.is_empty() || mempool.rules() != at.mempool.rules();
        if !is_changed && mempool.is_listed() == at.mempool.is_listed() {
            return false;
        }
        tracing::debug!(transactions = mempool.len(), scripts = touched.len(), "mempool changed");
        let (snapshot, touched) = (Snapshot { mempool, ..at.clone() }, Touched::Scripts(touched.into_iter().collect()));
        self.replace(snapshot, &touched);
        if is_changed {
            self.announce(touched);
        }
        is_changed
    }
}

/// Lists the mempool for the tip that ends a reorg: the node has the transactions of stale blocks there.
pub(super) fn bring_back(node: &dyn Node, mirror: &mut Mirror, advanced: &mut Advanced) {
    match mirror.poll(node, &advanced.snapshot, &mut advanced.touched) {
        Ok(Some(mempool)) => advanced.snapshot.mempool = mempool,
        // The tip has moved meanwhile, and the next round polls again.
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "failed to poll the mempool after a reorg"),
    }
}

/// True for an error that another attempt of this process cannot change.
fn must_end(error: &Error) -> bool {
    matches!(error, Error::NotReady | Error::Replaced | Error::Store(birdhouse_store::Error::Fenced { .. }))
}

/// The longest wait after a listing of the mempool with this cost. A new block ends every wait.
pub(super) fn wait_after(cost: Duration) -> Duration {
    (cost * WAIT_PER_POLL).clamp(WAIT_MIN, WAIT_POLLING_MAX)
}

/// Repeats `attempt` until it succeeds or fails for good; `None` if `stop` is set first.
fn patiently<T>(runtime: &dyn Runtime, stop: &AtomicBool, mut attempt: impl FnMut() -> Result<T>) -> Result<Option<T>> {
    let mut pause = RETRY_MIN;
    while !stop.load(Ordering::Relaxed) {
        match attempt() {
            Ok(done) => {
                if pause > RETRY_MIN {
                    tracing::info!("the node answers again");
                }
                return Ok(Some(done));
            }
            // The node may end first.
            Err(Error::Source(_) | Error::Cancelled) if stop.load(Ordering::Relaxed) => return Ok(None),
            Err(Error::Source(error)) if error.kind != SourceErrorKind::Permanent => {
                tracing::warn!(%error, retry_ms = pause.as_millis(), "the node cannot answer, trying again");
                runtime.sleep(pause, stop);
                pause = (pause * 2).min(RETRY_MAX);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The number of blocks, from the genesis block on, that our chain and the node's share.
fn shared_blocks(headers: &Headers, node: &dyn Node, best: Height) -> Result<u32> {
    let top = headers.len().min(best.0.saturating_add(1));
    let from = top.saturating_sub(COMPARED_BLOCKS);
    let theirs = node.block_hashes(Height(from)..Height(top))?;
    let agree = |(height, hash): &(u32, BlockHash)| is_ours(headers, Height(*height), *hash);
    if let Some((height, _)) = (from..).zip(theirs).filter(agree).last() {
        return Ok(height + 1);
    }
    // Blocks below a shared one are shared too.
    let (mut shared, mut not_shared) = (0, from);
    while shared < not_shared {
        let middle = shared + (not_shared - shared) / 2;
        let theirs = node.block_hashes(Height(middle)..Height(middle + 1))?;
        match theirs.first() {
            Some(hash) if is_ours(headers, Height(middle), *hash) => shared = middle + 1,
            _ => not_shared = middle,
        }
    }
    Ok(shared)
}

fn is_ours(headers: &Headers, height: Height, hash: BlockHash) -> bool {
    headers.get(height).map(ChainBlock::block_hash) == Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_publishes_nothing_is_polled_as_often_as_a_listing_is_cheap() {
        let ms = Duration::from_millis;
        for (cost, wait) in [(0, 100), (1, 100), (10, 200), (40, 800), (1000, 20_000), (70_000, 30_000)] {
            assert_eq!(wait_after(ms(cost)), ms(wait));
        }
    }
}
