//! Opening and serving Esplora's REST API and the explorer, on the index that wallets ask, too.

use std::fmt::Result as Written;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use birdhouse_chain::{FilterHeaders, Tweaks};
use birdhouse_clients::SlowKind;
use birdhouse_esplora::{History, Limits, Server, Settings};
use birdhouse_explorer::PAGES;
use birdhouse_net::{ConnectionInfo, WebPages};

use super::Shared;
use super::metrics_writer::MetricsWriter;
use super::service::{Overview, Service, Serving, Stopped, by_listener};
use crate::config::{Options, Switch};
use crate::index::Setup;
use crate::sockets::protocols::{EXPLORER, PRIVATE_REST, REST};
use crate::sockets::{BoundListener, Plan, Sockets, listeners};

/// File of the mempool's history in the folder of the index.
const HISTORY: &str = "mempool-history";

/// The REST API and the explorer, not served yet.
pub(super) struct Opened {
    limits: Limits,
    listeners: Vec<Plan<()>>,
    private: Vec<Plan<()>>,
    explorers: Vec<Plan<()>>,
    /// Web pages that may open a WebSocket over loopback.
    pages: WebPages,
    /// Folder of the self-signed certificate, and the names in it.
    certificate: (PathBuf, Vec<String>),
    grace: Duration,
}

/// Both with bound listeners.
pub(super) struct Rest {
    server: Server,
    api: Sockets<()>,
    private: Sockets<()>,
    explorer: Sockets<()>,
    listeners: Vec<BoundListener>,
    /// Time in which requests in flight are answered when the server ends.
    grace: Duration,
}

/// The state of both.
#[derive(Debug)]
struct State {
    overview: birdhouse_esplora::Overview,
    listeners: Vec<BoundListener>,
}

/// The listeners that serve the REST API.
#[derive(Debug)]
struct Plans {
    listeners: Vec<Plan<()>>,
    private: Vec<Plan<()>>,
    /// The explorer has the API under `/api`.
    explorers: Vec<Plan<()>>,
}

impl Plans {
    /// Returns the listeners of the settings; `None` without any.
    ///
    /// # Errors
    /// The settings contradict each other.
    fn of(options: &Options) -> Result<Option<Self>> {
        let (listeners, explorers) = (listeners::plan_of(options, &REST)?, listeners::plan_of(options, &EXPLORER)?);
        let private = listeners::plan_of(options, &PRIVATE_REST)?;
        if listeners.is_empty() && private.is_empty() && explorers.is_empty() {
            if options.block_filters == Some(Switch::On) {
                bail!(
                    "--block-filters needs the REST API, which serves them; set --rest-addr, --rest-private-addr or \
                     --http-addr"
                );
            }
            return Ok(None);
        }
        if !options.has_bitcoin() {
            bail!(
                "--rest-addr, --rest-private-addr and --http-addr need the index of the chain, and --bitcoin is off; \
                 remove one of them"
            );
        }
        Ok(Some(Self { listeners, private, explorers }))
    }
}

/// Checks the settings without opening anything.
pub(super) fn check(options: &Options) -> Result<()> {
    Plans::of(options).map(drop)
}

/// Opens the REST API, if the settings enable it.
pub(super) fn open(options: &Options) -> Result<Option<Opened>> {
    let Some(Plans { listeners, private, explorers }) = Plans::of(options)? else { return Ok(None) };
    let limits = options.limits.clone().unwrap_or_default();
    Ok(Some(Opened {
        grace: limits.server().shutdown_timeout,
        limits: limits.rest(),
        listeners,
        private,
        explorers,
        pages: listeners::web_pages(options),
        certificate: (options.data_dir()?, listeners::host_names(options)),
    }))
}

impl Opened {
    /// Returns the largest number of threads that its requests keep busy.
    pub(super) fn blocking_threads(&self) -> usize {
        self.limits.blocking_threads()
    }

    /// The bound on connections.
    pub(super) fn connections(&mut self) -> &mut usize {
        &mut self.limits.connections
    }

    pub(super) async fn bind(&self, setup: &Setup, shared: &Shared) -> Result<Rest> {
        let (folder, names) = &self.certificate;
        let api = Sockets::open(REST.serves, &self.listeners, folder, names).await?;
        let private = Sockets::open(PRIVATE_REST.serves, &self.private, folder, names).await?;
        let explorer = Sockets::open(EXPLORER.serves, &self.explorers, folder, names).await?;
        let settings = Settings {
            limits: self.limits.clone(),
            filters: FilterHeaders::among(setup.index.derived()).map(Arc::new),
            tweaks: Tweaks::among(setup.index.derived()),
            history: history(setup),
            pages: self.pages.clone(),
            connections: shared.connections.clone(),
            reads: Arc::clone(&shared.reads),
            ..Settings::new(setup.network)
        };
        Ok(Rest {
            server: Server::new(Arc::clone(&setup.index), setup.node_of_clients.clone(), settings),
            listeners: [&api, &private, &explorer].into_iter().flat_map(Sockets::listeners).cloned().collect(),
            api,
            private,
            explorer,
            grace: self.grace,
        })
    }
}

/// Opens the history of the mempool, if the server has a node.
fn history(setup: &Setup) -> Option<Arc<History>> {
    setup.node_of_clients.as_ref()?;
    let path = setup.index_dir.join(HISTORY);
    let failed = |error: &std::io::Error| {
        tracing::warn!(path = %path.display(), %error, "failed to open the history of the mempool; none is kept");
    };
    History::open(&path).inspect_err(failed).ok().map(Arc::new)
}

impl Service for Rest {
    fn name(&self) -> &'static str {
        "REST"
    }

    fn listeners(&self) -> &[BoundListener] {
        &self.listeners
    }

    fn serve(&self, stopped: Stopped) -> Serving {
        let pages = Some((&PAGES, self.explorer.take()));
        let sockets = birdhouse_esplora::Sockets { api: self.api.take(), private: self.private.take(), pages };
        Box::pin(self.server.clone().serve(sockets, self.grace, async move { drop(stopped.await) }))
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.server.connections()
    }

    fn disconnect(&self, id: u64) -> bool {
        self.server.disconnect(id)
    }

    fn overview(&self) -> Box<dyn Overview> {
        Box::new(State { overview: self.server.overview(), listeners: self.listeners.clone() })
    }
}

impl Overview for State {
    fn connections(&self) -> Vec<(String, usize)> {
        by_listener(&self.listeners, &self.overview.connections)
    }

    fn slowest(&self) -> &[SlowKind] {
        &self.overview.slowest
    }

    fn metrics(&self, metrics: &mut MetricsWriter<'_>) -> Written {
        metrics.connections("rest", &self.overview.connections, self.overview.refused_connections)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn block_filters_need_any_listener_with_the_api() {
        let on = Options { block_filters: Some(Switch::On), ..Options::default() };
        assert!(check(&on).unwrap_err().to_string().contains("--block-filters needs the REST API"));
        let addr = Some("127.0.0.1:0".parse().unwrap());
        check(&Options { rest_addr: addr, ..on.clone() }).unwrap();
        check(&Options { rest_private_addr: addr, ..on.clone() }).unwrap();
        check(&Options { http_addr: addr, ..on.clone() }).unwrap();
        assert!(check(&Options { http_addr: addr, bitcoin: Some(Switch::Off), ..on }).is_err());
    }
}
