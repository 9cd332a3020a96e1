//! Things that a client can subscribe to, and their states.

use bitcoin::OutPoint;

use crate::protocol::answer::{OutpointState, Status, TipHeader};
use crate::protocol::script::Script;

/// A thing that a client subscribes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Tip,
    Script(Script),
    Outpoint(OutPoint),
    /// An outpoint whose output can never be spent, as an earlier check has found.
    Unspendable(OutPoint),
}

/// A subscription to silent payments, by its number in its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SilentId(pub(crate) u32);

/// Subject or subscription that a reply settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Subject(Subject),
    Silent(SilentId),
    /// A stream of tweaks, which begins with the reply.
    Tweaks,
}

/// State of a subject at one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubjectState {
    Tip(TipHeader),
    Script(Script, Status),
    Outpoint(OutPoint, OutpointState),
}

impl SubjectState {
    /// Returns the subject without its state.
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Self::Tip(_) => Subject::Tip,
            Self::Script(script, _) => Subject::Script(*script),
            Self::Outpoint(outpoint, _) => Subject::Outpoint(*outpoint),
        }
    }
}
