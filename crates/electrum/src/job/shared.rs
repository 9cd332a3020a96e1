//! A job: requests of one client that see one snapshot, as the tasks and threads that work on it share it.

use std::sync::Arc;

use birdhouse_chain::giving_way;
use birdhouse_chain::source::BlockPart;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::client::Client;
use crate::error::RpcError;
use crate::job::dispatch;
use crate::job::dispatch::{NodeCall, Step};
use crate::job::read_queue::ReadQueue;
use crate::job::replies::Replies;
use crate::limits::FETCHES_MAX;
use crate::protocol::Answer;
use crate::request::Lane;
use crate::service::{Service, View};

/// Requests that see one snapshot.
pub(super) struct Job {
    pub(super) service: Arc<Service>,
    pub(super) view: View,
    pub(super) reads: ReadQueue,
    pub(super) replies: Replies,
}

impl Job {
    /// Returns the client that asks.
    pub(super) fn client(&self) -> &Client {
        &self.replies.client
    }

    /// Waits until the client has room for further replies; false if it will have none.
    pub(super) async fn room(&self) -> bool {
        self.client().room(self.replies.arrived).await
    }

    /// Answers the request at `index`.
    pub(super) fn answer(&self, index: usize, lane: Lane, result: &Result<Answer, RpcError>) {
        self.replies.answer(&self.service.counters, index, lane, result);
    }

    /// Answers the request at `index` with the outcome of its read, or asks the node, or fetches blocks and reads it
    /// again.
    pub(super) fn finish(self: &Arc<Self>, index: usize, lane: Lane, step: Step) {
        match step {
            Step::Done(result) => {
                self.prefetch(&result);
                self.answer(index, lane, &result);
            }
            Step::Ask(call) => drop(Handle::current().spawn(Arc::clone(self).ask(index, call))),
            Step::Fetch(parts) => drop(Handle::current().spawn(Arc::clone(self).read_again(index, lane, parts))),
        }
    }

    /// Asks the node for the answer to the request at `index`, when the client's turn comes. What the request has sent
    /// for the node counts with replies that the client has not read.
    pub(super) async fn ask(self: Arc<Self>, index: usize, call: NodeCall) {
        let mut held = self.client().outbox.unfinished(usize::MAX);
        if !held.has_room(call.bytes()) {
            let error = RpcError::excessive("requests that wait for the node use up their memory");
            self.answer(index, call.lane(), &Err(error));
            return;
        }
        held.add(call.bytes());
        let call = Arc::new(call);
        for attempt in 1.. {
            let turn = loop {
                if !self.room().await {
                    return;
                }
                let turn = self.service.reads.node_calls.take(&self.client().meter).await;
                // Other calls have answered meanwhile.
                if self.client().outbox.has_room() {
                    break turn;
                }
            };
            let (job, asked) = (Arc::clone(&self), Arc::clone(&call));
            let removed = spawn_blocking(move || {
                let removed =
                    job.answer_unless_removed(index, asked.lane(), dispatch::ask(&job.service, &job.view, &asked));
                // Only now: whoever has the turn next sees whether there is room after this answer.
                drop(turn);
                removed
            });
            let Ok(Some(removed)) = removed.await else { return };
            if let Err(error) = self.fetch(removed, attempt).await {
                self.answer(index, call.lane(), &Err(error));
                return;
            }
        }
    }

    /// Fetches blocks, then reads the request at `index` again.
    async fn read_again(self: Arc<Self>, index: usize, lane: Lane, mut removed: Vec<BlockPart>) {
        for attempt in 1.. {
            if let Err(error) = self.fetch(removed, attempt).await {
                return self.answer(index, lane, &Err(error));
            }
            if !self.room().await {
                return;
            }
            let turn = self.service.reads.processors.take(&self.client().meter).await;
            let job = Arc::clone(&self);
            let read = spawn_blocking(move || {
                let step = giving_way(|| dispatch::read(&job.service, &job.view, job.reads.at(index)));
                let removed = job.answer_unless_removed(index, lane, step);
                drop(turn);
                removed
            });
            match read.await {
                Ok(Some(more)) => removed = more,
                _ => return,
            }
        }
    }

    /// Answers the request at `index` with the outcome of its read, or asks the node; returns the blocks that it needs
    /// and the node has removed, if that is the outcome.
    fn answer_unless_removed(self: &Arc<Self>, index: usize, lane: Lane, step: Step) -> Option<Vec<BlockPart>> {
        match step {
            Step::Fetch(parts) => Some(parts),
            step => {
                self.finish(index, lane, step);
                None
            }
        }
    }

    /// Fetches blocks that the node has removed, each in a turn of the client.
    ///
    /// # Errors
    /// One of them was not fetched in time, or the answer needs too many, or again others.
    async fn fetch(&self, parts: Vec<BlockPart>, attempt: u32) -> Result<(), RpcError> {
        if attempt > FETCHES_MAX {
            return Err(RpcError::removed(parts));
        }
        if self.service.fetch_removed(self.client(), &parts).await { Ok(()) } else { Err(RpcError::removed(parts)) }
    }
}
