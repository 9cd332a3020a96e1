//! Derived indexes at the tip: one loop brings all of them to the chain of the index, piece by piece.
//!
//! A tip is announced after the derived indexes that covered the tip before it have it. One that is behind, fails, or
//! lacks more than 16 blocks delays no announcement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::derived::{DerivedIndex, DerivedProgress};
use crate::error::Result;
use crate::state::Snapshot;
use crate::tip::index::Index;
use crate::tweaks::Tweaks;

/// Pause between two looks at the tip.
const LOOK: Duration = Duration::from_millis(500);
/// Pause before a failed piece is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Blocks of one step to the tip that a derived index gets before they are announced. After a longer step it is behind,
/// and follows in the background.
const ANNOUNCED_BLOCKS_MAX: u32 = 16;
/// Blocks after which the progress is logged.
const LOGGED_BLOCKS: u32 = 50_000;

/// A derived index that is followed.
struct Followed {
    index: Arc<DerivedIndex>,
    /// Time before which it is not tried again, after a failure.
    due: Option<Duration>,
    /// Blocks at the last line of the log.
    logged: u32,
}

impl Index {
    /// Sets the derived indexes that are kept beside this one. The first call counts.
    pub fn set_derived(&self, derived: Vec<Arc<DerivedIndex>>) {
        if self.derived.set(derived).is_ok() {
            self.shared.has_tweaks.store(Tweaks::among(self.derived()).is_some(), Ordering::Release);
        }
    }

    /// Returns the derived indexes that are kept beside this one.
    pub fn derived(&self) -> &[Arc<DerivedIndex>] {
        self.derived.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the progress of each derived index.
    pub fn derived_progress(&self) -> Vec<DerivedProgress> {
        let (at, (_, built)) = (self.built().ok(), self.progress().blocks());
        let built = u32::try_from(built).unwrap_or(u32::MAX);
        self.derived().iter().map(|derived| derived.progress(at.as_deref(), built)).collect()
    }

    /// Brings the derived indexes that cover `before` to the next tip, before it is announced. One that is behind, or
    /// fails, delays no announcement.
    pub(super) fn advance_derived(&self, before: &Snapshot, next: &Snapshot) {
        for derived in self.derived() {
            let is_caught_up = derived.len(before) >= before.headers.len();
            if !is_caught_up || next.headers.len() - derived.len(next).min(next.headers.len()) > ANNOUNCED_BLOCKS_MAX {
                continue;
            }
            if let Err(error) = derived.advance(next) {
                tracing::warn!(index = derived.name(), %error, "failed to compute a derived index; announcing the tip");
            }
        }
    }

    /// Brings the derived indexes to the tip once, one after the other, unless `stop` is set.
    ///
    /// # Errors
    /// The first failure of the source or a store. What was published stays.
    pub fn catch_up_derived(&self, stop: &AtomicBool) -> Result<()> {
        // Nothing is built yet.
        let Ok(at) = self.built() else { return Ok(()) };
        for index in self.derived() {
            let mut followed = Followed::of(index);
            while !stop.load(Ordering::Relaxed) && index.advance(&at)? {
                followed.log(index.len(&at), at.headers.len());
            }
        }
        Ok(())
    }

    /// Brings the derived indexes to the chain of this one until `stop`, each by a piece in turn. One that fails is
    /// tried again later, and holds up no other.
    pub fn follow_derived(&self, stop: &AtomicBool) {
        let runtime = &*self.shared.runtime;
        let mut all: Vec<Followed> = self.derived().iter().map(Followed::of).collect();
        while !stop.load(Ordering::Relaxed) {
            // A build gives them the blocks that it reads, which are beyond those that answer early.
            let Ok(at) = self.built() else {
                runtime.sleep(LOOK, stop);
                continue;
            };
            let mut has_moved = false;
            for one in &mut all {
                has_moved |= !stop.load(Ordering::Relaxed) && one.advance(&at, runtime.now());
            }
            if !has_moved {
                runtime.sleep(LOOK, stop);
            }
        }
    }
}

impl Followed {
    fn of(index: &Arc<DerivedIndex>) -> Self {
        Self { index: Arc::clone(index), due: None, logged: 0 }
    }

    /// Computes the next piece, unless it failed a moment ago. Returns true if there was one.
    fn advance(&mut self, at: &Snapshot, now: Duration) -> bool {
        if self.due.is_some_and(|due| now < due) {
            return false;
        }
        match self.index.advance(at) {
            Ok(has_moved) => {
                self.due = None;
                if has_moved {
                    self.log(self.index.len(at), at.headers.len());
                }
                has_moved
            }
            Err(error) => {
                if self.due.is_none() {
                    tracing::warn!(index = self.index.name(), %error, "failed to compute a derived index; trying again");
                }
                self.due = Some(now + RETRY);
                false
            }
        }
    }

    fn log(&mut self, done: u32, blocks: u32) {
        if done >= self.logged + LOGGED_BLOCKS || done == blocks && self.logged + 1 < done {
            tracing::info!(index = self.index.name(), done, blocks, "computed a derived index");
            self.logged = done;
        }
    }
}
