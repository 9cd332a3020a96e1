//! Admitted requests, as a job takes them.

use crate::error::RpcError;
use crate::protocol::{Answer, Id, Topic};
use crate::request::Work;

/// One admitted request.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) slot: Slot,
    pub(crate) task: Task,
}

/// A request, as far as its reply needs it.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Without an id there is no reply.
    pub(crate) id: Option<Id>,
    /// For counting; `None` if the message is no request.
    pub(crate) kind: Option<&'static str>,
    /// Subject or subscription that its reply settles.
    pub(crate) topic: Option<Topic>,
}

impl Call {
    /// A request whose result is known, and that subscribes to nothing.
    pub(crate) fn answered(id: Option<Id>, kind: Option<&'static str>, result: Result<Answer, RpcError>) -> Self {
        Self { slot: Slot { id, kind, topic: None }, task: Task::Answered(result) }
    }
}

/// Work that is left to do for a request.
#[derive(Debug)]
pub(crate) enum Task {
    /// The result is known; no work is left.
    Answered(Result<Answer, RpcError>),
    Run(Work),
}

/// Form in which the replies of a job leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Each in a line of its own, as soon as it is there.
    Lines,
    /// All in one array, in the order of the requests.
    Batch,
}
