//! Events on their way in: those that arrive together are made durable together, by one thread.
//!
//! Clients take turns at the writer, by the time that their events have taken it, which is also charged to them. A
//! batch has a bound of events and of work, so the next turn comes soon. Events that wait are bounded in bytes.
//!
//! Invariant: an event is answered `OK true` only after it is durable. Subscriptions get it as soon as it can be found,
//! which is before: a crash in between leaves them with an event that its author got no answer for.
//!
//! Ephemeral events, AUTH, and events that the plugin drops silently get `OK true` and are stored nowhere.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use birdhouse_clients::{ClientId, Payer as _, Reservation, WorkQueue, Worker};
use birdhouse_events::{Accepted, DeletedBy, Events, Kind, KindClass, Rejection, VerifiedEvent};
use birdhouse_net::Meter;
use tokio::sync::mpsc;
use tracing::error;

use crate::free_disk::DiskFloor;
use crate::fronts::{Feed, Link};
use crate::limits::{BATCH_EVENTS, BATCH_WORK, Limits, WAITING_EVENT_BYTES};
use crate::live::Hub;
use crate::message::{Answer, Outcome};
use crate::worker::{Heartbeat, Thread};

/// An event to be stored, and the channel for the answer.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) event: VerifiedEvent,
    /// Its bytes count as waiting until it is answered.
    pub(crate) room: EventReservation,
    /// The connection that is charged for the writer's time.
    pub(crate) meter: Arc<Meter>,
    /// Has room: a connection has as many in flight as its channel holds.
    pub(crate) answer: mpsc::Sender<Answer>,
}

/// Room for an event that waits.
pub(crate) type EventReservation = Reservation<Submission>;

/// The thread that stores events, and what waits for it. Dropping it waits until all submissions are stored: the store
/// must not be closed while it is written.
pub(crate) struct Ingest {
    // Dropped first: the thread ends when it is closed.
    submissions: Closing,
    _writer: Thread,
}

/// Where events are stored.
#[derive(Clone)]
pub(crate) enum Destination {
    /// By this process.
    Local(Arc<Depot>),
    /// By another one.
    Remote(Arc<Link>),
}

/// Everything that storing events in this process needs.
pub(crate) struct Depot {
    pub(crate) events: Arc<Events>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) floor: Arc<DiskFloor>,
    pub(crate) feed: Arc<Feed>,
}

/// Closes the queue when it is dropped.
struct Closing(Arc<WorkQueue<Submission>>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Ingest {
    /// Starts the thread. When the store fails, it refuses submissions until the events are opened again; when the disk
    /// is short, until there is room.
    pub(crate) fn start(destination: Destination, beat: Heartbeat, limits: &Limits) -> Self {
        let of_client = limits.client_waiting_event_bytes.unwrap_or(usize::MAX);
        let (submissions, worker) = WorkQueue::new(limits.waiting_event_bytes, of_client);
        let writer = Thread::start("events", move || run(&destination, &beat, &worker));
        Self { submissions: Closing(submissions), _writer: writer }
    }

    /// Returns true if the thread is gone, by a defect.
    pub(crate) fn has_ended(&self) -> bool {
        self.submissions.0.has_ended()
    }

    /// Returns a weak handle on what waits for the thread, for an owner that may live longer.
    pub(crate) fn weak(&self) -> Weak<WorkQueue<Submission>> {
        Arc::downgrade(&self.submissions.0)
    }

    /// Waits for room for an event in a message of this length.
    pub(crate) async fn reserve(&self, meter: &Meter, message_bytes: usize) -> EventReservation {
        self.submissions.0.reserve(meter.client_id(), message_bytes + WAITING_EVENT_BYTES).await
    }

    /// Returns the bytes of events that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.submissions.0.bytes()
    }

    /// Submits an event; false if the thread has ended.
    pub(crate) fn submit(&self, submission: Submission) -> bool {
        submission.submit_to(&self.submissions.0)
    }
}

impl Submission {
    /// Leaves it for the writer; false if the writer has ended.
    pub(crate) fn submit_to(self, queue: &WorkQueue<Self>) -> bool {
        queue.put(self.room.client(), self)
    }

    /// Returns its share of a batch's work: each target of a deletion request is looked up; other tags only make
    /// postings.
    fn work(&self) -> usize {
        let tags = self.event.tags.len();
        1 + if self.event.kind == Kind::DELETION { tags } else { tags / 16 }
    }

    /// Answers it. A client that is gone needs no answer.
    pub(crate) fn answer(self, outcome: Outcome) {
        let _ = self.answer.try_send(Answer { id: self.event.id, outcome });
    }
}

fn run(destination: &Destination, beat: &Heartbeat, submissions: &Worker<Submission>) {
    let (mut taken, mut spent) = (Vec::new(), Vec::new());
    while take_batch(submissions, &mut taken) {
        beat.begin(Instant::now());
        let (clients, batch): (Vec<ClientId>, Vec<Submission>) = taken.drain(..).unzip();
        spent.clear();
        spent.resize(batch.len(), Duration::ZERO);
        let events: Vec<&VerifiedEvent> = batch.iter().map(|submission| &submission.event).collect();
        let outcomes = match destination {
            Destination::Local(depot) => depot.take_in(&events, &mut spent),
            Destination::Remote(link) => link.pass_on(&events, &mut spent),
        };
        submissions.done(clients.into_iter().zip(spent.iter().copied()));
        charge(&batch, &spent);
        for (submission, outcome) in batch.into_iter().zip(outcomes) {
            submission.answer(outcome);
        }
        if let Destination::Local(depot) = destination {
            // Between the pieces of a long vanish request, others' events have their turn.
            while submissions.is_idle() && depot.go_on_vanishing() {
                beat.begin(Instant::now());
            }
        }
        beat.rest();
    }
}

/// Waits for submissions, and takes as many as one commit makes durable.
fn take_batch(submissions: &Worker<Submission>, taken: &mut Vec<(ClientId, Submission)>) -> bool {
    let (mut events, mut work) = (0, 0);
    submissions.take(taken, |submission| {
        events += 1;
        work += submission.work();
        events == BATCH_EVENTS || work >= BATCH_WORK
    })
}

/// Charges clients for the time that their events took. A run of events of one connection is charged once.
fn charge(batch: &[Submission], spent: &[Duration]) {
    let (now, mut first) = (Instant::now(), 0);
    for run in batch.chunk_by(|one, next| Arc::ptr_eq(&one.meter, &next.meter)) {
        let end = first + run.len();
        run[0].meter.worked(spent[first..end].iter().sum(), now);
        first = end;
    }
}

// === impl Depot ===

impl Depot {
    /// Stores events in their order, sends them to subscriptions, and returns the outcomes. Sets the time that each
    /// took.
    pub(super) fn take_in(&self, events: &[&VerifiedEvent], spent: &mut [Duration]) -> Vec<Outcome> {
        let storable = self.floor.storable();
        let is_ephemeral = |event: &VerifiedEvent| event.kind.class() == KindClass::Ephemeral;
        let has_room = |event: &VerifiedEvent| is_ephemeral(event) || storable.includes(event.kind);
        let indices: Vec<usize> =
            (0..events.len()).filter(|index| has_room(events[*index]) && !is_ephemeral(events[*index])).collect();
        let kept: Vec<&VerifiedEvent> = indices.iter().map(|index| events[*index]).collect();
        let mut stored = match self.store(&kept, &indices, spent) {
            Some(outcomes) => outcomes.into_iter(),
            None => return events.iter().map(|event| if has_room(event) { failed() } else { no_room() }).collect(),
        };
        let outcome = |event: &&VerifiedEvent| match event {
            event if !has_room(event) => no_room(),
            event if is_ephemeral(event) => self.publish_ephemeral(event),
            _ => outcome_of(&stored.next().expect("one for each event that is kept")),
        };
        events.iter().map(outcome).collect()
    }

    /// Stores events; `None` when the store fails.
    fn store(&self, kept: &[&VerifiedEvent], indices: &[usize], spent: &mut [Duration]) -> Option<Vec<Accepted>> {
        if self.events.failure().is_some() {
            return None;
        }
        let mut since = Instant::now();
        let decided = |index: usize| {
            let now = Instant::now();
            spent[indices[index]] = now - since;
            since = now;
        };
        // Subscriptions get them while the disk syncs.
        let tell = |outcomes: &[Accepted]| {
            for (event, outcome) in kept.iter().zip(outcomes) {
                if let Accepted::Stored(seq) = outcome {
                    self.hub.publish_live(event, Some(*seq));
                }
            }
        };
        match self.events.accept_metered(kept, decided, tell) {
            Ok(outcomes) => {
                if !kept.is_empty() {
                    self.feed.published(self.events.end());
                }
                Some(outcomes)
            }
            Err(error) => {
                report(&error);
                None
            }
        }
    }

    /// Subscriptions of front ends are not counted, so nobody is sure not to listen where there are some.
    fn publish_ephemeral(&self, event: &VerifiedEvent) -> Outcome {
        let is_read = self.feed.add_ephemeral(event);
        match self.hub.publish_live(event, None) {
            0 if !is_read => Outcome::Refused(Rejection::Mute("nobody listened".into())),
            _ => Outcome::Accepted,
        }
    }

    /// Carries out another piece of vanish requests; returns true if there may be more.
    pub(crate) fn go_on_vanishing(&self) -> bool {
        if self.events.failure().is_some() {
            return false;
        }
        self.events.vanish().unwrap_or_else(|error| {
            report(&error);
            false
        })
    }
}

fn report(error: &birdhouse_events::Error) {
    error!(%error, "failed to store events; make room or replace the disk; trying again");
}

fn outcome_of(accepted: &Accepted) -> Outcome {
    match accepted {
        Accepted::Stored(_) => Outcome::Accepted,
        Accepted::Duplicate => Outcome::Duplicate,
        Accepted::Superseded => Outcome::Refused(Rejection::Blocked("a newer version is here".into())),
        Accepted::Deleted(by) => Outcome::Refused(Rejection::Blocked(
            match by {
                DeletedBy::Author => "its author has deleted it",
                DeletedBy::Recipient => "its recipient has deleted it",
            }
            .into(),
        )),
    }
}

fn failed() -> Outcome {
    Outcome::Refused(Rejection::Error("the relay cannot keep events now".into()))
}

fn no_room() -> Outcome {
    Outcome::Refused(Rejection::Error("the relay's disk is nearly full; try later".into()))
}
