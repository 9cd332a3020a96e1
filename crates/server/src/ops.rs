//! HTTP for monitoring: `/metrics` and `/health`. Off unless `--ops-addr` is set. It reveals nothing about single
//! clients, but is meant for the operator's own network.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::control::Control;
use crate::{accept, metrics};

/// Concurrent connections; further ones wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 16;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time for a request's head to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Lifetime of a connection; a scraper opens another.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(5);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Binds the listener.
pub(crate) async fn bind(addr: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("failed to bind --ops-addr {addr}"))
}

/// Serves for as long as the future is polled.
pub(crate) async fn serve(listener: TcpListener, control: Arc<Control>) {
    let answer = |socket| {
        let answered = timeout(CONNECTION_TIMEOUT, serve_connection(socket, Arc::clone(&control)));
        // A client that is too slow or breaks off gets no answer.
        async { drop(answered.await) }
    };
    accept::each(listener, "metrics and health", CONNECTIONS_MAX, answer).await;
}

async fn serve_connection(socket: TcpStream, control: Arc<Control>) -> hyper::Result<()> {
    let answer = service_fn(|request| {
        let response = answer(&request, &control);
        async { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(socket), answer)
        .await
}

fn answer(request: &Request<Incoming>, control: &Control) -> Response<String> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET\n".into());
    }
    match request.uri().path() {
        "/metrics" => response(StatusCode::OK, OPEN_METRICS, metrics::text(control)),
        "/health" => {
            let health = control.health();
            let status = if health.is_good() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            response(status, JSON, format!("{}\n", health.to_json()))
        }
        _ => response(StatusCode::NOT_FOUND, TEXT, "not found; use /metrics or /health\n".into()),
    }
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<String> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
    response.body(body).expect("status and header are valid")
}
