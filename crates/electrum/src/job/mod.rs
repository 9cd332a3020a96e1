//! Runs the requests of one message, or of several that arrived together.
//!
//! Requests that memory answers, always or this time, are answered at once, in the turn in which they were admitted.
//! So is a short read that came alone ([`inline`]). Other reads go on in that turn on threads of their own
//! ([`reading`]). A request of the node waits for one of the node's turns.

mod dispatch;

mod call;
mod inline;
mod prefetch;
mod read_queue;
mod reading;
mod replies;
mod shared;

pub(crate) use self::call::{Call, Form, Slot, Task};

use std::sync::Arc;
use std::time::Instant;

use birdhouse_net::Turn;

use self::read_queue::ReadQueue;
use self::replies::Replies;
use self::shared::Job;
use crate::client::Client;
use crate::error::RpcError;
use crate::job::dispatch::NodeCall;
use crate::protocol::Answer;
use crate::request::{Lane, Read, Work};
use crate::service::{Service, View};

/// Requests with short answers that are answered from memory at once; the others go with the reads, in turns.
const INLINE_MAX: usize = 64;

/// Starts the calls of one client, which came at `arrived`, in the turn in which they were admitted. The caller has
/// taken their permits of [`Client::in_flight`]; each answer gives its own back.
pub(crate) fn start(
    service: &Arc<Service>,
    client: &Arc<Client>,
    form: Form,
    calls: Vec<Call>,
    arrived: Instant,
    turn: Turn,
) {
    // First the epoch, then the snapshot: an update in between makes the answer stale, never unnoticed.
    let epoch = client.state().epoch();
    let view = service.view(client);
    let Sorted { slots, answered, reads, asks } = Sorted::new(calls, service, &view);
    let job = Arc::new(Job {
        service: Arc::clone(service),
        view,
        reads: ReadQueue::new(reads),
        replies: Replies::new(Arc::clone(client), epoch, arrived, form, slots),
    });
    for (index, lane, result) in answered {
        job.answer(index, lane, &result);
    }
    for (index, call) in asks {
        tokio::spawn(Arc::clone(&job).ask(index, call));
    }
    if !inline::answer(&job) {
        reading::start(&job, turn);
    }
}

/// Calls by what is left to do for them, each with its index in the job.
#[derive(Default)]
struct Sorted {
    slots: Vec<Slot>,
    answered: Vec<(usize, Lane, Result<Answer, RpcError>)>,
    reads: Vec<(usize, Read)>,
    asks: Vec<(usize, NodeCall)>,
}

impl Sorted {
    /// Sorts calls, and answers those that need only memory.
    fn new(calls: Vec<Call>, service: &Service, view: &View) -> Self {
        let mut sorted = Self::default();
        for (index, Call { slot, task }) in calls.into_iter().enumerate() {
            sorted.slots.push(slot);
            match task {
                Task::Answered(result) => sorted.answered.push((index, Lane::Memory, result)),
                Task::Run(Work::Read(read)) => {
                    let has_room = sorted.answered.len() < INLINE_MAX;
                    match has_room.then(|| dispatch::known(service, view, &read)).flatten() {
                        Some(result) => sorted.answered.push((index, read.lane(), result)),
                        None => sorted.reads.push((index, read)),
                    }
                }
                Task::Run(Work::Node(request)) => sorted.asks.push((index, NodeCall::Request(request))),
            }
        }
        sorted
    }
}
