//! Answers that come before the whole request has been read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};

/// A request's body that notes when it has been read to its end.
struct NotedBody {
    body: Body,
    ended: Arc<AtomicBool>,
}

impl hyper::body::Body for NotedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Adds `Connection: close` to an answer that comes before the whole request has been read (RFC 9112 section 9.3).
///
/// Such a connection ends after the answer. A client that is not told sends its next request on it, and loses it.
pub(crate) async fn with_close(request: Request, next: Next) -> Response {
    let ended = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let noted = |body| Body::new(NotedBody { body, ended: Arc::clone(&ended) });
    let mut response = next.run(request.map(noted)).await;
    if !ended.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
