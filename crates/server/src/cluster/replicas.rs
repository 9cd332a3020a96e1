//! The listener for replicas: other processes that copy the index of this one and follow its changes (`--follow`), and
//! front ends of a relay on a cluster, which pass events on to it.
//!
//! It is off unless `replicas-addr` or `replicas-tls-addr` is set. Beyond loopback it needs a secret: whoever may copy
//! the index sees all of it and makes this machine read it, and whoever passes events on is believed to have judged
//! them.
//!
//! An installation without this listener keeps no changes.

mod copies;
mod places;
#[cfg(test)]
mod tests;
pub(super) mod wire;

use std::convert::Infallible;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use birdhouse_chain::Index;
use birdhouse_clients::ClientKeying;
use birdhouse_net::{Accepted, Connections, Listener, Registry, SlowWrite, Stream, WebPages};
use birdhouse_relay::{FeedOffset, Relay};
use birdhouse_store::{FeedStore, Fetched, SegmentStore};
use bitcoin::hashes::{Hash as _, sha256};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use self::copies::{Copies, Wanted};
use self::places::{AllTaken, Entry};
#[cfg(test)]
pub(crate) use self::places::{KNOWN_MAX, STRANGER_PATIENCE, STRANGERS_MAX, STRANGERS_OF_ADDRESS_MAX};
use self::wire::{EVENTS_BYTES_MAX, FORMAT, MANIFEST_BYTES_MAX, PIECE_BYTES_MAX, VERSION};
use crate::config::{Options, RoleName, secrets};
use crate::process::random;
use crate::sockets::protocols::{REPLICAS, REPLICAS_CONNECTIONS_MAX};
use crate::sockets::{Plan, listeners};

/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time for a request's head or body to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time in which the other end reads nothing of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
/// Lifetime of a connection; a replica opens another.
const CONNECTION_TIMEOUT: Duration = Duration::from_hours(1);
/// Longest wait for a change, and the pause between two looks.
const CHANGE_WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for news of the relay: front ends that end wait for the answer.
const FEED_WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks at whether the copy is still read.
const EXPIRE: Duration = Duration::from_mins(1);

/// Listeners that are planned.
pub(crate) struct Plans {
    listeners: Vec<Plan<()>>,
    secret: Option<String>,
}

/// Listeners that are bound.
pub(crate) struct Bound {
    listeners: Vec<(TcpListener, Listener<()>)>,
    secret: Option<sha256::Hash>,
}

/// The index that replicas follow.
pub(crate) struct Primary {
    feed: Arc<FeedStore>,
    copies: Arc<Copies>,
    index: Arc<Index>,
    /// Names this process: changes are numbered from its start.
    run: u64,
}

/// The halves that are served.
struct Service {
    index: Option<Primary>,
    relay: Option<Arc<Relay>>,
    secret: Option<sha256::Hash>,
}

const _: () = assert!(places::KNOWN_MAX + places::STRANGERS_MAX == REPLICAS_CONNECTIONS_MAX, "the doctor counts them");

// === impl Plans ===

impl Plans {
    /// Returns the listeners of the settings; `None` without any.
    ///
    /// # Errors
    /// The settings contradict each other, or a listener beyond loopback has no secret.
    pub(crate) fn of(options: &Options) -> Result<Option<Self>> {
        let listeners = listeners::plan_of(options, &REPLICAS)?;
        if listeners.is_empty() {
            return Ok(None);
        }
        let is_front = options.role == Some(RoleName::Front);
        if options.has_bitcoin() && (options.store.is_some() || options.follow.is_some()) {
            bail!(
                "--replicas-addr serves an index in files that this process writes; remove it, or --store and --follow"
            );
        }
        if !options.has_bitcoin() && (options.store.is_none() || is_front) {
            bail!(
                "--replicas-addr serves an index, or the front ends of a relay that this process writes to a cluster; \
                 remove it, or set --store without --role front"
            );
        }
        let secret = secrets::of_replicas(options)?;
        let open = listeners.iter().find(|plan| !plan.addr.ip().is_loopback());
        if let (None, Some(open)) = (&secret, open) {
            bail!("listener {:?} is open to other machines without a secret; set --replica-secret-file", open.name);
        }
        Ok(Some(Self { listeners, secret }))
    }

    /// Binds the listeners.
    pub(crate) async fn bind(&self, data_dir: &Path, names: &[String]) -> Result<Bound> {
        let bound = listeners::open(&self.listeners, data_dir, names).await?;
        for (socket, listener) in &bound {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving {}", REPLICAS.serves);
        }
        let secret = self.secret.as_ref().map(|secret| sha256::Hash::hash(secret.as_bytes()));
        Ok(Bound { listeners: bound, secret })
    }
}

// === serving ===

/// Serves for as long as the runtime lives.
pub(crate) fn serve(bound: Bound, index: Option<Primary>, relay: Option<Arc<Relay>>) {
    let Bound { listeners, secret } = bound;
    let service = Arc::new(Service { index, relay, secret });
    let copies = service.index.as_ref().map(|primary| Arc::clone(&primary.copies));
    tokio::spawn(async move {
        let registry = Registry::new(ClientKeying::default(), Connections::default());
        let (strangers, known) = (places::of_strangers(Instant::now()), Arc::new(Semaphore::new(places::KNOWN_MAX)));
        let converse =
            move |accepted| converse(accepted, Arc::clone(&service), Arc::new(Entry::new(Arc::clone(&known))));
        let end = std::future::pending();
        birdhouse_net::serve(listeners, &registry, |()| strangers.clone(), end, Duration::ZERO, converse).await;
    });
    let Some(copies) = copies else { return };
    tokio::spawn(async move {
        loop {
            let copies = Arc::clone(&copies);
            let _ = tokio::task::spawn_blocking(move || copies.expire()).await;
            sleep(EXPIRE).await;
        }
    });
}

/// Serves a connection in the place of a stranger, until it has shown the secret, then in a place of its own.
async fn converse(mut accepted: Accepted<()>, service: Arc<Service>, entry: Arc<Entry>) {
    let held = Arc::clone(&accepted.seat);
    let mut sent_away = Box::pin(async move {
        // Nobody waits for it for longer.
        let _ = timeout(places::STRANGER_PATIENCE, held.displaced()).await;
    });
    let origin = tokio::select! {
        origin = accepted.origin() => origin,
        () = sent_away.as_mut() => return,
    };
    if origin.is_err() {
        return;
    }
    let Accepted { listener, socket, permit, seat, .. } = accepted;
    let mut serving = pin!(async {
        // The other end asks again if it breaks off.
        if let Ok(stream) = listener.transport.open(socket).await {
            let _ = serve_connection(stream, service, Arc::clone(&entry)).await;
        }
    });
    tokio::select! {
        () = serving.as_mut() => return,
        () = entry.admitted() => drop((permit, seat)),
        () = sent_away.as_mut() => return,
    }
    drop(sent_away);
    let _ = timeout(CONNECTION_TIMEOUT, serving).await;
}

async fn serve_connection(stream: Stream, service: Arc<Service>, entry: Arc<Entry>) -> hyper::Result<()> {
    let answer = service_fn(|request| {
        let (service, entry) = (Arc::clone(&service), Arc::clone(&entry));
        async move { Ok::<_, Infallible>(service.admit(request, &entry).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CHANGE_WAIT + REQUEST_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(SlowWrite::new(stream, WRITE_TIMEOUT)), answer)
        .await
}

// === impl Service ===

impl Service {
    /// Answers a request of a connection that has shown the secret; closes another one.
    async fn admit(&self, request: Request<Incoming>, entry: &Entry) -> Response<Full<Bytes>> {
        if !self.knows(&request) {
            return closing(StatusCode::UNAUTHORIZED, "show the secret of the other process (replica-secret-file)\n");
        }
        match entry.admit() {
            Ok(()) => self.answer(request).await,
            Err(AllTaken) => {
                closing(StatusCode::SERVICE_UNAVAILABLE, "too many connections of replicas and front ends\n")
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.trim_start_matches('/').splitn(6, '/').collect();
        match (request.method(), &parts[..]) {
            (&Method::POST, ["v1", "events"]) if let Some(relay) = &self.relay => {
                store(Arc::clone(relay), request.into_body()).await
            }
            (&Method::GET, ["v1", "feed", run, end, ephemeral]) if let Some(relay) = &self.relay => {
                let [Ok(run), Ok(end), Ok(ephemeral)] = [run, end, ephemeral].map(|number| number.parse()) else {
                    return bad_request();
                };
                feed(relay, FeedOffset { run, end, ephemeral }).await
            }
            (_, parts) => match &self.index {
                Some(index) => index.answer(parts, request).await,
                None => not_found(),
            },
        }
    }

    fn knows(&self, request: &Request<Incoming>) -> bool {
        // Without one it is on loopback, where a browser takes web pages.
        let Some(secret) = self.secret else { return WebPages::default().check(request.headers()).is_ok() };
        let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        // Hashes are compared, so the time tells nothing of the secret.
        shown.is_some_and(|shown| sha256::Hash::hash(shown) == secret)
    }
}

/// Stores the events of a front end.
async fn store(relay: Arc<Relay>, body: Incoming) -> Response<Full<Bytes>> {
    let Ok(Ok(events)) = timeout(REQUEST_TIMEOUT, Limited::new(body, EVENTS_BYTES_MAX).collect()).await else {
        return bad_request();
    };
    let events = events.to_bytes();
    match tokio::task::spawn_blocking(move || relay.store_forwarded(&events)).await {
        Ok(Ok(outcomes)) => response(StatusCode::OK, outcomes),
        Ok(Err(reason)) => response(StatusCode::BAD_REQUEST, format!("{reason}\n")),
        Err(_) => response(StatusCode::INTERNAL_SERVER_ERROR, "storing events failed\n"),
    }
}

/// Waits for what a front end must learn.
async fn feed(relay: &Relay, after: FeedOffset) -> Response<Full<Bytes>> {
    match timeout(FEED_WAIT, relay.feed(after)).await {
        Ok(Ok(page)) => response(StatusCode::OK, page),
        Ok(Err(reason)) => response(StatusCode::BAD_REQUEST, format!("{reason}\n")),
        Err(_) => response(StatusCode::NO_CONTENT, ""),
    }
}

// === impl Primary ===

impl Primary {
    /// Returns an index and its changes.
    pub(crate) fn new(
        feed: &Arc<FeedStore>,
        store: &Arc<SegmentStore>,
        index: &Arc<Index>,
        index_dir: &Path,
    ) -> Result<Self> {
        Ok(Self {
            feed: Arc::clone(feed),
            copies: Arc::new(Copies::new(Arc::clone(store), index_dir)),
            index: Arc::clone(index),
            run: u64::from_le_bytes(random::bytes()?),
        })
    }

    async fn answer(&self, parts: &[&str], request: Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), parts) {
            (&Method::POST, ["v1", "place"]) => self.place(request.into_body()).await,
            (&Method::POST, ["v1", "copy"]) => self.copy(),
            (&Method::GET, ["v1", "changes", run, number]) => match (run.parse(), number.parse()) {
                (Ok(run), Ok(number)) => self.change(run, number).await,
                _ => bad_request(),
            },
            (&Method::GET, ["v1", "runs", run, number, from, bytes]) => {
                let numbers = [run, number, from, bytes].map(|number| number.parse::<u64>());
                let [Ok(run), Ok(number), Ok(from), Ok(bytes)] = numbers else { return bad_request() };
                let path = (run == self.run).then(|| self.feed.file(number));
                piece(path, from, bytes).await
            }
            (&Method::GET, ["v1", "copy", id, from, bytes, path]) => {
                let [Ok(id), Ok(from), Ok(bytes)] = [id, from, bytes].map(|number| number.parse::<u64>()) else {
                    return bad_request();
                };
                piece(self.copies.path(id, path), from, bytes).await
            }
            _ => not_found(),
        }
    }

    async fn place(&self, body: Incoming) -> Response<Full<Bytes>> {
        let Ok(Ok(manifest)) = timeout(REQUEST_TIMEOUT, Limited::new(body, MANIFEST_BYTES_MAX).collect()).await else {
            return bad_request();
        };
        match self.feed.after(&manifest.to_bytes()) {
            Some(number) => response(StatusCode::OK, format!("{}/{number}", self.run)),
            None => response(StatusCode::NOT_FOUND, "copy the index anew\n"),
        }
    }

    /// Waits for a change.
    async fn change(&self, run: u64, number: u64) -> Response<Full<Bytes>> {
        let waited = timeout(CHANGE_WAIT, async {
            loop {
                match self.feed.change(number) {
                    Fetched::NotYet if run == self.run => sleep(LOOK).await,
                    fetched => break fetched,
                }
            }
        });
        match waited.await {
            Ok(Fetched::Change(bytes)) if run == self.run => response(StatusCode::OK, bytes.to_vec()),
            Err(_) => response(StatusCode::NO_CONTENT, ""),
            Ok(_) => response(StatusCode::GONE, "copy the index anew\n"),
        }
    }

    fn copy(&self) -> Response<Full<Bytes>> {
        if !self.index.is_ready() {
            return response(StatusCode::SERVICE_UNAVAILABLE, "the primary builds its index\n");
        }
        match self.copies.want(|manifest| self.feed.after(manifest).is_some()) {
            Wanted::Making => response(StatusCode::ACCEPTED, "the copy is being made\n"),
            Wanted::Busy => response(StatusCode::SERVICE_UNAVAILABLE, "another replica reads an older copy\n"),
            Wanted::Failed(reason) => response(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
            Wanted::Ready(listing) => {
                response(StatusCode::OK, serde_json::to_vec(&*listing).expect("names and numbers are JSON"))
            }
        }
    }
}

/// Answers with bytes of a file that may be gone.
async fn piece(path: Option<PathBuf>, from: u64, bytes: u64) -> Response<Full<Bytes>> {
    let read = move || -> std::io::Result<Vec<u8>> {
        let mut piece = vec![0; usize::try_from(bytes.min(PIECE_BYTES_MAX)).expect("a piece fits in memory")];
        File::open(path.ok_or(std::io::ErrorKind::NotFound)?)?.read_exact_at(&mut piece, from)?;
        Ok(piece)
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(piece)) => response(StatusCode::OK, piece),
        _ => response(StatusCode::GONE, "the file is gone; ask for another copy\n"),
    }
}

fn bad_request() -> Response<Full<Bytes>> {
    response(StatusCode::BAD_REQUEST, "not a request of a replica\n")
}

fn not_found() -> Response<Full<Bytes>> {
    response(StatusCode::NOT_FOUND, "not found; both processes must run one version\n")
}

fn response(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(FORMAT, VERSION);
    response.body(Full::new(body.into())).expect("status and header are valid")
}

/// An answer after which the connection is closed.
fn closing(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut response = response(status, body);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
