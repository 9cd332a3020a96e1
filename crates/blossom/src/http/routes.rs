//! A request's way to its endpoint, and what each answer has in common.

use std::time::Instant;

use birdhouse_clients::Overdrawn;
use futures_util::{StreamExt as _, future, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::{sleep, timeout};

use super::reply::{Answer, Body, Refusal, add_common, nothing, preflight, text};
use super::{download, owned, report, upload};
use crate::hash::{BlobHash, HASH_DIGITS};
use crate::limits::{DRAIN_BYTES, DRAIN_SILENCE, DRAIN_TIMEOUT, EXTENSION_CHARS, OVERDRAWN_PAUSE, REQUEST_WORK};
use crate::service::Caller;

/// The answer at the root, for whoever opens it in a browser.
const ROOT: &str = "This is a media server for Nostr clients: Blossom, BUD-01, 02, 06, 09, 11 and 12.\n";

/// An endpoint.
#[derive(Debug, PartialEq, Eq)]
enum Path<'a> {
    Root,
    Upload,
    Report,
    List(&'a str),
    Blob(BlobHash),
    /// A hash with something after it that is no extension.
    Malformed,
    Unknown,
}

impl<'a> Path<'a> {
    fn of(path: &'a str) -> Self {
        match path.strip_prefix('/').unwrap_or(path) {
            "" => Self::Root,
            "upload" => Self::Upload,
            "report" => Self::Report,
            path => match path.strip_prefix("list/") {
                Some(pubkey) => Self::List(pubkey),
                None => Self::of_file(path),
            },
        }
    }

    fn of_file(name: &str) -> Self {
        let Some(hash) = name.get(..HASH_DIGITS).and_then(BlobHash::parse) else { return Self::Unknown };
        let is_extension = |rest: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
            rest.starts_with('.') && rest.len() <= EXTENSION_CHARS && rest.bytes().all(allowed)
        };
        match &name[HASH_DIGITS..] {
            rest if rest.is_empty() || is_extension(rest) => Self::Blob(hash),
            _ => Self::Malformed,
        }
    }

    /// Returns the methods of the endpoint.
    fn methods(&self) -> &'static str {
        match self {
            Self::Root | Self::List(_) => "GET, HEAD, OPTIONS",
            Self::Upload => "PUT, HEAD, OPTIONS",
            Self::Report => "PUT, OPTIONS",
            Self::Blob(_) | Self::Malformed | Self::Unknown => "GET, HEAD, DELETE, OPTIONS",
        }
    }
}

/// Answers a request.
pub(super) async fn respond(caller: Caller, request: Request<Incoming>) -> Response<Body> {
    let (head, mut body) = request.into_parts();
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
    caller.meter.received(head.uri.path().len() + headers, 1);
    let answer = match charge(&caller).await {
        Ok(()) => answer(&caller, &head, &mut body).await,
        Err(refusal) => Err(refusal),
    };
    let mut response = answer.unwrap_or_else(Refusal::into_response);
    add_common(&mut response);
    if head.method == Method::HEAD && response.status() != StatusCode::NOT_MODIFIED {
        // Its headers are those of the answer to GET; a body would not be sent.
        let length = response.body().size_hint().exact().unwrap_or(0);
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
        *response.body_mut() = nothing();
    }
    if body.is_end_stream() {
        return response;
    }
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    // Who waits for the word to go on has sent nothing, and sends nothing now.
    let waits = head.headers.contains_key(header::EXPECT);
    if waits { response } else { response.map(|answer| drained(caller, answer, body)) }
}

/// Charges a client for a request. One that has used its share waits, and no further request of its connection is
/// taken meanwhile.
async fn charge(caller: &Caller) -> Result<(), Refusal> {
    let Err(Overdrawn { wait }) = caller.meter.charge(REQUEST_WORK, Instant::now()) else { return Ok(()) };
    sleep(wait.min(OVERDRAWN_PAUSE)).await;
    let checked = caller.meter.check(Instant::now());
    let refusal = |Overdrawn { wait }| {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "you have used more than your share").retry_after(wait)
    };
    checked.map_err(refusal)
}

async fn answer(caller: &Caller, head: &hyper::http::request::Parts, body: &mut Incoming) -> Answer {
    let path = Path::of(head.uri.path());
    let (method, headers) = (&head.method, &head.headers);
    if *method == Method::OPTIONS {
        return Ok(preflight());
    }
    let is_read = *method == Method::GET || *method == Method::HEAD;
    match path {
        Path::Root if is_read => Ok(text(ROOT)),
        Path::Upload if *method == Method::PUT => upload::upload(caller, headers, body).await,
        Path::Upload if *method == Method::HEAD => upload::would_take(caller, headers).await,
        Path::Report if *method == Method::PUT => report::report(caller, body).await,
        Path::List(pubkey) if is_read => {
            owned::list(caller, headers, pubkey, head.uri.query().unwrap_or_default()).await
        }
        Path::Blob(hash) if is_read => download::download(caller, method, headers, hash).await,
        Path::Blob(hash) if *method == Method::DELETE => owned::delete(caller, headers, hash).await,
        Path::Malformed => Err(Refusal::bad_request("what follows the hash is no extension")),
        Path::Unknown => Err(Refusal::new(StatusCode::NOT_FOUND, "there is no such path")),
        path => {
            let allowed = (header::ALLOW, HeaderValue::from_static(path.methods()));
            let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path has other methods");
            Err(Refusal { header: Some(allowed), ..refusal })
        }
    }
}

/// Reads, within bounds, what is left of a request after its answer was sent: a socket that is closed with unread bytes
/// destroys the answer before the client has read it.
fn drained(caller: Caller, answer: Body, rest: Incoming) -> Body {
    let end = stream::once(drain(caller, rest)).filter_map(|()| future::ready(None));
    UnsyncBoxBody::new(StreamBody::new(
        answer.into_data_stream().map(|data| data.map(hyper::body::Frame::data)).chain(end),
    ))
}

async fn drain(caller: Caller, mut rest: Incoming) {
    let reading = async {
        let mut seen = 0;
        while seen < DRAIN_BYTES {
            let Ok(Some(Ok(frame))) = timeout(DRAIN_SILENCE, rest.frame()).await else { return };
            let bytes = frame.into_data().map_or(0, |data| data.len());
            caller.meter.received(bytes, 0);
            seen += bytes as u64;
        }
    };
    // A client that sends for longer has had its time.
    let _ = timeout(DRAIN_TIMEOUT, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_has_any_extension() {
        let hash = BlobHash([0xab; 32]);
        for extension in ["", ".png", ".tar.gz", ".PDF", ".", ".7z"] {
            assert_eq!(Path::of(&format!("/{hash}{extension}")), Path::Blob(hash), "{extension}");
        }
        assert_eq!(Path::of(&format!("/{}", hash.to_string().to_uppercase())), Path::Blob(hash));
        let long = ".".repeat(EXTENSION_CHARS + 1);
        for rest in ["0", "png", "/", "/..", ".p/g", ".p%20g", ".é", &long] {
            assert_eq!(Path::of(&format!("/{hash}{rest}")), Path::Malformed, "{rest}");
        }
        for unknown in
            ["/favicon.ico", "/../etc/passwd", "/é".repeat(40).as_str(), "//", "/upload/", "/media", "/mirror"]
        {
            assert_eq!(Path::of(unknown), Path::Unknown, "{unknown}");
        }
        assert_eq!([Path::of("/"), Path::of("/upload"), Path::of("/report")], [Path::Root, Path::Upload, Path::Report]);
        assert_eq!(Path::of("/list/abc"), Path::List("abc"));
    }
}
