//! Turns: the calls of the follower, in which time passes and something may happen.

use std::sync::atomic::Ordering;
use std::time::Duration;

use birdhouse_chain::source::{NodeUpdate, SourceResult};
use bitcoin::BlockHash;

use super::looks::BEHIND;
use super::{Pause, Sim};
use crate::node_state::{self, Message};
use crate::tasks::Work;
use crate::world::World;

/// Calls after which a run is taken for one that never ends.
const CALLS_MAX: u64 = 60_000;

impl Sim {
    pub(crate) fn now(&self) -> Duration {
        self.world.lock().now
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs `part` of the simulation, unless the simulation itself is the caller.
    pub(super) fn alone(&self, part: impl FnOnce()) {
        if self.has_stopped() || self.index.lock().is_none() || self.is_busy.swap(true, Ordering::Relaxed) {
            return;
        }
        part();
        self.is_busy.store(false, Ordering::Relaxed);
    }

    /// A turn at a call of the follower: a moment passes, and something may happen in it.
    pub(crate) fn turn(&self) {
        self.alone(|| {
            self.drain_updates();
            let (latency, is_eager, is_curious) = {
                let mut state = self.state.lock();
                state.calls += 1;
                assert!(state.calls < CALLS_MAX, "the follower makes {CALLS_MAX} calls and is not done");
                let latency = Duration::from_micros(state.rng.below(2500));
                let is_eager = state.rng.per_mille(self.plan.eager);
                (latency, is_eager, state.rng.per_mille(self.plan.curious))
            };
            let until = self.now() + latency;
            self.pass_until(until);
            // The step that was due may have been a calm.
            if is_eager && self.state.lock().pause.is_none() && !self.has_stopped() {
                self.take_next_step();
            }
            if is_curious && !self.has_stopped() {
                self.check_current();
            }
            self.tasks.run_due(self.now());
            self.drain_updates();
        });
    }

    /// A turn before a write: only readers ask, or something happens at the node.
    pub(crate) fn before_write(&self) {
        self.turn();
    }

    /// The disk has a manifest.
    pub(crate) fn published(&self) {
        self.watch.lock().published();
    }

    pub(crate) fn write_failed(&self) {
        self.watch.lock().write_failed();
        let mut state = self.state.lock();
        if state.dying.is_some() && state.disk_heals_at.is_none() {
            state.is_dead = true;
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn read_fails(&self) -> bool {
        let mut state = self.state.lock();
        state.reads_heal_at.is_some() && state.rng.per_mille(60)
    }

    /// Returns true if the disk has no room for a merge of the oldest pack now.
    pub(crate) fn is_disk_scarce(&self) -> bool {
        self.state.lock().rng.per_mille(250)
    }

    /// Lets time pass until a moment, with the steps and everything else that is due.
    pub(super) fn pass_until(&self, until: Duration) {
        loop {
            let due = self.state.lock().next_at.filter(|due| *due <= until);
            let Some(due) = due else { break };
            {
                let mut world = self.world.lock();
                world.now = world.now.max(due);
            }
            self.take_next_step();
            if self.has_stopped() {
                return;
            }
        }
        let mut world = self.world.lock();
        let world = &mut *world;
        world.now = world.now.max(until);
        let mut state = self.state.lock();
        if state.disk_heals_at.is_some_and(|at| world.now >= at) {
            state.disk_heals_at = None;
            self.store.lock().fail_after(u64::MAX);
        }
        if state.reads_heal_at.is_some_and(|at| world.now >= at) {
            state.reads_heal_at = None;
        }
        if !matches!(state.pause, Some(Pause::Behind { .. })) {
            world.node.catch_up(&world.tree, world.now);
        }
        self.watch.lock().note_tip(world.node.tip());
    }

    /// Lets the follower wait until a moment, or until `is_over`.
    pub(super) fn wait_until(&self, until: Duration, is_over: impl Fn(&World) -> bool) {
        self.alone(|| {
            self.drain_updates();
            self.watch.lock().begin_round();
        });
        loop {
            self.alone(|| {
                self.drain_updates();
                self.tasks.run_due(self.now());
                self.admit();
                self.look();
            });
            if self.has_stopped() {
                return;
            }
            {
                let world = self.world.lock();
                if world.now >= until || is_over(&world) {
                    return;
                }
            }
            let next = self.next_event().map_or(until, |next| next.min(until));
            self.alone(|| self.pass_until(next.max(self.now() + Duration::from_micros(1))));
        }
    }

    /// Time of whatever happens next by itself.
    pub(super) fn next_event(&self) -> Option<Duration> {
        let (now, behind) = {
            let world = self.world.lock();
            (world.now, world.node.behind.map(|behind| behind.next))
        };
        let state = self.state.lock();
        let (behind, traffic) = match state.pause {
            Some(Pause::Behind { since, .. }) => (Some((since + BEHIND).max(now + Duration::from_secs(1))), None),
            Some(Pause::Traffic { next, .. }) => (behind, Some(next)),
            _ => (behind, None),
        };
        let tasks = self.tasks.next();
        [behind, traffic, state.next_at, state.disk_heals_at, tasks].into_iter().flatten().min()
    }

    pub(crate) fn sleep(&self, pause: Duration) {
        let until = self.now() + pause;
        self.wait_until(until, |_| false);
    }

    /// Waits as `CoreNode` does: for messages while the subscription stands, for another tip otherwise.
    pub(crate) fn wait_for_update(&self, known: BlockHash, timeout: Duration) -> NodeUpdate {
        let (now, has_messages) = {
            let world = self.world.lock();
            let zmq = world.node.zmq.as_ref();
            (world.now, zmq.is_some_and(|zmq| zmq.connected_at <= world.now))
        };
        if !has_messages {
            self.wait_until(now + timeout, |world| world.node.best_block(&world.tree).hash != known);
            return NodeUpdate::Unknown;
        }
        let is_sent = |world: &World| world.node.zmq.as_ref().is_some_and(|zmq| !zmq.queue.is_empty());
        self.wait_until(now + timeout, is_sent);
        if is_sent(&self.world.lock()) {
            let gathered = self.now() + Duration::from_millis(10);
            self.wait_until(gathered, |_| false);
        }
        let mut world = self.world.lock();
        let Some(zmq) = &mut world.node.zmq else { return NodeUpdate::Unknown };
        let messages: Vec<Message> = zmq.queue.drain(..).collect();
        if std::mem::take(&mut zmq.missed) || messages.is_empty() {
            return NodeUpdate::Unknown;
        }
        let blocks = messages.iter().any(|message| matches!(message, Message::Block));
        let changes = messages.into_iter().filter_map(|message| match message {
            Message::Block => None,
            Message::Mempool(change) => Some(change),
        });
        NodeUpdate::Changes { mempool: changes.collect(), blocks }
    }

    /// Answers a call of the follower, if the node answers at all.
    pub(crate) fn call<T>(&self, answer: impl FnOnce(&mut World) -> SourceResult<T>) -> SourceResult<T> {
        self.turn();
        let flaky = self.world.lock().node.flaky;
        let fails = flaky > 0 && self.state.lock().rng.per_mille(flaky);
        let mut world = self.world.lock();
        if fails {
            return Err(node_state::down());
        }
        world.node.reachable(world.now)?;
        answer(&mut world)
    }
}

impl Sim {
    /// Begins work beside the follower: it runs after some time, and is known to be done after some more.
    pub(crate) fn spawn(&self, work: Work) -> usize {
        let now = self.now();
        let mut state = self.state.lock();
        let mut delay = || Duration::from_millis(*[0, 5, 300, 4000].get(state.rng.index(4)).expect("one of four"));
        let run_at = now + delay();
        let done_at = run_at + delay();
        self.tasks.push(work, run_at, done_at)
    }
}
