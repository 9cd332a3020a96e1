//! The reads of a job, on threads that may wait for the disk.
//!
//! Warm reads need a processor: one thread does them, two when there are many, each with a turn. When reads turn out
//! to wait for the disk, up to [`PARALLEL_MAX`] threads share them, with turns of the disk: a warm batch costs
//! one hop and a cold one keeps the disk busy. No thread works for a client that does not read, nor longer than
//! its turn when others wait: it leaves, and another comes when there is room and a turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::dispatch::{self, Step};
use crate::error::RpcError;
use crate::job::{Job, ask, guarded, too_large};
use crate::meter::Turn;

/// Threads that read for one job at one time.
const PARALLEL_MAX: usize = 16;
/// Warm reads that one thread does before a second is worth its wake-up.
const WARM_SHARE: usize = 25;
/// A read that takes longer may have waited for the disk; a warm one takes a few microseconds.
pub(super) const SLOW_READ: Duration = Duration::from_micros(150);

/// Starts the reads, with the turn in which they were admitted.
pub(super) fn start(job: &Arc<Job>, turn: Turn) {
    if !job.reads.is_empty() {
        job.spawn_reader(turn);
        job.recruit();
    }
}

/// Goes on with reads that nobody does any more.
async fn resume(job: Arc<Job>) {
    if job.connection.outbox.room().await {
        let turn = job.service.processors.take(&job.connection.meter).await;
        job.spawn_reader(turn);
        job.recruit();
    }
}

impl Job {
    fn reads_waiting(&self) -> usize {
        self.reads.len().saturating_sub(self.next_read.load(Ordering::Acquire))
    }

    /// Whether reads wait for the disk: in this job, or in the last one of this client.
    fn is_cold(&self) -> bool {
        self.has_waited.load(Ordering::Relaxed) || self.connection.is_cold.load(Ordering::Relaxed)
    }

    fn readers_wanted(&self) -> usize {
        let waiting = self.reads_waiting();
        if self.is_cold() {
            // Those who read already are not waiting.
            (waiting + self.readers.load(Ordering::Acquire)).min(PARALLEL_MAX)
        } else {
            waiting.div_ceil(WARM_SHARE).min(2)
        }
    }

    /// Adds as many readers as are wanted and may start at once.
    fn recruit(self: &Arc<Self>) {
        let turns = if self.is_cold() { &self.service.disk } else { &self.service.processors };
        while self.readers.load(Ordering::Acquire) < self.readers_wanted() {
            let Some(turn) = turns.try_take(&self.connection.meter) else { return };
            self.spawn_reader(turn);
        }
    }

    fn spawn_reader(self: &Arc<Self>, turn: Turn) {
        self.readers.fetch_add(1, Ordering::AcqRel);
        let job = Arc::clone(self);
        spawn_blocking(move || {
            job.read(turn);
            let was_last = job.readers.fetch_sub(1, Ordering::AcqRel) == 1;
            if was_last && job.reads_waiting() > 0 {
                Handle::current().spawn(resume(job));
            }
        });
    }

    /// Takes reads until none is left, the turn is over, or the client has enough to read.
    fn read(self: &Arc<Self>, mut turn: Turn) {
        // One read alone would not gain by what is learnt here.
        let waits = if self.reads.len() > 1 { times_waited() } else { 0 };
        let mut began = Instant::now();
        while self.connection.outbox.has_room() {
            let next = self.next_read.fetch_add(1, Ordering::AcqRel);
            let Some(place) = self.reads.get(next).copied() else { break };
            self.read_one(place);
            let ended = Instant::now();
            let was_slow = ended - began > SLOW_READ;
            began = ended;
            // A processor that others have taken away is no disk to wait for.
            if was_slow && self.reads.len() > 1 && times_waited() > waits {
                turn.move_to(&self.service.disk);
                if !self.has_waited.swap(true, Ordering::Relaxed) {
                    self.recruit();
                }
            }
            // Only now: every turn gets something done.
            if turn.is_over() {
                break;
            }
        }
        if self.reads.len() > 1 {
            self.connection.is_cold.store(self.has_waited.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn read_one(self: &Arc<Self>, place: usize) {
        if self.is_full() {
            self.answer(place, &Err(too_large()));
            return;
        }
        let request = self.requests[place].as_ref().expect("only requests are listed in `reads`");
        self.take_step(place, guarded(|| Ok(dispatch::read(&self.service, &self.view, request))));
    }

    /// Goes on with what a read has come to.
    pub(super) fn take_step(self: &Arc<Self>, place: usize, step: Result<Step, RpcError>) {
        match step {
            Ok(Step::Done(result)) => self.answer(place, &result),
            Ok(Step::AskNode) => drop(Handle::current().spawn(ask(Arc::clone(self), place))),
            Err(error) => self.answer(place, &Err(error)),
        }
    }
}

/// How often this thread has given up its processor by itself: to wait for a disk, a lock, or the node.
pub(super) fn times_waited() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches())
}
