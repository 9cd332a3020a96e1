//! Rules that every change of the index keeps: tips move only where the node's word and the work allow it, and a
//! changed status is announced.

use std::collections::BTreeMap;

use birdhouse_chain::{ScriptHash, Snapshot, Touched, Update};
use bitcoin::ScriptBuf;

use crate::model::{Model, Moment};
use crate::sim::Counts;
use crate::tree::{BlockNumber, Path};
use crate::world::World;

/// The last state that was looked at.
struct Seen {
    at: Moment,
    /// A number for the status of each script.
    statuses: BTreeMap<ScriptBuf, u64>,
    tip: BlockNumber,
}

/// Failures of requests to the node or the store, at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failures {
    None,
    Possible,
}

/// The watch over the updates of an index.
pub(crate) struct Watch {
    last: Option<Seen>,
    /// The last tip that readers saw, announced or not.
    visible: Option<BlockNumber>,
    /// Tips that the node had since the follower last waited.
    recent: Vec<BlockNumber>,
    /// Blocks of the chain below the fork that a person accepted.
    pub(crate) accepted: Option<usize>,
    depth_max: u32,
    /// True if a publish may have failed since the last one that did not: the disk may have what it wrote.
    has_failed: bool,
    pub(crate) counts: Counts,
}

impl Watch {
    pub(crate) fn new(depth_max: u32) -> Self {
        Self {
            last: None,
            visible: None,
            recent: Vec::new(),
            accepted: None,
            depth_max,
            has_failed: false,
            counts: Counts::default(),
        }
    }

    /// Notes the tip of the node.
    pub(crate) fn note_tip(&mut self, tip: BlockNumber) {
        if self.recent.last() != Some(&tip) {
            self.recent.push(tip);
        }
    }

    /// The follower waits: what it decides next follows from what the node has from now on.
    pub(crate) fn begin_round(&mut self) {
        if !self.has_failed {
            self.recent.drain(..self.recent.len().saturating_sub(1));
        }
    }

    /// A write failed, perhaps that of a publish.
    pub(crate) fn write_failed(&mut self) {
        self.has_failed = true;
    }

    /// A publish succeeded: the disk has this one.
    pub(crate) fn published(&mut self) {
        self.has_failed = false;
    }

    /// Looks at the first snapshot of an index that was opened.
    pub(crate) fn opened(&mut self, world: &World, snapshot: &Snapshot) -> Result<(), String> {
        let seen = see(world, snapshot)?;
        self.shows(world, seen.tip).map_err(|error| format!("opened again: {error}"))?;
        self.last = Some(seen);
        self.has_failed = false;
        Ok(())
    }

    /// Looks at an update.
    pub(crate) fn updated(&mut self, world: &World, update: &Update, failures: Failures) -> Result<(), String> {
        self.counts.updates += 1;
        let seen = see(world, &update.snapshot)?;
        self.shows(world, seen.tip)?;
        let last = self.last.as_ref().expect("an index was opened");
        let has_moved = last.tip != seen.tip;
        // A listing of the mempool while the node was elsewhere for a moment is that of another tip. The index may go
        // to a block as soon as the node has it below its tip.
        let has_it = |tip: &BlockNumber| world.tree.is_on(&world.tree.path(*tip), seen.tip);
        let mut since = self.recent.iter().skip_while(|tip| !has_it(tip));
        if failures == Failures::None && has_moved && since.all(|tip| *tip == seen.tip) && world.node.tip() == seen.tip
        {
            returned(world, last, &seen)?;
        }
        if let Touched::Scripts(touched) = &update.touched {
            for script in world.tree.scripts() {
                let has_changed = last.statuses.get(script) != seen.statuses.get(script);
                if has_changed && touched.binary_search(&ScriptHash::of(script.as_bytes())).is_err() {
                    return Err(format!(
                        "the status of script {script:x} changed at height {} and nobody is told",
                        seen.at.path.len() - 1
                    ));
                }
            }
        }
        self.last = Some(seen);
        Ok(())
    }

    /// Notes the tip that readers see. An index that changes to a longer branch has some tips on the way, and announces
    /// the last one alone, so each move is judged, not only those between two updates.
    pub(crate) fn shows(&mut self, world: &World, tip: BlockNumber) -> Result<(), String> {
        let Some(before) = self.visible.replace(tip).filter(|before| *before != tip) else { return Ok(()) };
        self.allows(world, before, tip)?;
        self.accepted = None;
        Ok(())
    }

    fn allows(&self, world: &World, before: BlockNumber, after: BlockNumber) -> Result<(), String> {
        let tree = &world.tree;
        let (old, new) = (&tree.path(before), &tree.path(after));
        let shared = shared(old, new);
        let depth = old.len() - shared;
        let work = |block: BlockNumber| tree.block(block).work;
        let has = |tip: &&BlockNumber| tree.is_on(&tree.path(**tip), after);
        let move_of = || format!("the tip moved from block {before} to {after}, {depth} blocks back");
        let mut with = self.recent.iter().filter(has).peekable();
        if with.peek().is_none() {
            return Err(format!("{}; no chain of the node had it", move_of()));
        }
        if depth == 0 {
            return Ok(());
        }
        if depth > self.depth_max as usize && self.accepted.is_none_or(|accepted| shared < accepted) {
            return Err(format!("{}; the setting allows {}", move_of(), self.depth_max));
        }
        let was_invalid = old.iter().any(|block| world.ever_invalid.contains(block));
        let is_better = |tip: &BlockNumber| {
            // Of two chains with as much work, the node may prefer either once it has connected both.
            let was_connected = world.node.ever_connected.contains(&before);
            let is_preferred = work(*tip) == work(before) && (was_connected || world.ever_preferred.contains(tip));
            (work(*tip) > work(before) || is_preferred) && shared < new.len()
        };
        if was_invalid || with.any(is_better) {
            return Ok(());
        }
        Err(format!("{}, to less work, and the node never changed its mind", move_of()))
    }
}

/// Transactions of stale blocks are in the mempool at once, if the node has them there.
fn returned(world: &World, last: &Seen, seen: &Seen) -> Result<(), String> {
    for block in &last.at.path[shared(&last.at.path, &seen.at.path)..] {
        for txid in &world.tree.block(*block).txids {
            if world.node.pool.has(txid) && !seen.at.pool.contains_key(txid) {
                return Err(format!("{txid} of stale block {block} is neither in the chain nor in the mempool"));
            }
        }
    }
    Ok(())
}

fn shared(old: &Path, new: &Path) -> usize {
    old.iter().zip(new.iter()).take_while(|(old, new)| old == new).count()
}

fn see(world: &World, snapshot: &Snapshot) -> Result<Seen, String> {
    let at = Moment::of(snapshot, &world.tree)?;
    let model = Model { tree: &world.tree, at: &at };
    if let Some(contradiction) = model.contradiction() {
        return Err(format!("{contradiction} at height {}", at.path.len() - 1));
    }
    let marks = world.tree.scripts().filter_map(|script| Some((script.clone(), model.status_number(script)?)));
    let statuses = marks.collect();
    let tip = *at.path.last().expect("a branch has a genesis block");
    Ok(Seen { at, statuses, tip })
}
