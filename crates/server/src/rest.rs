//! Opening and serving Esplora's REST API, on the index that wallets ask, too.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use birdhouse_esplora::{Limits, Listener, Server, Settings};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::Options;
use crate::listeners::{self, Plan};
use crate::setup::Setup;

/// The REST API, not served yet.
pub(crate) struct Opened {
    limits: Limits,
    listeners: Vec<Plan<()>>,
}

/// The accept loop and connections of the REST API.
pub(crate) struct Serving {
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// Opens the REST API, if the settings enable it.
pub(crate) fn open(options: &Options, has_bitcoin: bool) -> Result<Option<Opened>> {
    let listeners = listeners::plan_rest(options)?;
    if listeners.is_empty() {
        return Ok(None);
    }
    if !has_bitcoin {
        bail!("--rest-addr needs the index of the chain, and --bitcoin is off; remove one of them");
    }
    Ok(Some(Opened { limits: options.limits.clone().unwrap_or_default().rest(), listeners }))
}

impl Opened {
    /// Returns the largest number of threads that its requests keep busy.
    pub(crate) fn blocking_threads(&self) -> usize {
        self.limits.blocking_threads()
    }

    /// The bound on connections.
    pub(crate) fn connections(&mut self) -> &mut usize {
        &mut self.limits.connections
    }

    pub(crate) async fn listen(&self, setup: &Setup) -> Result<Vec<(TcpListener, Listener)>> {
        let names: Vec<_> = setup.electrum_settings.hosts.iter().map(|host| host.name.clone()).collect();
        let open = listeners::open(&self.listeners, &setup.data_dir, &names).await?;
        for (socket, listener) in &open {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the REST API");
        }
        Ok(open)
    }

    /// Serves the API until the returned value is ended; then requests in flight have `grace` to be answered.
    pub(crate) fn serve(&self, setup: &Setup, listeners: Vec<(TcpListener, Listener)>, grace: Duration) -> Serving {
        let settings = Settings { limits: self.limits.clone(), ..Settings::new(setup.network) };
        let server = Server::new(Arc::clone(&setup.index), setup.node.clone(), settings);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server.serve(listeners, grace, async move { drop(stopped.await) });
        Serving { stop, serving: tokio::spawn(serving) }
    }
}

impl Serving {
    /// Ends it; returns when each connection has got its answer, or its time is over.
    pub(crate) async fn end(self) {
        drop(self.stop);
        // One that panicked has said so itself.
        let _ = self.serving.await;
    }
}
