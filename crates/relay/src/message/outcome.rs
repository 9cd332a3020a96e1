//! Outcomes of events that clients send.

use birdhouse_events::{EventId, Rejection};

use crate::message::{accepted, duplicate, ok_with, refused};

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

impl Answer {
    pub(crate) fn message(&self) -> String {
        match &self.outcome {
            Outcome::Accepted | Outcome::Shadowed => accepted(&self.id),
            Outcome::Duplicate => duplicate(&self.id),
            // NIP-01 has `false` in its example. Libraries make that a failure of the whole request, though its
            // receiver (NIP-46, 47) may be on another relay.
            Outcome::Refused(unheard @ Rejection::Mute(_)) => ok_with(&self.id, unheard),
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
