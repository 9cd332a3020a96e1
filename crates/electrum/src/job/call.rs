//! Admitted requests, as a job takes them.

use crate::answer::Answer;
use crate::envelope::Id;
use crate::error::RpcError;
use crate::request::Work;
use crate::request::kind::RequestKind;
use crate::subject::Subject;

/// One admitted request.
#[derive(Debug)]
pub(crate) struct Call {
    /// Without an id there is no reply.
    pub(crate) id: Option<Id>,
    /// For counting; `None` if the message is no request.
    pub(crate) kind: Option<RequestKind>,
    /// Subject that the request subscribes to.
    pub(crate) subject: Option<Subject>,
    pub(crate) task: Task,
}

impl Call {
    /// A request whose result is known, and that subscribes to nothing.
    pub(crate) fn answered(id: Option<Id>, kind: Option<RequestKind>, result: Result<Answer, RpcError>) -> Self {
        Self { id, kind, subject: None, task: Task::Answered(result) }
    }
}

/// Work that is left to do for a request.
#[derive(Debug)]
pub(crate) enum Task {
    /// None: the result is known.
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
