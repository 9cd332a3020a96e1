//! A turn and a thread for every question.
//!
//! A question that a few rows answer is answered where it was read, if no such read has waited for the disk lately.
//! Others run on a thread that may wait, and so does everything that asks the node. Each holds a turn of its client
//! meanwhile, so a flood waits behind itself. A long answer gives its turn back when other clients wait, and ends when
//! its client has gone or has used its share.

mod long_read;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use birdhouse_chain::source::{BlockPart, Node};
use birdhouse_chain::{Error, Snapshot};
use birdhouse_net::{FetchBounds, Meter, Turn, offload};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::fees::NodeUse;
use crate::limits::{FETCH_PATIENCE, FETCHED_PARTS_MAX, FETCHES_MAX, NODE_PATIENCE};
use crate::service::{Service, Way};
use crate::wire::{Answer, AnswerMemory, Failure, Params};

/// A request, with the view of the index that its answer sees.
pub struct Question<'a> {
    pub(crate) service: &'a Service,
    /// The view of the index that the answer sees.
    pub at: &'a Snapshot,
    /// Parts of the request.
    pub params: &'a Params,
    /// The memory of the answer.
    pub(crate) room: &'a AnswerMemory,
    /// The way of the request.
    pub way: Way,
    pub(crate) node_use: NodeUse,
}

/// A request while it is answered, from one snapshot.
pub(crate) struct ApiRequest {
    pub(crate) meter: Arc<Meter>,
    pub(crate) lane: Lane,
    pub(crate) endpoint: Endpoint,
    pub(crate) at: Arc<Snapshot>,
    pub(crate) params: Params,
    pub(crate) way: Way,
    /// The memory of the answer.
    pub(crate) room: AnswerMemory,
}

/// The function that answers a question.
pub type Endpoint = fn(&Question<'_>) -> Answer;

/// The resource that an endpoint uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Headers and mempool.
    Memory,
    /// A few rows of the index, or many.
    Index,
    /// Many rows or whole blocks, always.
    Blocks,
    /// The node.
    Node,
    /// Figures of the node that are kept, and the node if none is new enough.
    Figures,
}

impl Question<'_> {
    /// Returns the node, for what it alone can answer.
    ///
    /// # Errors
    /// The server has none, or no turn came in time.
    pub(crate) fn node(&self) -> Result<&dyn Node, Failure> {
        let node = self.service.node()?;
        if self.node_use == NodeUse::Silent { Err(Failure::silent_node()) } else { Ok(node) }
    }
}

impl Service {
    /// Answers a request. Fetches blocks that the node has removed, if the answer needs some.
    pub(crate) async fn answer(self: &Arc<Self>, request: &Arc<ApiRequest>) -> Answer {
        let mut answer = self.attempt(request).await;
        for _ in 0..FETCHES_MAX {
            let Some(parts) = removed(&answer) else { break };
            if !self.fetch(&request.meter, &parts).await {
                break;
            }
            answer = self.attempt(request).await;
        }
        answer
    }

    /// Reads for an answer that has begun, in a turn of the client. Fetches blocks that the node has removed, if the
    /// read needs some, and reads again: a read that fails changes nothing.
    pub(crate) async fn read<T>(
        self: &Arc<Self>,
        meter: &Arc<Meter>,
        mut read: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut found = self.offloaded(meter, &mut read).await;
        for _ in 0..FETCHES_MAX {
            let Some(parts) = removed(&found) else { break };
            if !self.fetch(meter, &parts).await {
                break;
            }
            found = self.offloaded(meter, &mut read).await;
        }
        found
    }

    /// Fetches parts of blocks that the node has removed, each in a turn of the client. Returns true if all came in
    /// time.
    async fn fetch(self: &Arc<Self>, meter: &Arc<Meter>, parts: &[BlockPart]) -> bool {
        let bounds = FetchBounds { parts: FETCHED_PARTS_MAX, patience: FETCH_PATIENCE };
        let index = Arc::clone(&self.index);
        self.reads.fetch_within(meter, parts, bounds, move |part| index.fetch_removed(part).is_ok()).await
    }

    async fn attempt(self: &Arc<Self>, request: &Arc<ApiRequest>) -> Answer {
        let ApiRequest { meter, at, .. } = &**request;
        match request.lane {
            Lane::Memory => {
                let _turn = self.reads.processors.take(meter).await;
                self.ask(request, at, NodeUse::NotYet)
            }
            Lane::Index => {
                let ask = |at: &Snapshot| self.ask(request, at, NodeUse::NotYet);
                match self.reads.short(meter, || within_budget(at, ask)).await {
                    Some(answer) => answer,
                    None => self.long_answer(request).await,
                }
            }
            Lane::Blocks => self.long_answer(request).await,
            Lane::Node => self.answer_with_node(request).await,
            Lane::Figures => match self.long_answer(request).await {
                Err(Failure::Unasked) => self.answer_with_node(request).await,
                answer => answer,
            },
        }
    }

    /// Answers in a turn to ask the node.
    async fn answer_with_node(&self, request: &ApiRequest) -> Answer {
        let (node_use, _turn) = self.node_turn(&request.meter).await;
        offload(|| self.ask(request, &request.at, node_use))
    }

    /// Answers in a task of its own, so that the connection notices meanwhile that its client leaves. It drops this
    /// future then, which ends the answer.
    async fn long_answer(self: &Arc<Self>, request: &Arc<ApiRequest>) -> Answer {
        // What a short attempt took is not held while this one waits.
        request.room.clear();
        let (departure, _present) = oneshot::channel();
        let (service, request) = (Arc::clone(self), Arc::clone(request));
        let answer = tokio::spawn(async move {
            let ask = || service.ask(&request, &request.at, NodeUse::NotYet);
            service.answered(&request.meter, departure, ask).await
        });
        answer.await.unwrap_or_else(|_| Err(Failure::internal()))
    }

    /// Asks the endpoint, whose answer begins with nothing in its room. `at` is the snapshot of the request, or the
    /// same one with a budget.
    fn ask(&self, request: &ApiRequest, at: &Snapshot, node_use: NodeUse) -> Answer {
        let ApiRequest { endpoint, params, way, room, .. } = request;
        room.clear();
        caught(|| endpoint(&Question { service: self, at, params, room, way: *way, node_use }))
    }

    /// Waits for a turn to ask the node, and not for long: while the node is silent, others keep all turns.
    pub(crate) async fn node_turn(&self, meter: &Arc<Meter>) -> (NodeUse, Option<Turn>) {
        let turn = timeout(NODE_PATIENCE, self.reads.node_calls.take(meter)).await.ok();
        (if turn.is_some() { NodeUse::Turn } else { NodeUse::Silent }, turn)
    }
}

/// Returns the parts of removed blocks that a read has failed for; `None` if it has succeeded, or failed otherwise.
fn removed<T>(found: &Result<T, Failure>) -> Option<Vec<BlockPart>> {
    match found {
        Err(Failure::Index(Error::Removed { parts })) => Some(parts.clone()),
        _ => None,
    }
}

/// Answers within the work budget; `None` if the answer takes more.
fn within_budget(at: &Snapshot, ask: impl Fn(&Snapshot) -> Answer) -> Option<Answer> {
    let within = at.within_budget(|at| match ask(at) {
        Err(Failure::Index(error)) => Err(error),
        answer => Ok(answer),
    });
    within.unwrap_or_else(|error| Some(Err(error.into())))
}

/// Answers, and turns a panic, which is a fault of ours, into a failure. The panic hook logs it.
fn caught(work: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("request panicked");
        Err(Failure::internal())
    })
}
