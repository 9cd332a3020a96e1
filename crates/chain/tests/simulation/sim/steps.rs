//! Steps of the plan, as they are taken.

use std::sync::atomic::Ordering;
use std::time::Duration;

use birdhouse_chain::Waiting;
use birdhouse_testkit::rng::Rng;

use super::{End, Pause, Sim};
use crate::plan::Step;

impl Sim {
    pub(super) fn take_next_step(&self) {
        let (number, step) = {
            let mut state = self.state.lock();
            let number = state.next_step;
            let Some((_, step)) = self.plan.steps.get(number).copied() else {
                state.next_at = None;
                return;
            };
            state.next_step += 1;
            let now = self.world.lock().now;
            state.next_at = self.plan.steps.get(number + 1).map(|(gap, _)| now + *gap);
            (number, step)
        };
        if !self.skipped.contains(&number) {
            self.take(number, step);
        }
    }

    pub(super) fn take(&self, number: usize, step: Step) {
        let mut rng = self.plan.rng_of(number);
        let did = match step {
            Step::Check => {
                self.check_current();
                self.check_held();
                String::new()
            }
            Step::Hold => self.hold(&mut rng),
            Step::Admit => self.want_admitted(&mut rng),
            Step::Accept => self.accept(),
            Step::DiskFault | Step::ReadFault | Step::PowerCut | Step::Kill | Step::Close => {
                self.disturb(step, &mut rng)
            }
            Step::Calm | Step::Traffic => {
                self.calm_down();
                String::new()
            }
            _ => {
                let did = self.world.lock().change(step, &mut rng);
                if step == Step::StayBehind {
                    self.stay_behind();
                }
                did
            }
        };
        let world = self.world.lock();
        let tip = world.tree.block(world.node.tip());
        let line = format!("{:?} {number} {step:?} {did} (node at {})", world.now, tip.height);
        self.watch.lock().note_tip(world.node.tip());
        drop(world);
        self.state.lock().trace.push(line);
    }

    pub(super) fn hold(&self, rng: &mut Rng) -> String {
        let Some(snapshot) = self.index.lock().as_ref().and_then(|index| index.snapshot().ok()) else {
            return String::new();
        };
        let mut state = self.state.lock();
        if state.held.len() >= 3 {
            let at = rng.index(state.held.len());
            state.held.swap_remove(at);
        }
        state.held.push((rng.next_u64(), snapshot));
        format!("{} snapshots", state.held.len())
    }

    pub(super) fn want_admitted(&self, rng: &mut Rng) -> String {
        let world = self.world.lock();
        if world.node.pool.txs.is_empty() {
            return "nothing".to_owned();
        }
        let txid = rng.pick(&world.node.pool.txs).txid;
        self.state.lock().admit.push(txid);
        txid.to_string()
    }

    /// Admits what clients want to be shown. The follower waits, so it does not hold the mirror.
    pub(super) fn admit(&self) {
        let wanted = std::mem::take(&mut self.state.lock().admit);
        let Some(index) = self.index.lock().clone() else { return };
        for txid in wanted {
            let admitted = index.admit(self, txid);
            let is_waiting = index.waiting().is_some();
            let world = self.world.lock();
            let has_room = world.node.is_healthy(world.now) && self.state.lock().reads_heal_at.is_none();
            let Ok(snapshot) = index.snapshot() else { return };
            let is_in_sync = snapshot.tip() == world.node.best_block(&world.tree) && !is_waiting;
            if has_room && is_in_sync && world.node.pool.has(&txid) {
                let refused = match admitted {
                    Ok(true) => snapshot.mempool().get(&txid).is_none().then(|| "it is not in the mempool".to_owned()),
                    Ok(false) => Some("the index refuses it".to_owned()),
                    Err(error) => Some(error.to_string()),
                };
                if let Some(reason) = refused {
                    drop(world);
                    return self.fail(format!("failed to admit {txid}: {reason}"));
                }
            }
            drop(world);
            self.drain_updates();
        }
    }

    pub(super) fn accept(&self) -> String {
        let accepted = self.index.lock().as_ref().and_then(|index| index.accept_reorg());
        match accepted {
            Some(Waiting::DeepReorg { fork, depth, .. }) => {
                self.watch.lock().accepted = Some(fork.0 as usize + 1);
                format!("{depth} blocks above height {fork}")
            }
            _ => "nothing".to_owned(),
        }
    }

    pub(super) fn disturb(&self, step: Step, rng: &mut Rng) -> String {
        let now = self.now();
        let mut state = self.state.lock();
        if state.dying.is_some() || state.disk_heals_at.is_some() {
            return "already disturbed".to_owned();
        }
        match step {
            Step::ReadFault => {
                state.reads_heal_at = Some(now + Duration::from_millis(rng.below(4000)));
                "some reads".to_owned()
            }
            Step::Close => {
                state.dying = Some(End::Close);
                self.stop.store(true, Ordering::Relaxed);
                String::new()
            }
            Step::DiskFault => {
                let writes = rng.below(30);
                self.store.lock().fail_after(writes);
                state.disk_heals_at = Some(now + Duration::from_millis(rng.below(20_000)));
                format!("after {writes} writes")
            }
            _ => {
                let writes = rng.below(40);
                self.store.lock().fail_after(writes);
                state.dying = Some(if step == Step::Kill { End::Kill } else { End::PowerCut });
                format!("after {writes} writes")
            }
        }
    }

    /// Ends every fault; no step is taken until index and node agree.
    pub(super) fn calm_down(&self) {
        let mut world = self.world.lock();
        let world = &mut *world;
        world.node.heal(&world.tree, world.now);
        let mut state = self.state.lock();
        if state.dying.is_some() {
            // It waited for a write that did not come.
            state.is_dead = true;
            self.stop.store(true, Ordering::Relaxed);
        }
        if state.disk_heals_at.take().is_some() {
            self.store.lock().fail_after(u64::MAX);
        }
        state.reads_heal_at = None;
        state.next_at = None;
        state.pause = Some(Pause::Calm { since: world.now });
    }

    /// Keeps the node behind, if it is, until the index has been looked at.
    pub(super) fn stay_behind(&self) {
        let world = self.world.lock();
        if world.node.behind.is_some() {
            let mut state = self.state.lock();
            state.next_at = None;
            state.pause = Some(Pause::Behind { since: world.now, tip: None });
        }
    }

    pub(super) fn go_on(&self, now: Duration) {
        let mut state = self.state.lock();
        state.pause = None;
        let gap = self.plan.steps.get(state.next_step).map(|(gap, _)| *gap);
        state.next_at = gap.map(|gap| now + gap);
        if gap.is_none() {
            state.is_done = true;
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}
