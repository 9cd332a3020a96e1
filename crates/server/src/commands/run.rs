//! `birdhouse run`: builds if needed, follows the node, and serves wallets until a signal.

use std::future::Future;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::oneshot;

use crate::config::Options;
use crate::listeners;
use crate::setup::Setup;
use crate::shutdown::Shutdown;

/// How long clients get to receive what was already answered.
const DRAIN: Duration = Duration::from_secs(3);

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let setup = Arc::new(Setup::open(options)?);
    serve(&setup, &Shutdown::default(), |_| {}, Shutdown::signalled())?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until `until` ends, or until indexing fails for good. `listening` is told the first address.
pub(crate) fn serve(
    setup: &Arc<Setup>,
    shutdown: &Shutdown,
    listening: impl FnOnce(SocketAddr),
    until: impl Future<Output = Result<()>>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let hosts = &setup.electrum_settings.hosts;
    let listeners = runtime.block_on(listeners::open(&setup.listeners, &setup.data_dir, hosts))?;
    for (socket, listener) in &listeners {
        let (addr, listener) = (socket.local_addr()?, &listener.name);
        tracing::info!(%addr, listener, "serving the Electrum protocol");
    }
    listening(listeners.first().context("there is at least one listener")?.0.local_addr()?);

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
        let (index, node, settings) = (Arc::clone(&setup.index), setup.node.clone(), setup.electrum_settings.clone());
        let mut server = tokio::spawn(birdhouse_electrum::serve(listeners, index, node, settings, async {
            let _ = stopped.await;
        }));
        let outcome = tokio::select! {
            ended = &mut server => return ended.context("the server panicked"),
            ended = until => ended,
            failed = failure => failed.context("indexing panicked").flatten(),
        };
        tracing::info!("shutting down");
        drop(stop);
        if tokio::time::timeout(DRAIN, server).await.is_err() {
            tracing::warn!("some clients did not take their answers in time");
        }
        outcome
    });
    shutdown.ask();
    setup.index.progress().cancel();
    runtime.shutdown_timeout(Duration::from_secs(1));
    // It may be in a long poll to the node; a publish is safe to cut off at any moment.
    if indexing.is_finished() {
        let _ = indexing.join();
    }
    outcome
}
