//! Looks at the index: while the follower waits, and while readers ask.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::Snapshot;
use birdhouse_testkit::rng::Rng;
use bitcoin::Txid;

use super::{Pause, Sim};
use crate::check::{Comparison, Excused, Extent};
use crate::model::{Model, Moment};
use crate::plan::Step;
use crate::tree::{BlockNumber, GENESIS};
use crate::watch::Failures;
use crate::world::World;

/// Virtual time in which index and node must agree once nothing happens any more: twice the longest pause after a
/// failure.
const SETTLE_MAX: Duration = Duration::from_secs(130);
/// Begins the description of a difference in a snapshot that somebody kept.
const HELD: &str = "a held snapshot: ";
/// Virtual time for which a node that is behind is watched.
pub(super) const BEHIND: Duration = Duration::from_secs(15);
/// Virtual time for which transactions come while index and node must agree again and again, and how often they must.
const TRAFFIC: Duration = Duration::from_secs(12);
const AGREE_WITHIN: Duration = Duration::from_secs(4);
/// The longest pause of the follower after a request that failed. They agree during such a pause if nothing changes.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

impl Sim {
    /// Looks at the index while the follower waits.
    pub(super) fn look(&self) {
        let pause = self.state.lock().pause;
        let now = self.now();
        match pause {
            None => {}
            Some(Pause::Calm { since }) => self.look_in_calm(now, since),
            Some(Pause::Behind { since, tip }) => self.look_behind(now, since, tip),
            Some(Pause::Traffic { until, agreed, next }) => self.look_in_traffic(now, until, agreed, next),
        }
    }

    /// The difference between index and node, if any.
    pub(super) fn disagreement(&self) -> Option<String> {
        let index = self.index.lock().clone()?;
        let snapshot = index.snapshot().ok()?;
        let waiting = index.waiting().map(|waiting| waiting.to_string());
        let world = self.world.lock();
        let best = world.node.best_block(&world.tree);
        let ours: BTreeSet<&Txid> = snapshot.mempool().txids().collect();
        let theirs: BTreeSet<&Txid> = world.node.pool.txs.iter().map(|known| &known.txid).collect();
        let is_equal = snapshot.tip() == best && ours == theirs && waiting.is_none();
        (!is_equal).then(|| {
            let (tip, more) = (snapshot.tip().height, ours.difference(&theirs).count());
            let fewer = theirs.difference(&ours).count();
            format!(
                "the index is at {tip}, the node at {}; {more} transactions too many, {fewer} too few; waiting: {waiting:?}",
                best.height
            )
        })
    }

    pub(super) fn look_in_calm(&self, now: Duration, since: Duration) {
        if let Some(difference) = self.disagreement() {
            self.accept();
            if now > since + SETTLE_MAX {
                self.fail(format!("stuck for {SETTLE_MAX:?}: {difference}"));
            }
            return;
        }
        self.check_everything();
        let step = self.state.lock().next_step.checked_sub(1);
        let is_traffic = step.is_some_and(|step| self.plan.steps[step].1 == Step::Traffic);
        if is_traffic && !self.has_stopped() {
            let traffic = Pause::Traffic { until: now + TRAFFIC, agreed: now + RETRY_PAUSE_MAX, next: now };
            self.state.lock().pause = Some(traffic);
        } else {
            self.go_on(now);
        }
    }

    pub(super) fn look_in_traffic(&self, now: Duration, until: Duration, agreed: Duration, next: Duration) {
        let difference = self.disagreement();
        let agreed = if difference.is_none() { agreed.max(now) } else { agreed };
        if let Some(difference) = difference
            && now > agreed + AGREE_WITHIN
        {
            return self.fail(format!("no agreement for {AGREE_WITHIN:?} of traffic: {difference}"));
        }
        if now >= until {
            return self.go_on(now);
        }
        let mut next = next;
        if now >= next {
            let mut state = self.state.lock();
            let mut rng = Rng::new(state.rng.next_u64());
            drop(state);
            let mut world = self.world.lock();
            let steps = [Step::Pay, Step::Pay, Step::Evict, Step::Replace, Step::Evict, Step::Mine];
            let step = *rng.pick(&steps);
            world.change(step, &mut rng);
            next = now + Duration::from_millis(300 + rng.below(500));
            self.watch.lock().note_tip(world.node.tip());
            state = self.state.lock();
            state.pause = Some(Pause::Traffic { until, agreed, next });
            return;
        }
        self.state.lock().pause = Some(Pause::Traffic { until, agreed, next });
    }

    pub(super) fn look_behind(&self, now: Duration, since: Duration, tip: Option<BlockNumber>) {
        let Some(index) = self.index.lock().clone() else { return };
        let Ok(snapshot) = index.snapshot() else { return };
        let waiting = index.waiting().map(|waiting| waiting.kind());
        let world = self.world.lock();
        let found = world.tree.find(&snapshot.tip().hash).unwrap_or(GENESIS);
        let Some(tip) = tip else {
            // What was under way has ended. Only a node with less work is waited for.
            let is_less = world.tree.block(world.node.tip()).work < world.tree.block(found).work;
            let now = world.now;
            drop(world);
            if is_less {
                self.state.lock().pause = Some(Pause::Behind { since: now, tip: Some(found) });
            } else {
                self.go_on(now);
            }
            return;
        };
        if now < since + BEHIND {
            return;
        }
        let lag = world.node.behind.map(|behind| behind.lag);
        let standing = world.node.standing.get(&tip).copied();
        let is_down = world.now < world.node.down_until || world.node.flaky > 0;
        drop(world);
        let is_disturbed = {
            let state = self.state.lock();
            state.disk_heals_at.is_some() || state.dying.is_some() || state.reads_heal_at.is_some()
        };
        if found != tip && !is_disturbed {
            self.fail(format!("a node that is behind ({lag:?}) moved the index from block {tip} to {found}"));
        }
        let expected = lag.map(|lag| lag.expected(standing.as_ref()));
        // The follower may still pause after a failure.
        let may_pause = waiting == Some("index failed") && now < since + SETTLE_MAX;
        if may_pause && found == tip {
            return;
        }
        if !is_down && !is_disturbed && waiting != expected {
            self.fail(format!("the node is behind ({lag:?}), and the index says {waiting:?}"));
        }
        self.check_current();
        self.go_on(now);
    }

    /// The failures that answers at a moment may have.
    pub(super) fn excused(&self, world: &World, at: Option<&Moment>) -> Excused {
        let has_blocks = at.is_some_and(|at| at.path.iter().all(|block| world.node.has_data(*block)));
        let is_reading = self.state.lock().reads_heal_at.is_some();
        Excused { node: !has_blocks || !world.node.is_healthy(world.now), store: is_reading }
    }

    /// Asks the current snapshot some questions.
    pub(super) fn check_current(&self) {
        let Some(index) = self.index.lock().clone() else { return };
        let Ok(snapshot) = index.snapshot() else { return };
        let seed = self.state.lock().rng.next_u64();
        self.check(&snapshot, &mut Rng::new(seed), Extent::Some, "");
    }

    /// Asks the held snapshots some questions.
    pub(super) fn check_held(&self) {
        let held: Vec<_> = self.state.lock().held.iter().map(|(seed, at)| (*seed, Arc::clone(at))).collect();
        for (seed, snapshot) in held {
            self.check(&snapshot, &mut Rng::new(seed), Extent::Some, HELD);
        }
    }

    pub(super) fn check_everything(&self) {
        self.check_held();
        let Some(index) = self.index.lock().clone() else { return };
        let Ok(snapshot) = index.snapshot() else { return };
        let seed = self.state.lock().rng.next_u64();
        self.check(&snapshot, &mut Rng::new(seed), Extent::Everything, "settled: ");
    }

    pub(super) fn check(&self, snapshot: &Snapshot, rng: &mut Rng, extent: Extent, context: &str) {
        // The index reads blocks from the node while it answers, so the world is not locked meanwhile.
        let (tree, at, excused) = {
            let world = self.world.lock();
            let at = Moment::of(snapshot, &world.tree);
            let excused = self.excused(&world, at.as_ref().ok());
            (Arc::clone(&world.tree), at, excused)
        };
        let compared = at.and_then(|at| {
            let model = Model { tree: &tree, at: &at };
            let is_current = context != HELD;
            Comparison { snapshot, model, excused, is_current }.all(extent, rng)
        });
        self.watch.lock().counts.checks += 1;
        if let Err(difference) = compared {
            let (tip, len) = (snapshot.tip(), snapshot.mempool().len());
            self.fail(format!("{context}{difference} (at height {}, {len} unconfirmed)", tip.height));
        }
    }

    /// Looks at every update since the last look, then at the tip.
    pub(super) fn drain_updates(&self) {
        let mut updates = self.updates.lock();
        let Some(receiver) = updates.as_mut() else { return };
        while let Ok(update) = receiver.try_recv() {
            let world = self.world.lock();
            let is_clear = world.node.is_healthy(world.now) && self.state.lock().reads_heal_at.is_none();
            let failures = if is_clear { Failures::None } else { Failures::Possible };
            let noted = self.watch.lock().updated(&world, &update, failures);
            drop(world);
            if let Err(difference) = noted {
                self.fail(difference);
            }
        }
        drop(updates);
        let index = self.index.lock().clone();
        let Some(Ok(snapshot)) = index.map(|index| index.snapshot()) else { return };
        let world = self.world.lock();
        let tip = world.tree.find(&snapshot.tip().hash);
        let allowed = tip.map_or_else(
            || Err(format!("the tip {} is no block of the network", snapshot.tip().hash)),
            |tip| self.watch.lock().shows(&world, tip),
        );
        drop(world);
        if let Err(difference) = allowed {
            self.fail(difference);
        }
    }
}
