//! Running what one line, or several that arrived together, ask for.
//!
//! Requests that need only memory, always or this time, are answered at once, in the turn in which they were admitted, and so
//! is a short one that came alone ([`lone`]); other reads go on in it on threads of their own ([`reading`]); what asks the node waits
//! for a turn of the node's.

mod lone;
mod reading;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::task::spawn_blocking;
use tracing::error;

use crate::connection::Connection;
use crate::counters::Outcome;
use crate::dispatch::{self, Lane, Step};
use crate::envelope::Id;
use crate::error::RpcError;
use crate::meter::Turn;
use crate::request::{Request, RequestKind};
use crate::response::{Answer, error_reply, reply};
use crate::service::{Service, View};
use crate::session::{Epoch, Settle};
use crate::unsent::Unfinished;

/// Requests that are answered from memory at once; in a large batch the others go with those that read, in turns.
const HERE_MAX: usize = 64;

/// One admitted request.
#[derive(Debug)]
pub(crate) struct Call {
    /// Without an id there is no reply.
    pub(crate) id: Option<Id>,
    /// For counting; `None` if it is no request.
    pub(crate) kind: Option<RequestKind>,
    pub(crate) task: Task,
}

/// What is left to do for a request.
#[derive(Debug)]
pub(crate) enum Task {
    Answered(Result<Answer, RpcError>),
    Run(Request),
}

/// How replies leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Each in a line of its own, as soon as it is there.
    Lines,
    /// All in one array, in the order of the requests.
    Batch,
}

/// Requests that see one snapshot.
pub(crate) struct Job {
    service: Arc<Service>,
    connection: Arc<Connection>,
    view: View,
    epoch: Epoch,
    arrived: Instant,
    form: Form,
    ids: Vec<Option<Id>>,
    kinds: Vec<Option<RequestKind>>,
    requests: Vec<Option<Request>>,
    /// Places in `requests` that read; those before `next_read` are taken.
    reads: Vec<usize>,
    next_read: AtomicUsize,
    readers: AtomicUsize,
    /// Some reads have waited for the disk.
    has_waited: AtomicBool,
    batch: Mutex<Batch>,
}

/// What is there of a batch's reply.
#[derive(Debug)]
struct Batch {
    unanswered: usize,
    /// An item had no room: what is not read yet need not be.
    is_full: bool,
    held: Unfinished,
    replies: Vec<Vec<u8>>,
    settles: Vec<Settle>,
}

/// Starts the calls of one client, which came at `arrived`, in the turn in which they were admitted. Their permits of
/// [`Connection::in_flight`] are taken already and come back as they are answered.
pub(crate) fn start(
    service: &Arc<Service>,
    connection: &Arc<Connection>,
    form: Form,
    calls: Vec<Call>,
    arrived: Instant,
    turn: Turn,
) {
    // First the epoch, then the snapshot: an update in between makes the answer stale, never unnoticed.
    let epoch = connection.session().epoch();
    let view = service.view(connection.address);
    let Sorted { ids, kinds, requests, reads, asks, answered } = Sorted::new(calls, service, &view);
    let batch = Batch {
        unanswered: ids.len(),
        is_full: false,
        held: connection.outbox.unfinished(connection.limits().reply_bytes),
        replies: vec![Vec::new(); if form == Form::Batch { ids.len() } else { 0 }],
        settles: Vec::new(),
    };
    let job = Arc::new(Job {
        service: Arc::clone(service),
        connection: Arc::clone(connection),
        view,
        epoch,
        arrived,
        form,
        ids,
        kinds,
        requests,
        reads,
        next_read: AtomicUsize::new(0),
        readers: AtomicUsize::new(0),
        has_waited: AtomicBool::new(false),
        batch: Mutex::new(batch),
    });
    for (place, result) in answered {
        job.answer(place, &result);
    }
    for place in asks {
        tokio::spawn(ask(Arc::clone(&job), place));
    }
    if !job.answer_here() {
        reading::start(&job, turn);
    }
}

/// Calls by lane; places count from the first call.
#[derive(Default)]
struct Sorted {
    ids: Vec<Option<Id>>,
    kinds: Vec<Option<RequestKind>>,
    requests: Vec<Option<Request>>,
    /// Places in `requests` that read; those before `next_read` are taken.
    reads: Vec<usize>,
    asks: Vec<usize>,
    answered: Vec<(usize, Result<Answer, RpcError>)>,
}

impl Sorted {
    /// Sorts calls, and answers those that need only memory.
    fn new(calls: Vec<Call>, service: &Service, view: &View) -> Self {
        let mut sorted = Self::default();
        for (place, Call { id, kind, task }) in calls.into_iter().enumerate() {
            sorted.ids.push(id);
            sorted.kinds.push(kind);
            sorted.requests.push(match task {
                Task::Answered(result) => {
                    sorted.answered.push((place, result));
                    None
                }
                Task::Run(request) => {
                    let lane = request.lane();
                    if lane == Lane::Ask {
                        sorted.asks.push(place);
                    } else if sorted.answered.len() < HERE_MAX
                        && let Some(result) = from_memory(lane, service, view, &request)
                    {
                        sorted.answered.push((place, result));
                    } else {
                        sorted.reads.push(place);
                    }
                    Some(request)
                }
            });
        }
        sorted
    }
}

/// The answer to a request that needs memory only, always or this time.
fn from_memory(lane: Lane, service: &Service, view: &View, request: &Request) -> Option<Result<Answer, RpcError>> {
    if lane == Lane::Read {
        return dispatch::known(view, request).map(Ok);
    }
    let answer = || match dispatch::read(service, view, request) {
        Step::Done(result) => result,
        Step::AskNode => unreachable!("requests of the lane `Here` never ask the node"),
    };
    Some(guarded(answer))
}

/// A panic is a fault of ours: logged by the panic hook and here, and the client hears of no detail.
fn guarded<T>(run: impl FnOnce() -> Result<T, RpcError>) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        error!("request panicked");
        Err(RpcError::internal())
    })
}

// === asking ===

/// Asks the node, when it is this request's turn.
async fn ask(job: Arc<Job>, place: usize) {
    if !job.connection.outbox.room().await {
        return;
    }
    let turn = job.service.node_calls.take(&job.connection.meter).await;
    spawn_blocking(move || {
        let request = job.requests[place].as_ref().expect("only requests ask the node");
        let result = guarded(|| dispatch::ask(&job.service, &job.view, request));
        drop(turn);
        job.answer(place, &result);
    });
}

// === answering ===

impl Job {
    fn answer(&self, place: usize, result: &Result<Answer, RpcError>) {
        self.count(place, result);
        let settle = self.requests[place].as_ref().and_then(|request| Settle::of(request, result));
        let reply_bytes = self.connection.limits().reply_bytes;
        let line = self.ids[place].as_ref().map(|id| reply(id, result, reply_bytes));
        match self.form {
            Form::Lines => {
                let reply = line.map(|line| self.connection.outbox.frame([line]));
                self.connection.deliver(reply, settle, self.epoch);
                self.connection.in_flight.add_permits(1);
            }
            Form::Batch => self.collect(place, line, settle),
        }
    }

    fn count(&self, place: usize, result: &Result<Answer, RpcError>) {
        let counters = &self.service.counters;
        let Some(kind) = self.kinds[place] else {
            counters.invalid();
            return;
        };
        let lane = self.requests[place].as_ref().map_or(Lane::Here, Request::lane);
        counters.answered(kind, lane, Outcome::of(result), self.arrived.elapsed());
    }

    fn batch(&self) -> MutexGuard<'_, Batch> {
        // Nothing under this lock can panic halfway.
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what else the batch asks for is not worth reading.
    fn is_full(&self) -> bool {
        self.form == Form::Batch && self.batch().is_full
    }

    fn collect(&self, place: usize, line: Option<Vec<u8>>, settle: Option<Settle>) {
        let mut batch = self.batch();
        let mut line = line.unwrap_or_default();
        if batch.held.has_room(line.len()) {
            batch.settles.extend(settle);
        } else if let Some(id) = &self.ids[place] {
            batch.is_full = true;
            line = error_reply(id, &too_large());
            batch.settles.extend(settle.map(Settle::failed));
        }
        batch.held.add(line.len());
        batch.replies[place] = line;
        batch.unanswered -= 1;
        if batch.unanswered == 0 {
            let replies = std::mem::take(&mut batch.replies);
            let settles = std::mem::take(&mut batch.settles);
            drop(batch);
            let reply = array(replies).map(|parts| self.connection.outbox.frame(parts));
            self.connection.deliver(reply, settles, self.epoch);
            self.connection.in_flight.add_permits(self.connection.permits(self.ids.len()) as usize);
        }
    }
}

fn too_large() -> RpcError {
    RpcError::excessive("the reply to the batch is too large")
}

/// The parts of one array of the replies that there are; `None` when nobody asked for one.
fn array(replies: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let mut parts = vec![b"[".to_vec()];
    parts.extend(replies.into_iter().filter(|reply| !reply.is_empty()));
    let [_, before_last @ .., last] = parts.as_mut_slice() else { return None };
    for reply in before_last {
        reply.push(b',');
    }
    last.push(b']');
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_in_one_array_in_order() {
        let replies = vec![b"1".to_vec(), Vec::new(), b"2".to_vec()];
        assert_eq!(array(replies).map(|parts| parts.concat()).as_deref(), Some(&b"[1,2]"[..]));
    }

    #[test]
    fn a_batch_of_notifications_gets_no_line() {
        assert_eq!(array(vec![Vec::new(), Vec::new()]), None);
    }

    #[test]
    fn a_panic_becomes_an_internal_error() {
        let result: Result<(), _> = guarded(|| panic!("on purpose"));
        assert_eq!(result, Err(RpcError::internal()));
    }
}
