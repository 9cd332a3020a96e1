//! Opening and serving Esplora's REST API and the explorer, on the index that wallets ask, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use birdhouse_chain::FilterHeaders;
use birdhouse_esplora::{Limits, Listener, Server, Settings, Sockets};
use birdhouse_explorer::PAGES;
use birdhouse_net::ConnectionIds;
use birdhouse_store::{SegmentOptions, SegmentStore};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::{Options, Switch};
use crate::index::{Setup, setup};
use crate::process::private;
use crate::sockets::{Plan, listeners};

/// Folder of the filter headers in the folder of the index.
const FILTERS: &str = "filters";
/// Their store has no rows, so it needs no cache.
const FILTERS_CACHE_BYTES: u64 = 1 << 20;

/// The REST API and the explorer, not served yet.
pub(crate) struct Opened {
    limits: Limits,
    listeners: Vec<Plan<()>>,
    private: Vec<Plan<()>>,
    explorers: Vec<Plan<()>>,
    /// Headers of compact block filters.
    filters: Option<Arc<FilterHeaders>>,
}

/// The bound sockets of both.
#[derive(Default)]
pub(crate) struct Bound {
    pub(crate) api: Vec<(TcpListener, Listener)>,
    pub(super) private: Vec<(TcpListener, Listener)>,
    pub(crate) explorer: Vec<(TcpListener, Listener)>,
}

/// The accept loop and connections of the REST API.
pub(crate) struct Serving {
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// Set to end the thread that computes filter headers.
    stop_filters: Arc<AtomicBool>,
}

/// Opens the REST API, if the settings enable it.
pub(crate) fn open(options: &Options, has_bitcoin: bool) -> Result<Option<Opened>> {
    let (listeners, explorers) = (listeners::plan_rest(options)?, listeners::plan_explorer(options)?);
    let private = listeners::plan_private_rest(options)?;
    let wants_filters = options.block_filters == Some(Switch::On);
    if wants_filters && listeners.is_empty() {
        bail!("--block-filters needs the REST API, which serves them; set --rest-addr");
    }
    if listeners.is_empty() && private.is_empty() && explorers.is_empty() {
        return Ok(None);
    }
    if !has_bitcoin {
        bail!(
            "--rest-addr, --rest-private-addr and --http-addr need the index of the chain, and --bitcoin is off; remove one of them"
        );
    }
    let filters = wants_filters.then(|| filter_headers(options)).transpose()?;
    let limits = options.limits.clone().unwrap_or_default().rest();
    Ok(Some(Opened { limits, listeners, private, explorers, filters }))
}

/// Opens the store of filter headers in the folder of the index.
fn filter_headers(options: &Options) -> Result<Arc<FilterHeaders>> {
    let folder = setup::index_dir(options)?.join(FILTERS);
    private::folder(&folder)?;
    let advice = || format!("failed to open {}; remove this folder, and it is made again", folder.display());
    let store_options = SegmentOptions { cache_bytes: FILTERS_CACHE_BYTES, ..SegmentOptions::default() };
    let store = SegmentStore::open(&folder, &[], store_options).with_context(advice)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Arc::new(FilterHeaders::open(Arc::new(store), processors / 2).with_context(advice)?))
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

    pub(crate) async fn listen(&self, setup: &Setup) -> Result<Bound> {
        let names: Vec<_> = setup.electrum_settings.hosts.iter().map(|host| host.name.clone()).collect();
        let api = listeners::open(&self.listeners, &setup.data_dir, &names).await?;
        for (socket, listener) in &api {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the REST API");
        }
        let private = listeners::open(&self.private, &setup.data_dir, &names).await?;
        for (socket, listener) in &private {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the REST API with /internal");
        }
        let explorer = listeners::open(&self.explorers, &setup.data_dir, &names).await?;
        for (socket, listener) in &explorer {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the explorer");
        }
        Ok(Bound { api, private, explorer })
    }

    /// Returns a server of both, which takes turns with wallets to keep processors busy and to call the node.
    pub(crate) fn server(
        &self,
        setup: &Setup,
        connection_ids: ConnectionIds,
        wallets: &birdhouse_electrum::Server,
    ) -> Server {
        let (limits, filters) = (self.limits.clone(), self.filters.clone());
        let (processors, node_calls) = (wallets.processors(), wallets.node_calls());
        let pages = setup.electrum_settings.pages.clone();
        let settings =
            Settings { limits, filters, pages, connection_ids, processors, node_calls, ..Settings::new(setup.network) };
        Server::new(Arc::clone(&setup.index), setup.node_of_clients.clone(), settings)
    }

    /// Serves both until the returned value is ended; then requests in flight have `grace` to be answered.
    pub(crate) fn serve(&self, setup: &Setup, server: Server, bound: Bound, grace: Duration) -> Serving {
        let stop_filters = self.follow_filters(setup);
        let sockets = Sockets { api: bound.api, private: bound.private, pages: Some((&PAGES, bound.explorer)) };
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server.serve(sockets, grace, async move { drop(stopped.await) });
        Serving { stop, task: tokio::spawn(serving), stop_filters }
    }

    /// Computes filter headers on a thread of its own, which ends after the value is set.
    fn follow_filters(&self, setup: &Setup) -> Arc<AtomicBool> {
        let stop = Arc::<AtomicBool>::default();
        if let Some(filters) = self.filters.clone() {
            let (index, stop) = (Arc::clone(&setup.index), Arc::clone(&stop));
            std::thread::spawn(move || filters.follow(&index, &stop));
        }
        stop
    }
}

impl Bound {
    /// Returns the names of all listeners.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().map(|(_, listener)| listener.name.clone()).collect()
    }

    /// Returns all sockets with their listeners.
    pub(crate) fn all(&self) -> impl Iterator<Item = &(TcpListener, Listener)> {
        self.api.iter().chain(&self.private).chain(&self.explorer)
    }
}

impl Serving {
    /// Ends it; returns when each connection has got its answer, or its time is over.
    pub(crate) async fn end(self) {
        self.stop_filters.store(true, Ordering::Relaxed);
        drop(self.stop);
        // One that panicked has said so itself.
        let _ = self.task.await;
    }
}
