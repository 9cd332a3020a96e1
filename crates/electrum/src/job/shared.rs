//! A job: requests of one client that see one snapshot, as the tasks and threads that work on it share it.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::client::Client;
use crate::error::RpcError;
use crate::job::dispatch;
use crate::job::dispatch::{NodeCall, Step};
use crate::job::read_queue::ReadQueue;
use crate::job::replies::Replies;
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

    /// Answers the request at `index` with the outcome of its read, or asks the node.
    pub(super) fn finish(self: &Arc<Self>, index: usize, lane: Lane, step: Step) {
        match step {
            Step::Done(result) => self.answer(index, lane, &result),
            Step::Ask(call) => drop(Handle::current().spawn(Arc::clone(self).ask(index, call))),
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
        spawn_blocking(move || {
            let result = dispatch::ask(&self.service, &self.view, &call);
            self.answer(index, call.lane(), &result);
            // Only now: whoever has the turn next sees whether there is room after this answer.
            drop((held, turn));
        });
    }
}
