//! Requests without an answer: refusals, which are part of the API, and failures, which are ours or the node's.

use std::borrow::Cow;

use birdhouse_chain::source::{NodeError, SourceErrorKind};
use birdhouse_chain::{Error, Syncing};
use hyper::StatusCode;

/// The reason for which a request gets no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The status and text that the API has for it.
    Refused(StatusCode, Cow<'static, str>),
    /// The index failed.
    Index(Error),
}

impl Failure {
    pub(crate) fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, text.into())
    }

    pub(crate) fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::NOT_FOUND, text.into())
    }

    pub(crate) fn unprocessable(text: &'static str) -> Self {
        Self::Refused(StatusCode::UNPROCESSABLE_ENTITY, text.into())
    }

    pub(crate) fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::SERVICE_UNAVAILABLE, text.into())
    }

    pub(crate) fn internal() -> Self {
        Self::Refused(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error".into())
    }

    pub(crate) fn no_block() -> Self {
        Self::not_found("Block not found")
    }

    pub(crate) fn no_transaction() -> Self {
        Self::not_found("Transaction not found")
    }

    pub(crate) fn no_node() -> Self {
        Self::unavailable("this server has no node; ask another one")
    }

    /// Returns status and text for the client. Logs what concerns the operator.
    pub(crate) fn into_parts(self) -> (StatusCode, Cow<'static, str>) {
        match self {
            Self::Refused(status, text) => (status, text),
            Self::Index(error) => {
                tracing::error!(%error, "failed to answer a request");
                (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the index or the node's files cannot be read; try again later".into(),
                )
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Source(error) if error.kind == SourceErrorKind::Transient => {
                Self::unavailable("the node is busy; try again later")
            }
            error => Self::Index(error),
        }
    }
}

impl From<Syncing> for Failure {
    fn from(syncing: Syncing) -> Self {
        Self::unavailable(syncing.to_string())
    }
}

/// A node that refuses a call is the caller's, with Core's code and message; one that does not answer is not.
impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Rejected { code, message } => Self::bad_request(format!("RPC error {code}: {message}")),
            NodeError::Unavailable(error) => {
                tracing::warn!(%error, "the node did not answer");
                Self::Refused(StatusCode::GATEWAY_TIMEOUT, "the node does not answer; try again later".into())
            }
        }
    }
}
