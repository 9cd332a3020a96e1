//! A connection that carries HTTP requests, one after the other.

use std::error::Error;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tracing::debug;

use crate::listener::Stream;
use crate::meter::Meter;
use crate::slow_write::SlowWrite;

/// Bounds of a connection that carries requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestBounds {
    /// Time for the head of a request, from the end of the one before.
    pub head_timeout: Duration,
    /// Bytes of a head.
    pub head_bytes: usize,
    /// Time in which the client reads nothing of what is written to it.
    pub write_timeout: Duration,
}

/// Answers requests until the connection ends, its client is disconnected, or the sender of `stopped` is dropped; a
/// request in flight is answered then. Returns true if it ended in good order: where a request has asked for that, its
/// stream carries something else from now on.
pub async fn serve_requests<S, B>(
    stream: Stream,
    bounds: RequestBounds,
    meter: &Meter,
    mut stopped: watch::Receiver<()>,
    answer: S,
) -> bool
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let RequestBounds { head_timeout, head_bytes, write_timeout } = bounds;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(head_bytes)
        .serve_connection(TokioIo::new(SlowWrite::new(stream, write_timeout)), answer)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = meter.disconnected() => return false,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    ended.inspect_err(|error| debug!(%error, "connection failed")).is_ok()
}
