//! `birdhouse run`: builds if needed, follows the node, and serves wallets, the relay or both until a signal.

use std::future::Future;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use birdhouse_electrum::{Listener, Server};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use crate::config::Options;
use crate::control::{Bitcoin, Control};
use crate::house::House;
use crate::log::Level;
use crate::node_watch::NodeWatch;
use crate::relay::Opened;
use crate::setup::Setup;
use crate::shutdown::Shutdown;
use crate::{ctl, listeners, ops, relay, systemd};

/// Threads for what is no client's: looking up names.
const SPARE_THREADS: usize = 16;
/// How long what cannot be cut off, a read of the index, may take after clients had their time.
const LINGER: Duration = Duration::from_secs(1);
/// How often systemd is told how the server is.
const STATUS_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn run(options: &Options, level: Level) -> Result<ExitCode> {
    let house = House::open(options)?;
    serve(&house, &Shutdown::default(), level, |_| {}, Shutdown::signalled())?;
    Ok(ExitCode::SUCCESS)
}

/// Where clients may come: the first address for wallets, and that of the relay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening {
    pub(crate) electrum: Option<SocketAddr>,
    pub(crate) relay: Option<SocketAddr>,
}

/// Serves until `until` ends, the operator says so, or indexing fails for good. `listening` is told where.
pub(crate) fn serve(
    house: &House,
    shutdown: &Shutdown,
    level: Level,
    listening: impl FnOnce(Listening),
    until: impl Future<Output = Result<()>>,
) -> Result<()> {
    let bitcoin = house.bitcoin.as_ref();
    let threads = house.limits.blocking_threads() + SPARE_THREADS;
    let runtime = tokio::runtime::Builder::new_multi_thread().max_blocking_threads(threads).enable_all().build()?;
    let sockets = runtime.block_on(Sockets::open(house))?;
    let server =
        bitcoin.map(|setup| Server::new(Arc::clone(&setup.index), setup.node.clone(), setup.electrum_settings.clone()));
    let relay = {
        let _inside = runtime.enter();
        house.relay.as_ref().map(Opened::start)
    };
    let watched = bitcoin.zip(server.as_ref()).map(|(setup, server)| watch(setup, shutdown, server)).transpose()?;
    let (started, stop) = (Instant::now(), Notify::new());
    let control = Arc::new(Control { started, level, bitcoin: watched, relay: relay.clone(), stop });
    listening(Listening {
        electrum: sockets.electrum.first().map(|(socket, _)| socket.local_addr()).transpose()?,
        relay: sockets.relay.as_ref().map(TcpListener::local_addr).transpose()?,
    });

    let (indexing, failure) = bitcoin.map(|setup| start_indexing(setup, shutdown)).transpose()?.unzip();
    let outcome = runtime.block_on(async {
        let (stop, stopped) = oneshot::channel::<()>();
        let mut server = server.map(|server| {
            tokio::spawn(server.serve(sockets.electrum, async {
                let _ = stopped.await;
            }))
        });
        let relay = relay.as_ref().zip(sockets.relay).map(|(relay, listener)| relay::serve(relay, listener));
        sockets.operator.serve(&control);
        systemd::ready();
        let outcome = tokio::select! {
            ended = if_there(server.as_mut()) => return ended.context("the server panicked"),
            ended = until => ended,
            failed = if_there(failure) => failed.context("indexing panicked").flatten(),
            () = control.stop.notified() => Ok(()),
        };
        tracing::info!("shutting down");
        systemd::stopping();
        drop(stop);
        let wallets = async {
            if let Some(server) = server {
                // One that panicked has said so itself.
                let _ = server.await;
            }
        };
        let nostr_clients = async {
            if let Some(relay) = relay {
                relay.end().await;
            }
        };
        let all = async { tokio::join!(wallets, nostr_clients) };
        if timeout(house.limits.shutdown + LINGER, all).await.is_err() {
            tracing::warn!("some clients did not take their answers in time");
        }
        outcome
    });
    shutdown.ask();
    if let Some(setup) = bitcoin {
        setup.index.progress().cancel();
    }
    runtime.shutdown_timeout(LINGER);
    // It may be in a long poll to the node; a publish is safe to cut off at any moment.
    if let Some(indexing) = indexing
        && indexing.is_finished()
    {
        let _ = indexing.join();
    }
    outcome
}

/// Indexing blocks, so it has a thread of its own; its failure ends the server.
fn start_indexing(setup: &Arc<Setup>, shutdown: &Shutdown) -> Result<(JoinHandle<()>, oneshot::Receiver<Result<()>>)> {
    let (failed, failure) = oneshot::channel();
    let (setup, shutdown) = (Arc::clone(setup), shutdown.clone());
    let indexing = std::thread::Builder::new().name("indexing".into()).spawn(move || {
        let outcome = setup.keep_indexed(&shutdown);
        // Nobody listens any more once the server is ending.
        let _ = failed.send(outcome);
    })?;
    Ok((indexing, failure))
}

/// Waits for something that may not be there: then for ever.
async fn if_there<F: Future>(future: Option<F>) -> F::Output {
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
        monitor: server.monitor(),
        index: Arc::clone(&setup.index),
        store: Arc::clone(&setup.store),
        node,
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
    async fn open(house: &House) -> Result<Self> {
        let electrum = match &house.bitcoin {
            None => Vec::new(),
            Some(setup) => listeners::open(&setup.listeners, &setup.data_dir, &setup.electrum_settings.hosts).await?,
        };
        for (socket, listener) in &electrum {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the Electrum protocol");
        }
        let relay = match &house.relay {
            None => None,
            Some(relay) => Some(relay.listen().await?),
        };
        let ops = match house.ops_addr {
            None => None,
            Some(addr) => {
                let listener = ops::bind(addr).await?;
                tracing::info!(addr = %listener.local_addr()?, "serving metrics and health");
                Some(listener)
            }
        };
        let ctl = ctl::bind(&ctl::path(&house.ctl_dir))?;
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
