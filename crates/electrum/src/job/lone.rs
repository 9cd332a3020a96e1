//! The read of a request that came alone, on the thread on which it arrived.
//!
//! Handing a read to another thread, and its reply back, takes two wake-ups: longer than most reads. So a client that
//! asks one thing at a time is answered where it is listened to, if the answer is a short one (`Snapshot::short`) and
//! nothing has waited for the disk lately ([`DiskStall`](birdhouse_clients::DiskStall)). Other clients wait for some tens of
//! microseconds, seldom for some hundred: while a reply is not written yet nothing else is read here for its client, so one poll of a
//! connection's task reads once at most.

use std::sync::Arc;
use std::time::Instant;

use crate::dispatch;
use crate::job::reading::{SLOW_READ, times_waited};
use crate::job::{Job, guarded};

impl Job {
    /// Answers the job here. False: threads must.
    pub(super) fn answer_here(self: &Arc<Self>) -> bool {
        if !self.is_lone() {
            return false;
        }
        let began = Instant::now();
        if self.service.disk_stall.is_recent(began) {
            return false;
        }
        let request = self.requests[0].as_ref().expect("only requests are listed in `reads`");
        let waits = times_waited();
        let step = guarded(|| Ok(dispatch::read_short(&self.view, request)));
        // A processor that others have taken away is no disk to wait for.
        if began.elapsed() > SLOW_READ && times_waited() > waits {
            self.service.disk_stall.record(Instant::now());
        }
        let Some(step) = step.transpose() else { return false };
        self.take_step(0, step);
        true
    }

    /// Whether it is one request that reads, of a client that waits for nothing else than its reply.
    fn is_lone(&self) -> bool {
        self.reads.len() == 1 && matches!(self.ids[..], [Some(_)]) && self.connection.outbox.is_idle()
    }
}
