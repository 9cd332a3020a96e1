//! The reads of a job, on threads that may wait for the disk.
//!
//! Warm reads need a processor: one thread does them, two when there are many, each with a turn. When reads turn out
//! to wait for the disk, up to [`PARALLEL_MAX`] threads share them, with turns of the disk: a warm batch costs one hop
//! and a cold one keeps the disk busy. No thread works for a client that does not read its replies, nor longer than its
//! turn when others wait: it leaves, and another comes when there is room and a turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use birdhouse_chain::giving_way;
use birdhouse_clients::ReadWatch;
use birdhouse_net::{Reads, Turn};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::job::dispatch;
use crate::job::replies::too_large;
use crate::job::shared::Job;
use crate::request::Read;

/// Threads that read for one job at one time.
const PARALLEL_MAX: usize = 16;
/// Warm reads that one thread does before a second is worth its wake-up.
const WARM_SHARE: usize = 25;

/// Starts the reads, with the turn in which they were admitted.
pub(super) fn start(job: &Arc<Job>, turn: Turn) {
    if job.reads.len() > 0 {
        job.spawn_reader(turn);
        job.recruit();
    }
}

/// Goes on with reads that the last thread has left behind.
async fn resume(job: Arc<Job>) {
    if job.room().await {
        let turn = job.service.reads.processors.take(&job.client().meter).await;
        job.spawn_reader(turn);
        job.recruit();
    }
}

impl Job {
    /// Returns true if reads wait for the disk: in this job, or in the last one of this client.
    fn is_stalled(&self) -> bool {
        self.reads.has_stalled() || self.client().is_stalled.load(Ordering::Relaxed)
    }

    /// Returns the number of threads that should read now.
    fn readers_wanted(&self) -> usize {
        let waiting = self.reads.waiting();
        if self.is_stalled() {
            // The reads that threads are busy with are not among those that wait.
            (waiting + self.reads.readers()).min(PARALLEL_MAX)
        } else {
            waiting.div_ceil(WARM_SHARE).min(2)
        }
    }

    /// Adds as many readers as are wanted and may start at once.
    fn recruit(self: &Arc<Self>) {
        let Reads { processors, disk, .. } = &*self.service.reads;
        let turns = if self.is_stalled() { disk } else { processors };
        while self.reads.readers() < self.readers_wanted() {
            let Some(turn) = turns.try_take(&self.client().meter, Instant::now()) else { return };
            self.spawn_reader(turn);
        }
    }

    fn spawn_reader(self: &Arc<Self>, turn: Turn) {
        self.reads.add_reader();
        let job = Arc::clone(self);
        spawn_blocking(move || {
            job.read(turn);
            if job.reads.remove_reader() {
                Handle::current().spawn(resume(job));
            }
        });
    }

    /// Takes reads until none is left, the turn is over, or the client has enough to read.
    fn read(self: &Arc<Self>, mut turn: Turn) {
        // A job of one read has no further reads to speed up. It waits for the disk if others do.
        let mut watch = (self.reads.len() > 1).then(ReadWatch::begin);
        if watch.is_none() {
            self.service.reads.expect_disk(&mut turn);
        }
        while self.client().outbox.has_room() {
            let Some((index, read)) = self.reads.take() else { break };
            self.read_one(*index, read);
            if watch.as_mut().is_some_and(ReadWatch::has_waited) {
                turn.move_to(&self.service.reads.disk);
                if self.reads.note_stall() {
                    self.recruit();
                }
            }
            // Only now: every turn gets something done.
            if turn.is_over() {
                break;
            }
        }
        if watch.is_some() {
            self.client().is_stalled.store(self.reads.has_stalled(), Ordering::Relaxed);
        }
    }

    fn read_one(self: &Arc<Self>, index: usize, read: &Read) {
        if self.replies.is_full() {
            self.answer(index, read.lane(), &Err(too_large()));
            return;
        }
        self.finish(index, read.lane(), giving_way(|| dispatch::read(&self.service, &self.view, read)));
    }
}
