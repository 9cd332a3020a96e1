//! One POST: its status is all that is read of the answer.

use std::time::{Duration, SystemTime};

use birdhouse_dial::{Guard, Target};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::clock::Clock;
use super::message::Outcome;
use crate::limits::{ATTEMPT_TIMEOUT, RETRY_MAX};

/// Bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// A request.
pub(super) struct Post<'a> {
    pub(super) target: &'a Target,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Vec<u8>,
}

/// The part of an answer that counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: StatusCode,
    /// Wait that the receiver asks for.
    after: Option<Duration>,
}

/// Sends a request, once.
///
/// # Errors
/// The reason why there is no answer, in one line without secrets.
pub(super) async fn post(guard: &Guard, post: Post<'_>) -> Result<Answer, String> {
    let target = post.target;
    match tokio::time::timeout(ATTEMPT_TIMEOUT, exchange(guard, post)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("{target} has not answered in {} s", ATTEMPT_TIMEOUT.as_secs())),
    }
}

async fn exchange(guard: &Guard, post: Post<'_>) -> Result<Answer, String> {
    let target = post.target;
    let failed = |error: hyper::Error| format!("failed to send to {target}: {}", innermost(&error));
    let request = request(post)?;
    let stream = TokioIo::new(guard.connect(target).await?);
    let builder = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX).to_owned();
    let (mut sender, connection) = builder.handshake(stream).await.map_err(failed)?;
    let answer = sender.send_request(request);
    tokio::pin!(answer, connection);
    let answer = tokio::select! {
        answer = &mut answer => answer,
        // Its failure is the answer's, too.
        _ = &mut connection => answer.await,
    };
    answer.map(|answer| Answer::of(&answer, SystemTime::UNIX_EPOCH + Clock::system().now())).map_err(failed)
}

fn request(post: Post<'_>) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(post.target.path())
        .header(HOST, post.target.authority())
        .header(USER_AGENT, concat!("birdhouse/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, post.content_type)
        .body(Full::new(Bytes::from(post.body)))
        .map_err(|_| format!("the address {} cannot be asked for", post.target))?;
    request.headers_mut().extend(post.headers);
    Ok(request)
}

/// Returns the message of the failure below all others: hyper's own says only in which step it was.
fn innermost(error: &hyper::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

impl Answer {
    fn of<B>(answer: &Response<B>, now: SystemTime) -> Self {
        let after = answer.headers().get(RETRY_AFTER).and_then(|value| wait(value.to_str().ok()?, now));
        Self { status: answer.status(), after }
    }

    /// Returns the end of the attempt that it means.
    pub(super) fn outcome(&self, target: &Target) -> Outcome {
        let status = self.status;
        let why = match status {
            StatusCode::GONE => return Outcome::Disable { why: format!("{target} answered 410: it is gone for good") },
            StatusCode::PAYLOAD_TOO_LARGE => {
                return Outcome::Refused { why: format!("{target} answered 413: the message is too large for it") };
            }
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                return Outcome::Rejected { why: format!("{target} answered {status}: it refuses the message") };
            }
            status if status.is_success() => return Outcome::Delivered,
            status if status.is_redirection() => format!(
                "{target} answered {}: it redirects, which is not followed; write the new address into the file",
                status.as_u16()
            ),
            status => format!("{target} answered {status}"),
        };
        Outcome::Retry { why, after: self.after }
    }
}

/// Returns the wait that a header `Retry-After` asks for (RFC 9110), [`RETRY_MAX`] at most.
fn wait(value: &str, now: SystemTime) -> Option<Duration> {
    let wait = match value.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_MAX))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
