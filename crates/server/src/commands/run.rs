//! `birdhouse run`: builds if needed, follows the node, and serves wallets until a signal.

use std::future::Future;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use birdhouse_electrum::{Listener, Server};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use crate::config::Options;
use crate::control::Control;
use crate::log::Level;
use crate::node_watch::NodeWatch;
use crate::setup::Setup;
use crate::shutdown::Shutdown;
use crate::{ctl, listeners, ops, systemd};

/// Threads for what is no client's: looking up names.
const SPARE_THREADS: usize = 16;
/// How long what cannot be cut off, a read of the index, may take after clients had their time.
const LINGER: Duration = Duration::from_secs(1);
/// How often systemd is told how the server is.
const STATUS_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn run(options: &Options, level: Level) -> Result<ExitCode> {
    let setup = Arc::new(Setup::open(options)?);
    serve(&setup, &Shutdown::default(), level, |_| {}, Shutdown::signalled())?;
    Ok(ExitCode::SUCCESS)
}

/// Where clients may come: the first address for wallets, and that of the relay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening {
    pub(crate) electrum: SocketAddr,
    pub(crate) relay: Option<SocketAddr>,
}

/// Serves until `until` ends, the operator says so, or indexing fails for good. `listening` is told where.
pub(crate) fn serve(
    setup: &Arc<Setup>,
    shutdown: &Shutdown,
    level: Level,
    listening: impl FnOnce(Listening),
    until: impl Future<Output = Result<()>>,
) -> Result<()> {
    let limits = &setup.electrum_settings.limits;
    let threads = limits.blocking_threads() + SPARE_THREADS;
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(threads).enable_all().build()?;
    let sockets = runtime.block_on(Sockets::open(setup))?;
    let server = Server::new(Arc::clone(&setup.index), setup.node.clone(), setup.electrum_settings.clone());
    let control = Arc::new(control(setup, shutdown, level, &server)?);
    listening(Listening {
        electrum: sockets.electrum.first().context("there is at least one listener")?.0.local_addr()?,
        relay: sockets.relay.as_ref().map(TcpListener::local_addr).transpose()?,
    });

    // Indexing blocks, so it has a thread of its own; its failure ends the server.
    let (failed, failure) = oneshot::channel();
    let indexing = {
        let (setup, shutdown) = (Arc::clone(setup), shutdown.clone());
        std::thread::Builder::new().name("indexing".into()).spawn(move || {
            let outcome = setup.keep_indexed(&shutdown);
            // Nobody listens any more once the server is ending.
            let _ = failed.send(outcome);
        })?
    };
    let outcome = runtime.block_on(async {
        let (stop, stopped) = oneshot::channel::<()>();
        let mut server = tokio::spawn(server.serve(sockets.electrum, async {
            let _ = stopped.await;
        }));
        let relay = setup.relay.as_ref().zip(sockets.relay).map(|(relay, listener)| relay.serve(listener));
        sockets.operator.serve(&control);
        systemd::ready();
        let outcome = tokio::select! {
            ended = &mut server => return ended.context("the server panicked"),
            ended = until => ended,
            failed = failure => failed.context("indexing panicked").flatten(),
            () = control.stop.notified() => Ok(()),
        };
        tracing::info!("shutting down");
        systemd::stopping();
        drop(stop);
        drop(relay);
        if timeout(limits.shutdown + LINGER, server).await.is_err() {
            tracing::warn!("some clients did not take their answers in time");
        }
        outcome
    });
    shutdown.ask();
    setup.index.progress().cancel();
    runtime.shutdown_timeout(LINGER);
    // It may be in a long poll to the node; a publish is safe to cut off at any moment.
    if indexing.is_finished() {
        let _ = indexing.join();
    }
    outcome
}

fn control(setup: &Setup, shutdown: &Shutdown, level: Level, server: &Server) -> Result<Control> {
    let node = match (&setup.node, &setup.rpc) {
        (Some(node), Some(rpc)) => {
            let watch = NodeWatch::start(Arc::clone(node), Arc::clone(&setup.index), shutdown.clone())?;
            Some((Arc::clone(rpc), watch))
        }
        _ => None,
    };
    Ok(Control {
        network: setup.network,
        started: Instant::now(),
        monitor: server.monitor(),
        level,
        index: Arc::clone(&setup.index),
        store: Arc::clone(&setup.store),
        node,
        stop: Notify::new(),
    })
}

/// Every socket of the process.
struct Sockets {
    electrum: Vec<(TcpListener, Listener)>,
    relay: Option<TcpListener>,
    operator: OperatorSockets,
}

/// Those that are not for wallets.
struct OperatorSockets {
    ops: Option<TcpListener>,
    ctl: UnixListener,
}

impl Sockets {
    async fn open(setup: &Setup) -> Result<Self> {
        let hosts = &setup.electrum_settings.hosts;
        let electrum = listeners::open(&setup.listeners, &setup.data_dir, hosts).await?;
        for (socket, listener) in &electrum {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the Electrum protocol");
        }
        let relay = match &setup.relay {
            None => None,
            Some(relay) => Some(relay.listen().await?),
        };
        let ops = match setup.ops_addr {
            None => None,
            Some(addr) => {
                let listener = ops::bind(addr).await?;
                tracing::info!(addr = %listener.local_addr()?, "serving metrics and health");
                Some(listener)
            }
        };
        let ctl = ctl::bind(&ctl::path(&setup.index_dir))?;
        Ok(Self { electrum, relay, operator: OperatorSockets { ops, ctl } })
    }
}

impl OperatorSockets {
    /// Serves them until the runtime ends.
    fn serve(self, control: &Arc<Control>) {
        if let Some(listener) = self.ops {
            tokio::spawn(ops::serve(listener, Arc::clone(control)));
        }
        tokio::spawn(ctl::serve(self.ctl, Arc::clone(control)));
        tokio::spawn(systemd::keep_alive());
        tokio::spawn(tell_status(Arc::clone(control)));
    }
}

/// Tells systemd how the server is, whenever that is another way.
async fn tell_status(control: Arc<Control>) {
    let mut told = None;
    let mut ticks = tokio::time::interval(STATUS_EVERY);
    loop {
        ticks.tick().await;
        let health = control.health();
        if told != Some(health) {
            systemd::status(&health.to_string());
            told = Some(health);
        }
    }
}
