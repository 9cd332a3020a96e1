//! Events on their way in: those that arrive together are made durable together, by one thread.
//!
//! Invariant: an event is answered `OK true` only after it is durable. Subscriptions get it as soon as it can be found,
//! which is before: a power cut in between leaves them with an event that its author got no answer for.

use std::sync::Arc;
use std::time::Instant;

use birdhouse_events::{Accepted, DeletedBy, EventId, Events, KindClass, Rejection, VerifiedEvent};
use tokio::sync::mpsc;
use tracing::error;

use crate::hub::Hub;
use crate::limits::{BATCH_EVENTS, WAITING_EVENTS};
use crate::message::{accepted, duplicate, refused};
use crate::worker::{Heartbeat, Thread};

/// An event to be stored, and the channel for the answer.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) event: VerifiedEvent,
    /// Has room: a connection has as many in flight as its channel holds.
    pub(crate) answer: mpsc::Sender<Answer>,
}

/// The outcome of an event.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: EventId,
    pub(crate) outcome: Outcome,
}

/// An outcome.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is stored, or was sent to a subscription.
    Accepted,
    /// It was stored before.
    Duplicate,
    /// It is dropped, and its client gets `OK true`.
    Shadowed,
    Refused(Rejection),
}

/// The thread that stores events, and the channel to it. Dropping it waits until all submissions are stored: the store
/// must not be closed while it is written.
pub(crate) struct Ingest {
    // Dropped first: the thread ends when it is gone.
    submissions: mpsc::Sender<Submission>,
    _writer: Thread,
}

impl Ingest {
    /// Starts the thread. When the store fails, it refuses submissions until the events are opened again.
    pub(crate) fn start(events: Arc<Events>, hub: Arc<Hub>, beat: Heartbeat) -> Self {
        let (submissions, receiver) = mpsc::channel(WAITING_EVENTS);
        Self { submissions, _writer: Thread::start("events", move || run(&events, &hub, &beat, receiver)) }
    }

    /// Returns true if the thread is gone, by a defect.
    pub(crate) fn has_ended(&self) -> bool {
        self.submissions.is_closed()
    }

    /// Returns a weak channel to the thread, for an owner that may live longer.
    pub(crate) fn weak_sender(&self) -> mpsc::WeakSender<Submission> {
        self.submissions.downgrade()
    }

    /// Submits an event, once there is room; false if the thread has ended.
    pub(crate) async fn submit(&self, submission: Submission) -> bool {
        self.submissions.send(submission).await.is_ok()
    }
}

impl Submission {
    /// Answers it. A client that is gone needs no answer.
    pub(crate) fn answer(self, outcome: Outcome) {
        let _ = self.answer.try_send(Answer { id: self.event.id, outcome });
    }
}

impl Answer {
    pub(crate) fn message(&self) -> String {
        match &self.outcome {
            Outcome::Accepted | Outcome::Shadowed => accepted(&self.id),
            Outcome::Duplicate => duplicate(&self.id),
            Outcome::Refused(rejection) => refused(&self.id, rejection),
        }
    }
}

impl Outcome {
    /// Its name in metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Duplicate => "duplicate",
            Self::Shadowed => "shadowed",
            Self::Refused(rejection) => rejection.prefix(),
        }
    }
}

fn run(events: &Events, hub: &Hub, beat: &Heartbeat, mut submissions: mpsc::Receiver<Submission>) {
    let mut batch = Vec::new();
    while submissions.blocking_recv_many(&mut batch, BATCH_EVENTS) > 0 {
        beat.begin(Instant::now());
        let answers = if events.failure().is_some() { None } else { take_in(events, hub, &batch) };
        let answers = answers.unwrap_or_else(|| batch.iter().map(|_| failed()).collect());
        for (submission, outcome) in batch.drain(..).zip(answers) {
            submission.answer(outcome);
        }
        // Between the pieces of a long vanish request, others' events have their turn.
        while submissions.is_empty() && go_on_vanishing(events) {
            beat.begin(Instant::now());
        }
        beat.rest();
    }
}

/// Carries out another piece of vanish requests; returns true if there may be more.
fn go_on_vanishing(events: &Events) -> bool {
    if events.failure().is_some() {
        return false;
    }
    events.vanish().unwrap_or_else(|error| {
        report(&error);
        false
    })
}

fn report(error: &birdhouse_events::Error) {
    error!(%error, "failed to store events; make room or replace the disk; trying again");
}

/// Stores a batch, sends it to subscriptions, and returns the outcomes; `None` when the store fails.
fn take_in(events: &Events, hub: &Hub, batch: &[Submission]) -> Option<Vec<Outcome>> {
    let is_kept = |submission: &&Submission| submission.event.kind.class() != KindClass::Ephemeral;
    let kept: Vec<&VerifiedEvent> = batch.iter().filter(is_kept).map(|submission| &submission.event).collect();
    // Subscriptions get them while the disk syncs.
    let tell = |outcomes: &[Accepted]| {
        for (event, outcome) in kept.iter().zip(outcomes) {
            if let Accepted::Stored(seq) = outcome {
                hub.publish_live(event, Some(*seq));
            }
        }
    };
    let outcomes = match events.accept_and_notify(&kept, tell) {
        Ok(outcomes) => outcomes,
        Err(error) => {
            report(&error);
            return None;
        }
    };
    let mut outcomes = outcomes.into_iter();
    let answers = batch.iter().map(|submission| {
        let event = &submission.event;
        if event.kind.class() == KindClass::Ephemeral {
            return match hub.publish_live(event, None) {
                0 => Outcome::Refused(Rejection::Mute("nobody listened".into())),
                _ => Outcome::Accepted,
            };
        }
        match outcomes.next().expect("one for each event that is kept") {
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
    });
    Some(answers.collect())
}

fn failed() -> Outcome {
    Outcome::Refused(Rejection::Error("the relay cannot keep events now".into()))
}
