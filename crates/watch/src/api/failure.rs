//! Requests without an answer.

use std::borrow::Cow;

use birdhouse_chain::source::{BlockPart, NodeError};
use birdhouse_chain::{Error, Syncing};
use hyper::StatusCode;

/// The reason for which a request gets no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// A status and a text for the client.
    Refused(StatusCode, Cow<'static, str>),
    /// Parts of blocks that the node has removed; its peers may send them.
    Removed(Vec<BlockPart>),
}

impl Failure {
    pub(super) fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, text.into())
    }

    pub(super) fn not_found(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::NOT_FOUND, text.into())
    }

    pub(super) fn conflict(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::CONFLICT, text.into())
    }

    pub(super) fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::SERVICE_UNAVAILABLE, text.into())
    }

    pub(super) fn internal() -> Self {
        Self::Refused(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error".into())
    }

    /// Returns the status and the text for the client.
    pub(super) fn into_parts(self) -> (StatusCode, Cow<'static, str>) {
        match self {
            Self::Refused(status, text) => (status, text),
            Self::Removed(_) => Self::unavailable(
                "the node has removed a block of this answer (it is pruned); its peers are asked for it, try again",
            )
            .into_parts(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Removed { parts } => Self::Removed(parts),
            Error::TooLong { max, .. } => {
                Self::bad_request(format!("an address of this answer has more than {max} transactions"))
            }
            Error::Cancelled => Self::unavailable("the answer was ended for others; try again later"),
            error => {
                tracing::error!(%error, "failed to answer a request of the API for programs");
                Self::unavailable("the index or the node's files cannot be read; try again later")
            }
        }
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Chain(error) => error.into(),
            error => {
                tracing::error!(%error, "failed to answer a request of the API for programs");
                Self::unavailable("the file of the watches cannot be used; the log of the server says why")
            }
        }
    }
}

impl From<Syncing> for Failure {
    fn from(syncing: Syncing) -> Self {
        Self::unavailable(syncing.to_string())
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Rejected { code, message } => {
                Self::bad_request(format!("Bitcoin RPC error code {code}: {message}"))
            }
            NodeError::Unavailable(error) => {
                tracing::warn!(%error, "the node did not answer");
                Self::unavailable("the node does not answer; try again later")
            }
        }
    }
}
