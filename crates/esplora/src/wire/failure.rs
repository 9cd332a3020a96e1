//! Requests without an answer: refusals, which are part of the API, and failures, which are ours or the node's.

use std::borrow::Cow;

use birdhouse_chain::source::{NodeError, SourceErrorKind};
use birdhouse_chain::{Error, Syncing};
use hyper::StatusCode;

/// Seconds after which a client asks an index again that is being built.
const SYNCING_S: u64 = 10;

/// Seconds after which a client asks again while the node does not answer.
const SILENT_S: u64 = 5;

/// Seconds after which a client asks again for what a peer of the node has to send.
const REMOVED_S: u64 = 10;

/// A request's failure as the client sees it.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// Its text.
    pub text: Cow<'static, str>,
    /// Seconds after which the client may ask again.
    pub retry_after_s: Option<u64>,
    /// Progress of an index that is being built.
    pub syncing: Option<Syncing>,
}

/// The reason for which a request gets no answer.
#[derive(Debug)]
pub enum Failure {
    /// The status and text that the API has for it.
    Refused(StatusCode, Cow<'static, str>),
    /// Something that cannot be had now.
    Later {
        /// The text.
        text: Cow<'static, str>,
        /// Time until the client may ask again.
        seconds: u64,
    },
    /// The node has to be asked, which the caller does later.
    Unasked,
    /// The index is being built.
    Syncing(Syncing),
    /// The client has used up what it may use.
    TooMany {
        /// Time until it may ask again.
        seconds: u64,
    },
    /// The index failed.
    Index(Error),
}

impl Failure {
    /// A request that cannot be understood, or asks for too much.
    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, text.into())
    }

    /// Something that does not exist.
    pub fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::NOT_FOUND, text.into())
    }

    /// A request whose parts do not fit each other.
    pub fn unprocessable(text: &'static str) -> Self {
        Self::Refused(StatusCode::UNPROCESSABLE_ENTITY, text.into())
    }

    /// A part of a file that it does not have.
    pub(crate) fn no_such_range() -> Self {
        Self::Refused(StatusCode::RANGE_NOT_SATISFIABLE, "the file has no such bytes".into())
    }

    /// Something that cannot be had now.
    pub fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::SERVICE_UNAVAILABLE, text.into())
    }

    /// A fault of this server.
    pub fn internal() -> Self {
        Self::Refused(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error".into())
    }

    /// A block that is not in the chain.
    pub fn no_block() -> Self {
        Self::not_found("Block not found")
    }

    /// A transaction that neither chain nor mempool holds.
    pub fn no_transaction() -> Self {
        Self::not_found("Transaction not found")
    }

    /// A long answer that ended for others.
    pub(crate) fn crowded() -> Self {
        Self::unavailable("too many long requests wait; try again later")
    }

    /// An answer for which there is no memory.
    pub(crate) fn no_memory() -> Self {
        Self::unavailable("memory for requests and unread answers is used up; ask for less, or try again later")
    }

    /// A node that does not answer.
    pub(crate) fn silent_node() -> Self {
        Self::Later { text: "the node does not answer; try again later".into(), seconds: SILENT_S }
    }

    pub(crate) fn no_node() -> Self {
        Self::unavailable("this server has no node; ask another one")
    }

    /// Returns status and text for the client. Logs what concerns the operator.
    pub(crate) fn into_refusal(self) -> Refusal {
        let unavailable = |text| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text);
        match self {
            Self::Refused(status, text) => Refusal::new(status, text),
            Self::Later { text, seconds } => Refusal { retry_after_s: Some(seconds), ..unavailable(text) },
            Self::Unasked => unavailable("the node was not asked; try again later".into()),
            Self::Syncing(syncing) => Refusal {
                retry_after_s: Some(SYNCING_S),
                syncing: Some(syncing),
                ..unavailable(syncing.to_string().into())
            },
            Self::TooMany { seconds } => {
                let text = format!("Too many requests; try again in {seconds} s");
                let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, text.into());
                Refusal { retry_after_s: Some(seconds), ..refusal }
            }
            Self::Index(Error::Removed { .. }) => Refusal {
                retry_after_s: Some(REMOVED_S),
                ..unavailable(
                    "the node has removed a block of this answer (it is pruned); its peers are asked for it".into(),
                )
            },
            Self::Index(Error::Cancelled) => Self::crowded().into_refusal(),
            Self::Index(error) => {
                tracing::error!(%error, "failed to answer a request");
                unavailable("the index or the node's files cannot be read; try again later".into())
            }
        }
    }
}

impl Refusal {
    fn new(status: StatusCode, text: Cow<'static, str>) -> Self {
        Self { status, text, retry_after_s: None, syncing: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Source(error) if error.kind == SourceErrorKind::Transient => {
                Self::Later { text: "the node is busy; try again later".into(), seconds: SILENT_S }
            }
            // Not an error to log: everybody may ask for old transactions.
            Error::Source(error) if error.kind == SourceErrorKind::NotFound => Self::unavailable(
                "the node no longer has the block of this transaction: it is pruned, or its chain has just moved",
            ),
            error => Self::Index(error),
        }
    }
}

impl From<Syncing> for Failure {
    fn from(syncing: Syncing) -> Self {
        Self::Syncing(syncing)
    }
}

/// A node that refuses a call is the caller's, with Core's code and message; one that does not answer is not. Clients
/// such as esplora-client repeat what got status 503, and give up at 504.
impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Rejected { code, message } => Self::bad_request(format!("RPC error {code}: {message}")),
            NodeError::Unavailable(error) => {
                tracing::warn!(%error, "the node did not answer");
                Self::silent_node()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use birdhouse_chain::source::SourceError;

    use super::*;

    #[test]
    fn a_node_that_does_not_answer_is_status_503_with_a_time_to_ask_again() {
        for kind in [SourceErrorKind::Transient, SourceErrorKind::Permanent] {
            let silent = SourceError { message: "timed out".into(), kind };
            let refusal = Failure::from(NodeError::Unavailable(silent)).into_refusal();
            // esplora-client repeats 429, 500 and 503.
            assert_eq!((refusal.status.as_u16(), refusal.retry_after_s), (503, Some(SILENT_S)));
        }
        let busy = Error::Source(SourceError { message: "busy".into(), kind: SourceErrorKind::Transient });
        let refusal = Failure::from(busy).into_refusal();
        assert_eq!((refusal.status.as_u16(), refusal.retry_after_s), (503, Some(SILENT_S)));
    }
}
