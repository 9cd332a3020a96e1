//! The running server: every part bound, started, and ended.

use std::future::{Future, poll_fn};
use std::io::IsTerminal as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use birdhouse_chain::Waiting;
use birdhouse_dial::Guard;
use birdhouse_net::Connections;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};
use tokio::task;
use tokio::time::timeout;

use super::App;
use super::reload::{self, Reload};
use crate::cluster::replicas;
use crate::index::Setup;
use crate::operator::{Bitcoin, Control, NodeWatch, Shown, alarms, ctl, ops, status};
use crate::process::{Level, Shutdown, systemd};
use crate::services::{self, OnPanic, Rates, SAMPLE_INTERVAL, Service, Shared};
use crate::sockets::protocols::ELECTRUM;
use crate::sockets::{BoundListener, Endpoint, welcome};
use crate::storage::IndexStore;

/// Blocking threads beyond those for clients: name lookups.
const SPARE_THREADS: usize = 16;
/// Time after the clients' shutdown timeout for work that cannot be interrupted, such as a read of the index.
const LINGER: Duration = Duration::from_secs(1);
/// Pause before a failed build is tried again while the relay serves.
const BUILD_RETRY: Duration = Duration::from_mins(1);
/// Interval of status reports to systemd.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// Serves until `until` completes, the operator stops the server, or indexing fails. Calls `listening` once with the
/// bound listeners.
pub(crate) fn serve(
    app: &App,
    shutdown: &Shutdown,
    level: Level,
    listening: impl FnOnce(&[BoundListener]),
    until: impl Future<Output = Result<()>>,
) -> Result<()> {
    let runtime = runtime(app)?;
    let watches = app.watches(runtime.handle());
    let (connections, reads) = (Connections::default(), app.limits.reads());
    let dial = Arc::new(Guard::new(app.refused.clone()));
    let shared = Shared { connections, reads, dial, watches: watches.clone() };
    let bound = runtime.block_on(Bound::open(app, &shared))?;
    if let Some(watches) = &watches {
        watches.deliver_with(app.surroundings(&bound.services));
    }
    let (flags, services) = (app.flags.clone(), bound.services.list.clone());
    let reload = Reload { flags, level: level.clone(), services, watches: watches.clone() };
    let control = Arc::new(control(app, shutdown, level, &bound.services, &shared)?);
    let listeners: Vec<BoundListener> =
        bound.services.list.iter().flat_map(|service| service.listeners()).cloned().collect();
    listening(&listeners);
    welcome_wallets(app, &control.shown.listeners);
    let on_failure = if bound.services.relay.is_some() { BuildFailure::IsRetried } else { BuildFailure::EndsServer };
    let indexing = app.bitcoin.as_ref().map(|setup| start_indexing(setup, shutdown, on_failure));
    let (indexing, failure) = indexing.transpose()?.unzip();
    if let Some(setup) = &app.bitcoin {
        setup.follow_derived(shutdown)?;
        setup.watch_disk(shutdown)?;
    }
    if let Some(watches) = &control.watches {
        reload::read_watches(watches);
    }
    let outcome = runtime.block_on(async {
        let mut running: Vec<Running> = bound.services.list.iter().map(Running::start).collect();
        bound.serve_others(&control);
        start_tasks(app, &control, reload);
        tokio::spawn(alarms::announce(Arc::clone(&control)));
        app.signals.serving();
        systemd::ready();
        let outcome = tokio::select! {
            ended = needed_one_ended(&mut running) => return ended,
            ended = until => ended,
            failed = or_pending(failure) => failed.context("indexing panicked").flatten(),
            lost = or_pending(app.services.relay.as_ref().map(services::relay::Opened::fenced)) => Err(lost),
            () = control.stop.notified() => Ok(()),
        };
        tracing::info!("shutting down");
        systemd::stopping();
        if timeout(app.limits.shutdown_timeout + LINGER, end(running)).await.is_err() {
            tracing::warn!("closed clients that did not read their answers in time");
        }
        outcome
    });
    shutdown.request();
    if let Some(setup) = &app.bitcoin {
        setup.index.progress().cancel();
    }
    runtime.shutdown_timeout(LINGER);
    // The thread may be in a long poll to the node; interrupting a publish is safe at any moment.
    if let Some(indexing) = indexing
        && indexing.is_finished()
    {
        let _ = indexing.join();
    }
    outcome
}

fn runtime(app: &App) -> Result<Runtime> {
    let threads = app.limits.blocking_threads() + app.services.blocking_threads() + SPARE_THREADS;
    Ok(tokio::runtime::Builder::new_multi_thread().max_blocking_threads(threads).enable_all().build()?)
}

/// Returns the handles of the operator's tools.
fn control(
    app: &App,
    shutdown: &Shutdown,
    level: Level,
    services: &services::Bound,
    shared: &Shared,
) -> Result<Control> {
    let listeners = || services.list.iter().flat_map(|service| service.listeners());
    Ok(Control {
        started: Instant::now(),
        level,
        folder: app.ctl_dir.clone(),
        bitcoin: app.bitcoin.as_ref().map(|setup| watch(setup, shutdown)).transpose()?,
        services: services.list.clone(),
        relay: services.relay.clone(),
        dial: Arc::clone(&shared.dial),
        rules: Arc::clone(&services.rules),
        stores: app.stores(shared.watches.as_ref()),
        watches: shared.watches.clone(),
        reads: Arc::clone(&shared.reads),
        rates: Rates::default(),
        shown: Shown {
            listeners: listeners().filter(|listener| listener.serves == ELECTRUM).cloned().collect(),
            others: listeners().filter(|listener| listener.serves != ELECTRUM).cloned().collect(),
            relay_urls: app.relay_urls.clone(),
            public: app.public.clone(),
            warnings: app.warnings.clone(),
        },
        flags: app.flags.clone(),
        stop: Notify::new(),
    })
}

/// Returns handles on index and node, and starts to watch the node.
fn watch(setup: &Setup, shutdown: &Shutdown) -> Result<Bitcoin> {
    let node = match (&setup.node, &setup.rpc) {
        (Some(node), Some(rpc)) => {
            let watch = NodeWatch::start(Arc::clone(node), Arc::clone(&setup.index), shutdown.clone())?;
            Some((Arc::clone(rpc), watch))
        }
        _ => None,
    };
    let (index, store, pruner) = (Arc::clone(&setup.index), setup.store.clone(), setup.pruner.clone());
    Ok(Bitcoin { network: setup.network, index, store, pruner, node })
}

/// Shows on a terminal how wallets connect.
fn welcome_wallets(app: &App, listeners: &[BoundListener]) {
    if std::io::stderr().is_terminal()
        && let Some(setup) = &app.bitcoin
    {
        let endpoints: Vec<_> = listeners.iter().filter_map(Endpoint::of).collect();
        eprint!("{}", welcome::text(&endpoints, welcome::OwnAddress::find(), welcome::electrum_flag(setup.network)));
    }
}

/// Starts the tasks that answer signals and keep the onion service.
fn start_tasks(app: &App, control: &Control, reload: Reload) {
    if let Some(watches) = reload.watches.clone() {
        tokio::spawn(reload::retry_watches(watches));
    }
    tokio::spawn(reload.serve(app.signals.clone()));
    if let Some(onion) = app.onion.clone() {
        tokio::spawn(onion.of(&control.shown.listeners).keep());
    }
    if let Some(setup) = &app.bitcoin {
        tokio::spawn(reload::look(app.signals.clone(), Arc::clone(setup)));
    }
}

// === services ===

/// A service that is served.
struct Running {
    name: &'static str,
    on_panic: OnPanic,
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    task: task::JoinHandle<()>,
}

impl Running {
    fn start(service: &Arc<dyn Service>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(service.serve(stopped));
        Self { name: service.name(), on_panic: service.on_panic(), stop, task }
    }
}

/// Completes when a service has ended without which the others do not go on.
async fn needed_one_ended(running: &mut [Running]) -> Result<()> {
    poll_fn(|context| {
        for Running { name, task, .. } in running.iter_mut().filter(|one| one.on_panic == OnPanic::EndsServer) {
            if let Poll::Ready(ended) = Pin::new(task).poll(context) {
                return Poll::Ready(ended.with_context(|| format!("the {name} server panicked")));
            }
        }
        Poll::Pending
    })
    .await
}

/// Ends all services; returns when their clients have their answers.
async fn end(running: Vec<Running>) {
    let stopped = |Running { stop, task, .. }| {
        drop(stop);
        task
    };
    let tasks: Vec<task::JoinHandle<()>> = running.into_iter().map(stopped).collect();
    for task in tasks {
        // One that panicked has said so itself.
        let _ = task.await;
    }
}

// === indexing ===

/// Consequence of a first build that fails. A finished index is followed and served through every failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BuildFailure {
    /// Nothing is left to serve.
    EndsServer,
    /// The relay goes on.
    IsRetried,
}

/// Starts indexing on a thread of its own, since it blocks.
fn start_indexing(
    setup: &Arc<Setup>,
    shutdown: &Shutdown,
    on_failure: BuildFailure,
) -> Result<(JoinHandle<()>, oneshot::Receiver<Result<()>>)> {
    let (failed, failure) = oneshot::channel();
    let (setup, shutdown) = (Arc::clone(setup), shutdown.clone());
    let indexing = std::thread::Builder::new().name("indexing".into()).spawn(move || {
        let outcome = loop {
            match setup.keep_indexed(&shutdown) {
                Err(error) if on_failure == BuildFailure::IsRetried && !shutdown.is_requested() => {
                    setup.index.set_waiting(Waiting::Failed { message: format!("{error:#}") });
                    std::thread::park_timeout(BUILD_RETRY);
                }
                outcome => break outcome,
            }
        };
        // The receiver is gone once the server is stopping.
        let _ = failed.send(outcome);
    })?;
    Ok((indexing, failure))
}

/// Awaits an optional future; `None` never completes.
async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

// === sockets ===

/// Every service and socket of the process.
struct Bound {
    services: services::Bound,
    replicas: Option<(replicas::Bound, Option<replicas::Primary>)>,
    ops: Option<ops::Bound>,
    ctl: UnixListener,
}

impl Bound {
    async fn open(app: &App, shared: &Shared) -> Result<Self> {
        let services = app.services.bind(app.bitcoin.as_ref(), shared).await?;
        let replicas = match &app.replicas {
            None => None,
            Some(plans) => Some(bind_replicas(plans, app).await?),
        };
        let ops = match &app.ops {
            None => None,
            Some(plan) => Some(ops::bind(plan).await?),
        };
        let ctl = ctl::bind(&ctl::path(&app.ctl_dir))?;
        Ok(Self { services, replicas, ops, ctl })
    }

    /// Serves replicas and the operator until the runtime ends.
    fn serve_others(self, control: &Arc<Control>) {
        if let Some((bound, index)) = self.replicas {
            replicas::serve(bound, index, self.services.relay);
        }
        if let Some(bound) = self.ops {
            tokio::spawn(ops::serve(bound, Arc::clone(control)));
        }
        tokio::spawn(sample_counts(Arc::clone(control)));
        tokio::spawn(ctl::serve(self.ctl, Arc::clone(control)));
        let alive = Arc::clone(control);
        tokio::spawn(systemd::keep_alive(move || alive.health().is_alive()));
        tokio::spawn(report_status(Arc::clone(control)));
    }
}

/// Binds the listeners for replicas of an index in files, and for front ends of a relay.
async fn bind_replicas(plans: &replicas::Plans, app: &App) -> Result<(replicas::Bound, Option<replicas::Primary>)> {
    let bound = plans.bind(&app.data_dir, &app.names).await?;
    let Some(setup) = &app.bitcoin else { return Ok((bound, None)) };
    let IndexStore::Files { store, feed: Some(feed) } = &setup.store else { return Ok((bound, None)) };
    Ok((bound, Some(replicas::Primary::new(feed, store, &setup.index, &setup.index_dir)?)))
}

/// Samples the counts from which the status has its rates.
async fn sample_counts(control: Arc<Control>) {
    let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
    loop {
        ticks.tick().await;
        status::sample(&control);
    }
}

/// Reports the health to systemd whenever it has changed.
async fn report_status(control: Arc<Control>) {
    let mut reported = None;
    let mut ticks = tokio::time::interval(STATUS_INTERVAL);
    loop {
        ticks.tick().await;
        let health = control.health();
        if reported.as_ref() != Some(&health) {
            systemd::status(&health.to_string());
            reported = Some(health);
        }
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
