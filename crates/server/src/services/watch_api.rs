//! Opening and serving the API for programs: watched wallets, streams of their payments, and invoices.

use std::fmt::Result as Written;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use birdhouse_clients::SlowKind;
use birdhouse_net::ConnectionInfo;
use birdhouse_watch::BeyondGap;
use birdhouse_watch::api::{Api, Settings, Token};
use birdhouse_watch::channel::Clock;

use super::Shared;
use super::metrics_writer::MetricsWriter;
use super::service::{Overview, Service, Serving, Stopped, by_listener};
use crate::config::{InvoiceGap, Options, secrets};
use crate::index::Setup;
use crate::sockets::protocols::WATCH_API;
use crate::sockets::{BoundListener, Plan, Sockets, listeners};

/// The API, not served yet.
pub(super) struct Opened {
    listeners: Vec<Plan<()>>,
    token: Token,
    beyond_gap: BeyondGap,
    data_dir: PathBuf,
    grace: Duration,
}

/// The API with bound listeners.
pub(super) struct WatchApi {
    api: Api,
    sockets: Sockets<()>,
    /// Time in which requests in flight are answered when the server ends.
    grace: Duration,
}

/// The state of the API.
#[derive(Debug)]
struct State {
    overview: birdhouse_watch::api::Overview,
    listeners: Vec<BoundListener>,
}

/// Returns the listeners of the settings.
fn plans(options: &Options) -> Result<Vec<Plan<()>>> {
    let listeners = listeners::plan_of(options, &WATCH_API)?;
    if !listeners.is_empty() && !options.has_bitcoin() {
        bail!("--watch-api-addr needs the index of the chain, and --bitcoin is off; remove one of them");
    }
    Ok(listeners)
}

/// Checks the settings without opening anything.
pub(super) fn check(options: &Options) -> Result<()> {
    if plans(options)?.is_empty() { Ok(()) } else { secrets::TokenFile::of(options)?.check() }
}

/// Opens the API, if the settings enable it.
pub(super) fn open(options: &Options) -> Result<Option<Opened>> {
    let listeners = plans(options)?;
    if listeners.is_empty() {
        return Ok(None);
    }
    Ok(Some(Opened {
        listeners,
        token: secrets::watch_api_token(options)?,
        beyond_gap: options.watch_invoice_gap.unwrap_or(InvoiceGap::Refuse).into(),
        data_dir: options.data_dir()?,
        grace: options.limits.clone().unwrap_or_default().server().shutdown_timeout,
    }))
}

impl Opened {
    pub(super) async fn bind(&self, setup: &Setup, shared: &Shared) -> Result<WatchApi> {
        let sockets = Sockets::open(WATCH_API.serves, &self.listeners, &self.data_dir, &[]).await?;
        let Some(watches) = &shared.watches else {
            bail!("--watch-api-addr needs an index of this process's own; remove it from a front end");
        };
        let settings = Settings {
            network: setup.network,
            token: self.token.clone(),
            connections: shared.connections.clone(),
            reads: Arc::clone(&shared.reads),
            beyond_gap: self.beyond_gap,
            clock: || Clock::system().now().as_secs(),
        };
        let wallets = Arc::new(watches.clone());
        let (index, node) = (Arc::clone(&setup.index), setup.node_of_clients.clone());
        let api = Api::new(index, node, wallets, watches.open_state()?, settings)?;
        Ok(WatchApi { api, sockets, grace: self.grace })
    }
}

impl Service for WatchApi {
    fn name(&self) -> &'static str {
        "Watch API"
    }

    fn listeners(&self) -> &[BoundListener] {
        self.sockets.listeners()
    }

    fn serve(&self, stopped: Stopped) -> Serving {
        Box::pin(self.api.clone().serve(self.sockets.take(), self.grace, async move { drop(stopped.await) }))
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.api.connections()
    }

    fn disconnect(&self, id: u64) -> bool {
        self.api.disconnect(id)
    }

    fn overview(&self) -> Box<dyn Overview> {
        Box::new(State { overview: self.api.overview(), listeners: self.sockets.listeners().to_vec() })
    }
}

impl Overview for State {
    fn connections(&self) -> Vec<(String, usize)> {
        by_listener(&self.listeners, &self.overview.connections)
    }

    fn slowest(&self) -> &[SlowKind] {
        &[]
    }

    fn metrics(&self, metrics: &mut MetricsWriter<'_>) -> Written {
        metrics.connections("watch_api", &self.overview.connections, self.overview.refused_connections)
    }
}
