//! `birdhouse run`: builds the index if needed, follows the node, and serves wallets, the relay or both until a signal.

use std::future::Future;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use birdhouse_chain::{Index, Waiting};
use birdhouse_electrum::{Listener, Server, Settings};
use birdhouse_net::{Certificate, ConnectionIds};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use crate::app::{App, Reload, reload};
use crate::cluster::replicas;
use crate::commands::connect::electrum_flag;
use crate::config::{Options, Switch};
use crate::index::Setup;
use crate::operator::{Bitcoin, Control, NodeWatch, Rates, SAMPLE_INTERVAL, Shown, ctl, ops, status};
use crate::process::{Level, Shutdown, Signals, private, systemd};
use crate::services::{relay, rest};
use crate::sockets::{Endpoint, listeners, welcome};
use crate::storage::IndexStore;

/// Blocking threads beyond those for clients: name lookups.
const SPARE_THREADS: usize = 16;
/// Time after the clients' shutdown timeout for work that cannot be interrupted, such as a read of the index.
const LINGER: Duration = Duration::from_secs(1);
/// Time for which wallets wait for a short first build. After it they are served, and told its progress.
const BUILD_HOLD: Duration = Duration::from_secs(5);
/// Interval of looks at the build meanwhile.
const BUILD_POLL: Duration = Duration::from_millis(20);
/// Pause before a failed build is tried again while the relay serves.
const BUILD_RETRY: Duration = Duration::from_mins(1);
/// Interval of status reports to systemd.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// Runs the server. `flags` are the settings without those of the configuration file, which SIGHUP reads again.
pub(crate) fn run(flags: Options, options: &Options, level: Level) -> Result<ExitCode> {
    if options.core_dumps != Some(Switch::On) {
        private::forbid_dumps()?;
    }
    let signals = Signals::watch()?;
    let app = App { signals: signals.clone(), flags, ..App::open(options)? };
    let stopped = async {
        signals.stopped().await;
        Ok(())
    };
    serve(&app, &Shutdown::default(), level, |_| {}, stopped)?;
    Ok(ExitCode::SUCCESS)
}

/// The addresses in use: the first of each kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listening {
    pub(crate) electrum: Option<SocketAddr>,
    pub(crate) relay: Option<SocketAddr>,
    pub(crate) rest: Option<SocketAddr>,
    pub(super) explorer: Option<SocketAddr>,
}

/// Serves until `until` completes, the operator stops the server, or indexing fails. Calls `listening` once with the
/// addresses.
pub(super) fn serve(
    app: &App,
    shutdown: &Shutdown,
    level: Level,
    listening: impl FnOnce(Listening),
    until: impl Future<Output = Result<()>>,
) -> Result<()> {
    let bitcoin = app.bitcoin.as_ref();
    let rest_threads = app.rest.as_ref().map_or(0, rest::Opened::blocking_threads);
    let threads = app.limits.blocking_threads() + rest_threads + SPARE_THREADS;
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(threads).enable_all().build()?;
    let sockets = runtime.block_on(Sockets::open(app))?;
    let connection_ids = ConnectionIds::default();
    let server = bitcoin.map(|setup| {
        let (index, node) = (Arc::clone(&setup.index), setup.node_of_clients.clone());
        let settings = Settings { connection_ids: connection_ids.clone(), ..setup.electrum_settings.clone() };
        Server::new(index, node, settings)
    });
    let relay = {
        let _entered = runtime.enter();
        app.relay.as_ref().map(|relay| relay.start(connection_ids.clone()))
    };
    let watched = bitcoin.zip(server.as_ref()).map(|(setup, server)| watch(setup, shutdown, server)).transpose()?;
    let (started, stop) = (Instant::now(), Notify::new());
    let reload = Reload {
        flags: app.flags.clone(),
        level: level.clone(),
        certificates: sockets.certificates(),
        relay: relay.clone(),
    };
    let (folder, stores) = (app.ctl_dir.clone(), app.stores());
    let rest = app.rest.as_ref().zip(bitcoin).zip(server.as_ref());
    let rest = rest.map(|((rest, setup), wallets)| rest.server(setup, connection_ids, wallets));
    let control = Arc::new(Control {
        started,
        level,
        folder,
        bitcoin: watched,
        relay: relay.clone(),
        rest: rest.clone(),
        stores,
        rates: Rates::default(),
        shown: Shown {
            listeners: sockets.wallets()?,
            rest: sockets.rest.names(),
            public: app.public.clone(),
            warnings: app.warnings.clone(),
        },
        stop,
    });
    listening(Listening {
        electrum: sockets.electrum.first().map(|(socket, _)| socket.local_addr()).transpose()?,
        relay: sockets.relay.first().map(|(socket, _)| socket.local_addr()).transpose()?,
        rest: sockets.rest.api.first().map(|(socket, _)| socket.local_addr()).transpose()?,
        explorer: sockets.rest.explorer.first().map(|(socket, _)| socket.local_addr()).transpose()?,
    });

    if std::io::stderr().is_terminal()
        && let Some(setup) = bitcoin
    {
        let wallets = sockets.electrum.iter();
        let endpoints: Vec<_> =
            wallets.filter_map(|(socket, listener)| Endpoint::of(socket.local_addr().ok()?, listener)).collect();
        eprint!("{}", welcome::text(&endpoints, welcome::own_address(), electrum_flag(setup.network)));
    }
    let onion = app.onion.clone().map(|onion| onion.of(&control.shown.listeners));
    let (indexing, failure) = bitcoin
        .map(|setup| {
            let failure = if relay.is_some() { BuildFailure::IsRetried } else { BuildFailure::EndsServer };
            start_indexing(setup, shutdown, failure)
        })
        .transpose()?
        .unzip();
    let outcome = runtime.block_on(async {
        let (stop, stopped) = oneshot::channel::<()>();
        let mut server = server.map(|server| {
            let index = bitcoin.map(|setup| Arc::clone(&setup.index));
            tokio::spawn(async move {
                let mut stopped = stopped;
                // The sockets are bound already: clients that come meanwhile wait in their queues.
                tokio::select! {
                    () = built_or_held(index.as_deref()) => {}
                    _ = &mut stopped => return,
                }
                server.serve(sockets.electrum, async { drop(stopped.await) }).await;
            })
        });
        let of_fronts = relay.clone();
        let relay = relay.as_ref().map(|relay| relay::serve(relay, sockets.relay, app.limits.shutdown_timeout));
        let rest = app.rest.as_ref().zip(bitcoin).zip(rest);
        let rest =
            rest.map(|((rest, setup), server)| rest.serve(setup, server, sockets.rest, app.limits.shutdown_timeout));
        if let Some((bound, index)) = sockets.replicas {
            replicas::serve(bound, index, of_fronts);
        }
        sockets.operator.serve(&control);
        tokio::spawn(reload.serve(app.signals.clone()));
        if let Some(onion) = onion {
            tokio::spawn(onion.keep());
        }
        if let Some(setup) = bitcoin {
            tokio::spawn(reload::look(app.signals.clone(), Arc::clone(setup)));
        }
        app.signals.serving();
        systemd::ready();
        let outcome = tokio::select! {
            ended = or_pending(server.as_mut()) => return ended.context("the Electrum server panicked"),
            ended = until => ended,
            failed = or_pending(failure) => failed.context("indexing panicked").flatten(),
            lost = or_pending(app.relay.as_ref().map(relay::Opened::fenced)) => Err(lost),
            () = control.stop.notified() => Ok(()),
        };
        tracing::info!("shutting down");
        systemd::stopping();
        drop(stop);
        let wallets = async {
            if let Some(server) = server {
                // A panic was already printed.
                let _ = server.await;
            }
        };
        let nostr_clients = async {
            if let Some(relay) = relay {
                relay.end().await;
            }
        };
        let rest_clients = async {
            if let Some(rest) = rest {
                rest.end().await;
            }
        };
        let all = async { tokio::join!(wallets, nostr_clients, rest_clients) };
        if timeout(app.limits.shutdown_timeout + LINGER, all).await.is_err() {
            tracing::warn!("closed clients that did not read their answers in time");
        }
        outcome
    });
    shutdown.request();
    if let Some(setup) = bitcoin {
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

/// Waits until the index is built, or for [`BUILD_HOLD`].
async fn built_or_held(index: Option<&Index>) {
    let is_built = || index.is_none_or(Index::is_ready);
    let began = Instant::now();
    while !is_built() && began.elapsed() < BUILD_HOLD {
        tokio::time::sleep(BUILD_POLL).await;
    }
}

/// Awaits an optional future; `None` never completes.
async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn watch(setup: &Setup, shutdown: &Shutdown, server: &Server) -> Result<Bitcoin> {
    let node = match (&setup.node, &setup.rpc) {
        (Some(node), Some(rpc)) => {
            let watch = NodeWatch::start(Arc::clone(node), Arc::clone(&setup.index), shutdown.clone())?;
            Some((Arc::clone(rpc), watch))
        }
        _ => None,
    };
    Ok(Bitcoin {
        network: setup.network,
        electrum: server.clone(),
        index: Arc::clone(&setup.index),
        store: setup.store.clone(),
        node,
    })
}

/// Every socket of the process.
struct Sockets {
    electrum: Vec<(TcpListener, Listener)>,
    relay: Vec<(TcpListener, birdhouse_relay::Listener)>,
    rest: rest::Bound,
    replicas: Option<(replicas::Bound, Option<replicas::Primary>)>,
    operator: OperatorSockets,
}

/// The sockets of the operator's tools.
struct OperatorSockets {
    ops: Option<ops::Bound>,
    ctl: UnixListener,
}

impl Sockets {
    async fn open(app: &App) -> Result<Self> {
        let electrum = match &app.bitcoin {
            None => Vec::new(),
            Some(setup) => {
                let names: Vec<_> = setup.electrum_settings.hosts.iter().map(|host| host.name.clone()).collect();
                listeners::open(&setup.listeners, &setup.data_dir, &names).await?
            }
        };
        for (socket, listener) in &electrum {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the Electrum protocol");
        }
        let relay = match &app.relay {
            None => Vec::new(),
            Some(relay) => relay.listen().await?,
        };
        let rest = match app.rest.as_ref().zip(app.bitcoin.as_ref()) {
            None => rest::Bound::default(),
            Some((rest, setup)) => rest.listen(setup).await?,
        };
        let replicas = match &app.replicas {
            None => None,
            Some(plans) => Some(bind_replicas(plans, app).await?),
        };
        let ops = match &app.ops {
            None => None,
            Some(plan) => Some(ops::bind(plan).await?),
        };
        let ctl = ctl::bind(&ctl::path(&app.ctl_dir))?;
        Ok(Self { electrum, relay, rest, replicas, operator: OperatorSockets { ops, ctl } })
    }

    /// Returns the listeners for wallets, with their bound addresses.
    fn wallets(&self) -> Result<Vec<(SocketAddr, Listener)>> {
        self.electrum.iter().map(|(socket, listener)| Ok((socket.local_addr()?, listener.clone()))).collect()
    }

    /// Returns the certificates of all listeners.
    fn certificates(&self) -> Vec<Arc<Certificate>> {
        let wallets = self.electrum.iter().map(|(_, listener)| &listener.transport);
        let nostr_clients = self.relay.iter().map(|(_, listener)| &listener.transport);
        let explorers = self.rest.all().map(|(_, listener)| &listener.transport);
        wallets.chain(nostr_clients).chain(explorers).filter_map(|transport| transport.certificate().cloned()).collect()
    }
}

/// Binds the listeners for replicas of an index in files, and for front ends of a relay.
async fn bind_replicas(plans: &replicas::Plans, app: &App) -> Result<(replicas::Bound, Option<replicas::Primary>)> {
    let hosts = app.bitcoin.iter().flat_map(|setup| &setup.electrum_settings.hosts);
    let names: Vec<_> = hosts.map(|host| host.name.clone()).collect();
    let bound = plans.bind(&app.data_dir, &names).await?;
    let Some(setup) = &app.bitcoin else { return Ok((bound, None)) };
    let IndexStore::Files { store, feed: Some(feed) } = &setup.store else { return Ok((bound, None)) };
    Ok((bound, Some(replicas::Primary::new(feed, store, &setup.index, &setup.index_dir)?)))
}

impl OperatorSockets {
    /// Serves the sockets until the runtime ends.
    fn serve(self, control: &Arc<Control>) {
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
