//! HTTP for the operator: the dashboard, `/metrics` and `/health`. Off unless `--ops-addr` is set. It reveals nothing
//! about single clients, but is meant for the operator's own network.

mod figures;
mod form;
mod guard;
mod pages;
mod response;
mod wallets;

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use birdhouse_clients::{ClientKeying, PlaceBounds};
use birdhouse_net::{
    Accepted, ConnectionSlots, Connections, Listener, Proxy, Registry, Seated, Seats, SlowWrite, Transport,
};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{FORWARDED, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::time::timeout;

use self::guard::Guard;
use self::pages::{Dashboard, Reply};
use self::response::response;
use self::wallets::Wallets;
use crate::config::{Options, Switch};
use crate::operator::control::Control;
use crate::operator::metrics;
use crate::sockets::bind;

/// Name of the listener in the log.
const NAME: &str = "dashboard, metrics and health";
/// Concurrent connections. The idlest leaves for a newcomer, so `/health` is answered whoever else is connected.
pub(crate) const CONNECTIONS_MAX: usize = 32;
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time for a request's head to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a form; a filter may have thousands of authors.
const FORM_BYTES_MAX: usize = 1 << 20;
/// Time for a form to arrive.
const FORM_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the answer to `stop` to be sent before the server stops.
const STOP_DELAY: Duration = Duration::from_millis(200);
/// Longest time in which a client reads nothing of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Lifetime of a connection; a scraper opens another.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(5);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Settings of the listener.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) addr: SocketAddr,
    /// Names of hosts beside IP addresses and localhost.
    hosts: Vec<String>,
    /// Browsers may use the commands of `birdhouse ctl`.
    commands: Switch,
    /// Access to the page of watched wallets.
    wallets: Wallets,
}

impl Plan {
    /// Returns the listener of the settings; `None` if they have none.
    ///
    /// # Errors
    /// The data folder is unknown.
    pub(crate) fn of(options: &Options) -> Result<Option<Self>> {
        let Some(addr) = options.ops_addr else { return Ok(None) };
        let usual = if addr.ip().is_loopback() { Switch::On } else { Switch::Off };
        let commands = options.ops_control.unwrap_or(usual);
        let wallets = Wallets::of(options, addr.ip())?;
        Ok(Some(Self { addr, hosts: options.ops_host.clone().unwrap_or_default(), commands, wallets }))
    }
}

/// A bound listener.
pub(crate) struct Bound {
    listener: TcpListener,
    dashboard: Arc<Dashboard>,
}

/// Binds the listener.
pub(crate) async fn bind(plan: &Plan) -> Result<Bound> {
    let addr = plan.addr;
    let listener = bind::listen("ops-addr", addr).await?;
    tracing::info!(addr = %listener.local_addr()?, "serving metrics and health");
    let dashboard = Arc::new(Dashboard::new(Guard::new(plan.hosts.clone())?, plan.commands, plan.wallets.clone()));
    Ok(Bound { listener, dashboard })
}

/// Serves for as long as the future is polled.
pub(crate) async fn serve(bound: Bound, control: Arc<Control>) {
    let Bound { listener, dashboard } = bound;
    let converse = move |accepted| converse(accepted, Arc::clone(&control), Arc::clone(&dashboard));
    let seats = Seats::new(PlaceBounds::of_networks(None), Vec::new(), Arc::default(), Instant::now());
    let slots = ConnectionSlots::new(CONNECTIONS_MAX, seats);
    let registry = Registry::new(ClientKeying::default(), Connections::default());
    let listener = (listener, Listener { name: NAME.into(), transport: Transport::Tcp, proxy: Proxy::Off, limits: () });
    let (listeners, end) = (vec![listener], std::future::pending());
    birdhouse_net::serve(listeners, &registry, |()| slots.clone(), end, Duration::ZERO, converse).await;
}

/// Serves one connection to its end, or until it must leave for a newcomer.
async fn converse(accepted: Accepted<()>, control: Arc<Control>, dashboard: Arc<Dashboard>) {
    let Accepted { socket, permit: _permit, seat, .. } = accepted;
    let stream = SlowWrite::new(Seated::new(socket, Arc::clone(&seat)), WRITE_TIMEOUT);
    let answered = timeout(CONNECTION_TIMEOUT, serve_connection(stream, control, dashboard));
    // A client that is too slow or breaks off gets no answer.
    seat.hold(async { drop(answered.await) }).await;
}

async fn serve_connection(
    stream: SlowWrite<Seated>,
    control: Arc<Control>,
    dashboard: Arc<Dashboard>,
) -> hyper::Result<()> {
    let answer = service_fn(|request| {
        let (control, dashboard) = (Arc::clone(&control), Arc::clone(&dashboard));
        async move { Ok::<_, Infallible>(answer(request, &control, &dashboard).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

async fn answer(request: Request<Incoming>, control: &Arc<Control>, dashboard: &Dashboard) -> Response<String> {
    let is_command = request.uri().path().starts_with("/control/");
    match *request.method() {
        Method::GET | Method::HEAD if !is_command => get(&request, control, dashboard).await,
        Method::POST if is_command => command(request, control, dashboard).await,
        _ => response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET, or POST for a command\n".into()),
    }
}

async fn get(request: &Request<Incoming>, control: &Control, dashboard: &Dashboard) -> Response<String> {
    match request.uri().path() {
        "/metrics" => dashboard.figures.make(|| response(StatusCode::OK, OPEN_METRICS, metrics::text(control))).await,
        "/health" => {
            let health = control.health();
            let status = if health.is_good() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            response(status, JSON, format!("{}\n", health.to_json()))
        }
        path => dashboard.get(path, &seen(request.version(), request.headers()), control).await.unwrap_or_else(|| {
            response(StatusCode::NOT_FOUND, TEXT, "not found; use /, /control, /metrics or /health\n".into())
        }),
    }
}

/// Returns the headers of a request. One by HTTP/1.0 counts as a proxy's: no browser speaks it, and nginx does towards
/// servers, without a word about its clients, unless it is set otherwise.
fn seen(version: Version, headers: &HeaderMap) -> Cow<'_, HeaderMap> {
    if version >= Version::HTTP_11 {
        return Cow::Borrowed(headers);
    }
    let mut headers = headers.clone();
    headers.insert(FORWARDED, HeaderValue::from_static("proto=http"));
    Cow::Owned(headers)
}

async fn command(request: Request<Incoming>, control: &Arc<Control>, dashboard: &Dashboard) -> Response<String> {
    let (parts, body) = request.into_parts();
    let read = timeout(FORM_TIMEOUT, Limited::new(body, FORM_BYTES_MAX).collect()).await;
    let Ok(Ok(body)) = read else {
        return response(StatusCode::BAD_REQUEST, TEXT, "the form is too large, or did not arrive in time\n".into());
    };
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let Reply { response, stops } =
        dashboard.post(parts.uri.path(), &seen(parts.version, &parts.headers), &body, control).await;
    if stops {
        let control = Arc::clone(control);
        tokio::spawn(async move {
            tokio::time::sleep(STOP_DELAY).await;
            control.stop.notify_one();
        });
    }
    response
}
