//! Answers as values; `entrance` makes responses of them.

use birdhouse_chain::Snapshot;
use hyper::StatusCode;
use serde_json::Value;

use crate::api::failure::Failure;
use crate::api::portions::Portions;
use crate::api::wish::Feed;

/// The outcome of a question.
pub(super) type Answer = Result<Reply, Failure>;

/// Makes the next piece of an answer; `None` ends it.
pub(super) type NextPiece = dyn FnMut(&Snapshot) -> Result<Option<Vec<u8>>, Failure> + Send;

/// An answer.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) content: Content,
    /// Another path, where the answer is found.
    pub(super) location: Option<String>,
}

/// Content of an answer.
pub(super) enum Content {
    /// A text of this media type.
    Text(&'static str, String),
    /// A text of this media type in pieces, which are made while the client reads it.
    Pieces(&'static str, Box<NextPiece>),
    /// Events, without an end.
    Events(Feed),
}

pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const LINES: &str = "application/jsonl; charset=utf-8";
pub(super) const CSV: &str = "text/csv; charset=utf-8";
pub(super) const EVENTS: &str = "text/event-stream";

#[expect(clippy::unnecessary_wraps, reason = "an endpoint ends with one of these, and may fail before")]
impl Reply {
    fn new(content: Content) -> Self {
        Self { status: StatusCode::OK, content, location: None }
    }

    /// JSON.
    pub(super) fn json(value: &Value) -> Answer {
        Ok(Self::new(Content::Text(JSON, value.to_string())))
    }

    /// Text of a media type.
    pub(super) fn text(media_type: &'static str, text: impl Into<String>) -> Answer {
        Ok(Self::new(Content::Text(media_type, text.into())))
    }

    /// Another path, with a text of its own.
    pub(super) fn elsewhere(location: String, text: String) -> Answer {
        let reply = Self::new(Content::Text(TEXT, text));
        Ok(Self { status: StatusCode::TEMPORARY_REDIRECT, location: Some(location), ..reply })
    }

    /// Text in portions, of which `write` adds one thing after the other.
    pub(super) fn portions<T: Send + 'static>(
        media_type: &'static str,
        mut portions: Portions<T>,
        write: impl Fn(&Snapshot, &T, &mut String) -> Result<(), Failure> + Send + 'static,
    ) -> Answer {
        let next = move |at: &Snapshot| {
            let text = portions.next(|thing, text| write(at, thing, text))?;
            Ok(text.map(String::into_bytes))
        };
        Ok(Self::new(Content::Pieces(media_type, Box::new(next))))
    }

    /// Events.
    pub(super) fn events(feed: Feed) -> Answer {
        Ok(Self::new(Content::Events(feed)))
    }

    /// Sets the status.
    #[must_use]
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}
