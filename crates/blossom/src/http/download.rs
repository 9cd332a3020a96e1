//! `GET` and `HEAD /<sha256>`: a blob, or a part of it (BUD-01).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use futures_util::stream;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Frame};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};

use super::range::Wanted;
use super::reply::{Answer, Body, Refusal, empty, file_name, nothing};
use crate::hash::BlobHash;
use crate::limits::DOWNLOAD_PIECE_BYTES;
use crate::media_type::{Display, MediaType};
use crate::service::Caller;
use crate::store::{Blob, Store};

/// The bytes of a hash never change, so caches may keep them for a year.
const CACHE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const POLICY: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// A blob, and its file.
struct Opened {
    blob: Blob,
    file: File,
}

/// Bytes of a file that are still to be sent.
struct Left {
    caller: Caller,
    file: File,
    from: u64,
    bytes: u64,
}

pub(super) async fn download(caller: &Caller, method: &Method, headers: &HeaderMap, hash: BlobHash) -> Answer {
    let opened = caller.on_disk(|store| open(store, hash)).await?;
    let Opened { blob, file } = opened.ok_or_else(Refusal::not_found)?;
    let tag = format!("\"{hash}\"");
    if headers.get(header::IF_NONE_MATCH).is_some_and(|value| matches(value, &tag)) {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        response.headers_mut().insert(header::ETAG, value_of(&tag));
        response.headers_mut().insert(header::CACHE_CONTROL, CACHE);
        return Ok(response);
    }
    let is_head = *method == Method::HEAD;
    // A range is for GET alone (RFC 9110 section 14.2), and only of the blob that the client has begun to read.
    let is_same = headers.get(header::IF_RANGE).is_none_or(|value| value.as_bytes() == tag.as_bytes());
    let range = headers.get(header::RANGE).filter(|_| is_same && !is_head).and_then(|value| value.to_str().ok());
    let wanted = range.map_or(Wanted::Whole, |range| Wanted::of(range, blob.size));
    let (status, from, bytes) = match wanted {
        Wanted::Whole => (StatusCode::OK, 0, blob.size),
        Wanted::Part { first, last } => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Wanted::Nothing => return Err(unsatisfiable(blob.size)),
    };
    if !is_head {
        caller.counters().downloaded();
    }
    let body = if is_head { nothing() } else { body(Left { caller: caller.clone(), file, from, bytes }) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    add_headers(headers, &blob);
    headers.insert(header::ETAG, value_of(&tag));
    headers.insert(header::CONTENT_LENGTH, bytes.into());
    if status == StatusCode::PARTIAL_CONTENT {
        headers.insert(header::CONTENT_RANGE, value_of(&format!("bytes {from}-{}/{}", from + bytes - 1, blob.size)));
    }
    Ok(response)
}

fn open(store: &Store, hash: BlobHash) -> crate::Result<Option<Opened>> {
    let Some(blob) = store.blob(hash)? else { return Ok(None) };
    let file = store.open_file(hash)?;
    if file.is_none() && store.blob(hash)?.is_some() {
        tracing::error!(%hash, "the file of a blob is missing");
    }
    Ok(file.map(|file| Opened { blob, file }))
}

fn add_headers(headers: &mut HeaderMap, blob: &Blob) {
    let media_type = MediaType::stored(&blob.media_type);
    headers.insert(header::CONTENT_TYPE, value_of(media_type.as_str()));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CACHE_CONTROL, CACHE);
    if media_type.display() == Display::Attachment {
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        let disposition = format!("attachment; filename=\"{}\"", file_name(blob));
        headers.insert(header::CONTENT_DISPOSITION, value_of(&disposition));
    }
}

fn unsatisfiable(size: u64) -> Refusal {
    let header = (header::CONTENT_RANGE, value_of(&format!("bytes */{size}")));
    let refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, "the blob has no byte of this range");
    Refusal { header: Some(header), ..refusal }
}

/// True for a value of `If-None-Match` that has the tag, or any.
fn matches(value: &HeaderValue, tag: &str) -> bool {
    let has =
        |value: &str| value.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag);
    value.to_str().is_ok_and(has)
}

fn value_of(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("text of ASCII, without a control character")
}

/// A body that is read from the file as the client takes it. A failure ends the connection: the client sees that the
/// answer is not whole.
fn body(left: Left) -> Body {
    let pieces = stream::try_unfold(left, |mut left| async move {
        let Some(piece) = left.next().await? else { return Ok(None) };
        Ok(Some((Frame::data(piece), left)))
    });
    UnsyncBoxBody::new(StreamBody::new(pieces))
}

impl Left {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX).min(DOWNLOAD_PIECE_BYTES);
        if bytes == 0 {
            return Ok(None);
        }
        let (file, from) = (&self.file, self.from);
        let piece = self.caller.on_disk(|_| {
            let mut piece = vec![0; bytes];
            file.read_exact_at(&mut piece, from).map(|()| piece)
        });
        let piece = piece.await.inspect_err(|error| tracing::error!(%error, "failed to read the file of a blob"))?;
        self.from += bytes as u64;
        self.bytes -= bytes as u64;
        self.caller.meter.sent(bytes);
        Ok(Some(piece.into()))
    }
}
