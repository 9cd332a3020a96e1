//! Outcomes of events that clients send.

use birdhouse_events::{EventId, Rejection};

use crate::message::{accepted, duplicate, refused};

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
