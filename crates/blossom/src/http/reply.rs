//! Answers, refusals, and the headers that all of them have.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::address::Address;
use crate::error::Error;
use crate::media_type::MediaType;
use crate::store::Blob;

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;
/// The outcome of a request.
pub(super) type Answer = Result<Response<Body>, Refusal>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const REASON: HeaderName = HeaderName::from_static("x-reason");

/// Headers of every answer: web pages of any site may read it, and nobody guesses its type.
const COMMON: [(HeaderName, HeaderValue); 4] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
    (
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("X-Reason, Content-Length, Content-Range, Accept-Ranges, ETag, Retry-After"),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin")),
];

/// Further headers of the answer to a preflight request (BUD-01).
const PREFLIGHT: [(HeaderName, HeaderValue); 3] = [
    (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Authorization, *")),
    (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, PUT, DELETE")),
    (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
];

/// A request that is not answered as it wishes.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: Cow<'static, str>,
    pub(super) retry_after: Option<Duration>,
    /// A header that explains the status.
    pub(super) header: Option<(HeaderName, HeaderValue)>,
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn new(status: StatusCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { status, reason: reason.into(), retry_after: None, header: None }
    }

    pub(super) fn bad_request(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    pub(super) fn unauthorized(reason: impl Into<Cow<'static, str>>) -> Self {
        let header = (header::WWW_AUTHENTICATE, HeaderValue::from_static("Nostr"));
        Self { header: Some(header), ..Self::new(StatusCode::UNAUTHORIZED, reason) }
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such blob")
    }

    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")
    }

    #[must_use]
    pub(super) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let Self { status, reason, retry_after, header } = self;
        let mut response = with_type(status, TEXT, format!("{reason}\n"));
        let headers = response.headers_mut();
        // What came from a client, and is no value of a header, stays in the body.
        if let Ok(value) = HeaderValue::from_str(&reason) {
            headers.insert(REASON, value);
        }
        if let Some(wait) = retry_after {
            // Rounded up: a client that waits this long is not refused again.
            headers.insert(header::RETRY_AFTER, (wait.as_secs() + 1).into());
        }
        headers.extend(header.into_iter().map(|(name, value)| (Some(name), value)));
        response
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        tracing::error!(%error, "failed to use the media store");
        let reason = if error.is_full_disk() { "the disk is full" } else { "the media store cannot be used now" };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }
}

// === answers ===

/// Adds the headers that all answers have.
pub(super) fn add_common(response: &mut Response<Body>) {
    for (name, value) in COMMON {
        response.headers_mut().insert(name, value);
    }
}

/// Returns the answer to a preflight request of a browser.
pub(super) fn preflight() -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    for (name, value) in PREFLIGHT {
        response.headers_mut().insert(name, value);
    }
    response
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(nothing());
    *response.status_mut() = status;
    response
}

pub(super) fn text(text: impl Into<Bytes>) -> Response<Body> {
    with_type(StatusCode::OK, TEXT, text)
}

pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    with_type(status, JSON, value.to_string())
}

fn with_type(status: StatusCode, media_type: HeaderValue, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(whole(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub(super) fn nothing() -> Body {
    whole(Bytes::new())
}

/// Returns the descriptor of a blob (BUD-02).
pub(super) fn descriptor(blob: &Blob, address: &Address) -> Value {
    json!({
        "url": address.url_of(&file_name(blob)),
        "sha256": blob.hash.to_string(),
        "size": blob.size,
        "type": blob.media_type,
        "uploaded": blob.uploaded,
    })
}

/// Returns the hash of a blob with the extension of its type.
pub(super) fn file_name(blob: &Blob) -> String {
    format!("{}.{}", blob.hash, MediaType::stored(&blob.media_type).extension())
}
