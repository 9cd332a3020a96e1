//! Running what one line, or several that arrived together, ask for.
//!
//! Requests that need only memory are answered at once. Reads start on one thread; when one of them turns
//! out to wait for the disk, up to [`PARALLEL_MAX`] threads share the rest, so a warm batch costs one hop
//! and a cold one keeps the disk busy. No thread works for a client that does not read: a worker leaves
//! when the outbox is full and another comes when it has room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::error;

use crate::connection::Connection;
use crate::dispatch::{self, Lane, Step};
use crate::envelope::Id;
use crate::error::RpcError;
use crate::request::Request;
use crate::response::{Answer, error_reply, reply};
use crate::service::{Service, View};
use crate::session::{Epoch, Settle};

/// Threads that read for one job at one time.
const PARALLEL_MAX: usize = 8;
/// Warm reads that one thread does before a second is worth its wake-up.
const WARM_SHARE: usize = 25;
/// A read that takes longer waited for the disk; a warm one takes a few microseconds.
const COLD_READ: Duration = Duration::from_micros(150);
/// After this long the job is taken for a cold one even if no read has ended. A timer's resolution.
const PATIENCE: Duration = Duration::from_millis(1);

/// One admitted request.
#[derive(Debug)]
pub(crate) struct Call {
    /// Without an id there is no reply.
    pub(crate) id: Option<Id>,
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
    form: Form,
    ids: Vec<Option<Id>>,
    requests: Vec<Option<Request>>,
    /// Places in `requests` that read; those before `next_read` are taken.
    reads: Vec<usize>,
    next_read: AtomicUsize,
    readers: AtomicUsize,
    is_cold: AtomicBool,
    /// A reader has left, or the job has turned cold.
    changed: Notify,
    batch: Mutex<Batch>,
}

/// What is there of a batch's reply.
#[derive(Debug)]
struct Batch {
    unanswered: usize,
    bytes: usize,
    replies: Vec<Vec<u8>>,
    settles: Vec<Settle>,
}

/// Starts the calls of one client. Their permits of [`Connection::in_flight`] are taken already and come
/// back as they are answered.
pub(crate) fn start(service: &Arc<Service>, connection: &Arc<Connection>, form: Form, calls: Vec<Call>) {
    // First the epoch, then the snapshot: an update in between makes the answer stale, never unnoticed.
    let epoch = connection.session().epoch();
    let view = service.view();
    let Sorted { ids, requests, reads, asks, answered } = Sorted::new(calls, service, &view);
    let batch = Batch {
        unanswered: ids.len(),
        bytes: 0,
        replies: vec![Vec::new(); if form == Form::Batch { ids.len() } else { 0 }],
        settles: Vec::new(),
    };
    let job = Arc::new(Job {
        service: Arc::clone(service),
        connection: Arc::clone(connection),
        view,
        epoch,
        form,
        ids,
        requests,
        reads,
        next_read: AtomicUsize::new(0),
        readers: AtomicUsize::new(0),
        is_cold: AtomicBool::new(false),
        changed: Notify::new(),
        batch: Mutex::new(batch),
    });
    for (place, result) in answered {
        job.answer(place, &result);
    }
    for place in asks {
        tokio::spawn(ask(Arc::clone(&job), place));
    }
    start_reads(job);
}

/// Calls by lane; places count from the first call.
#[derive(Default)]
struct Sorted {
    ids: Vec<Option<Id>>,
    requests: Vec<Option<Request>>,
    reads: Vec<usize>,
    asks: Vec<usize>,
    answered: Vec<(usize, Result<Answer, RpcError>)>,
}

impl Sorted {
    /// Sorts calls, and answers those that need only memory.
    fn new(calls: Vec<Call>, service: &Service, view: &View) -> Self {
        let mut sorted = Self::default();
        for (place, Call { id, task }) in calls.into_iter().enumerate() {
            sorted.ids.push(id);
            sorted.requests.push(match task {
                Task::Answered(result) => {
                    sorted.answered.push((place, result));
                    None
                }
                Task::Run(request) => {
                    match request.lane() {
                        Lane::Here => {
                            let result = guarded(|| read_only(service, view, &request));
                            sorted.answered.push((place, result));
                        }
                        Lane::Read => sorted.reads.push(place),
                        Lane::Ask => sorted.asks.push(place),
                    }
                    Some(request)
                }
            });
        }
        sorted
    }
}

fn read_only(service: &Service, view: &View, request: &Request) -> Result<Answer, RpcError> {
    match dispatch::read(service, view, request) {
        Step::Done(result) => result,
        Step::AskNode => unreachable!("requests of the lane `Here` never ask the node"),
    }
}

/// A panic is a fault of ours: logged by the panic hook and here, and the client hears of no detail.
fn guarded<T>(run: impl FnOnce() -> Result<T, RpcError>) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        error!("request panicked");
        Err(RpcError::internal())
    })
}

// === reading ===

fn start_reads(job: Arc<Job>) {
    if job.reads_waiting() == 0 {
        return;
    }
    // The usual case needs nobody who watches: one read, and a thread for it.
    if job.reads.len() == 1
        && job.connection.outbox.has_room()
        && let Ok(permit) = Arc::clone(&job.service.reads).try_acquire_owned()
    {
        spawn_blocking(move || {
            job.read();
            drop(permit);
            if job.reads_waiting() > 0 {
                Handle::current().spawn(supervise(job));
            }
        });
        return;
    }
    tokio::spawn(supervise(job));
}

/// Sees to it that there are readers as long as there are reads to do.
async fn supervise(job: Arc<Job>) {
    while job.reads_waiting() > 0 {
        if !job.connection.outbox.room().await {
            return;
        }
        let reads = Arc::clone(&job.service.reads);
        if job.readers.load(Ordering::Acquire) == 0 {
            let permit = Arc::clone(&reads).acquire_owned().await.expect("the semaphore is never closed");
            spawn_reader(&job, permit);
        }
        while job.readers.load(Ordering::Acquire) < job.readers_wanted() {
            let Ok(permit) = Arc::clone(&reads).try_acquire_owned() else { break };
            spawn_reader(&job, permit);
        }
        let changed = job.changed.notified();
        if job.is_cold.load(Ordering::Relaxed) {
            changed.await;
        } else if timeout(PATIENCE, changed).await.is_err() {
            job.is_cold.store(true, Ordering::Relaxed);
        }
    }
}

fn spawn_reader(job: &Arc<Job>, permit: OwnedSemaphorePermit) {
    job.readers.fetch_add(1, Ordering::AcqRel);
    let job = Arc::clone(job);
    spawn_blocking(move || {
        job.read();
        drop(permit);
        job.readers.fetch_sub(1, Ordering::AcqRel);
        job.changed.notify_one();
    });
}

impl Job {
    fn reads_waiting(&self) -> usize {
        self.reads.len().saturating_sub(self.next_read.load(Ordering::Acquire))
    }

    fn readers_wanted(&self) -> usize {
        let waiting = self.reads_waiting();
        if self.is_cold.load(Ordering::Relaxed) {
            // Those who read already are not waiting.
            (waiting + self.readers.load(Ordering::Acquire)).min(PARALLEL_MAX)
        } else {
            waiting.div_ceil(WARM_SHARE).min(2)
        }
    }

    /// Takes reads until none is left or the client has enough to read.
    fn read(self: &Arc<Self>) {
        while self.connection.outbox.has_room() {
            let next = self.next_read.fetch_add(1, Ordering::AcqRel);
            let Some(place) = self.reads.get(next).copied() else { return };
            let started = Instant::now();
            self.read_one(place);
            if started.elapsed() > COLD_READ && !self.is_cold.swap(true, Ordering::Relaxed) {
                self.changed.notify_one();
            }
        }
    }

    fn read_one(self: &Arc<Self>, place: usize) {
        let request = self.requests[place].as_ref().expect("only requests are listed in `reads`");
        match guarded(|| Ok(dispatch::read(&self.service, &self.view, request))) {
            Ok(Step::Done(result)) => self.answer(place, &result),
            Ok(Step::AskNode) => drop(Handle::current().spawn(ask(Arc::clone(self), place))),
            Err(error) => self.answer(place, &Err(error)),
        }
    }
}

// === asking ===

/// Asks the node, when it is this request's turn.
async fn ask(job: Arc<Job>, place: usize) {
    if !job.connection.outbox.room().await {
        return;
    }
    let asks = Arc::clone(&job.service.asks);
    let permit = asks.acquire_owned().await.expect("the semaphore is never closed");
    spawn_blocking(move || {
        let request = job.requests[place].as_ref().expect("only requests ask the node");
        let result = guarded(|| dispatch::ask(&job.service, &job.view, request));
        drop(permit);
        job.answer(place, &result);
    });
}

// === answering ===

impl Job {
    fn answer(&self, place: usize, result: &Result<Answer, RpcError>) {
        let settle = self.requests[place].as_ref().and_then(|request| Settle::of(request, result));
        let reply_bytes = self.connection.limits().reply_bytes;
        let line = self.ids[place].as_ref().map(|id| reply(id, result, reply_bytes));
        match self.form {
            Form::Lines => {
                self.connection.deliver(line.as_deref(), settle, self.epoch);
                self.connection.in_flight.add_permits(1);
            }
            Form::Batch => self.collect(place, line, settle),
        }
    }

    fn collect(&self, place: usize, line: Option<Vec<u8>>, settle: Option<Settle>) {
        // Nothing under this lock can panic halfway.
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line.unwrap_or_default();
        if batch.bytes + line.len() <= self.connection.limits().reply_bytes {
            batch.bytes += line.len();
            batch.replies[place] = line;
            batch.settles.extend(settle);
        } else if let Some(id) = &self.ids[place] {
            let error = RpcError::excessive("the reply to the batch is too large");
            batch.replies[place] = error_reply(id, &error);
            batch.settles.extend(settle.map(Settle::failed));
        }
        batch.unanswered -= 1;
        if batch.unanswered == 0 {
            let line = array(&batch.replies);
            let settles = std::mem::take(&mut batch.settles);
            drop(batch);
            self.connection.deliver(line.as_deref(), settles, self.epoch);
            self.connection.in_flight.add_permits(self.connection.permits(self.ids.len()) as usize);
        }
    }
}

/// One array of the replies that there are; no line when nobody asked for one.
fn array(replies: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut line = Vec::with_capacity(replies.iter().map(|reply| reply.len() + 1).sum::<usize>() + 1);
    for reply in replies.iter().filter(|reply| !reply.is_empty()) {
        line.push(if line.is_empty() { b'[' } else { b',' });
        line.extend_from_slice(reply);
    }
    if line.is_empty() {
        return None;
    }
    line.push(b']');
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_in_one_array_in_order() {
        let replies = [b"1".to_vec(), Vec::new(), b"2".to_vec()];
        assert_eq!(array(&replies).as_deref(), Some(&b"[1,2]"[..]));
    }

    #[test]
    fn a_batch_of_notifications_gets_no_line() {
        assert_eq!(array(&[Vec::new(), Vec::new()]), None);
    }

    #[test]
    fn a_panic_becomes_an_internal_error() {
        let result: Result<(), _> = guarded(|| panic!("on purpose"));
        assert_eq!(result, Err(RpcError::internal()));
    }
}
