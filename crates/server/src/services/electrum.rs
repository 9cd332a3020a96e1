//! Opening and serving the Electrum protocol.

use std::fmt::Result as Written;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use birdhouse_chain::Index;
use birdhouse_clients::SlowKind;
use birdhouse_dashboard::Status;
use birdhouse_electrum::{Limits, Prefetch, Server, Settings, TweakDialect};
use birdhouse_net::ConnectionInfo;
use bitcoin::Network;

use super::Shared;
use super::metrics_writer::{MetricsWriter, count_of};
use super::rates::PerSecond;
use super::service::{OnPanic, Overview, Service, Serving, Stopped, by_listener};
use crate::config::{Options, Switch, TweakStreams};
use crate::index::Setup;
use crate::sockets::protocols::ELECTRUM;
use crate::sockets::{BoundListener, Plan, Sockets, listeners};

/// Time for which wallets wait for a short first build. After it they are served, and told its progress.
const BUILD_HOLD: Duration = Duration::from_secs(5);
/// Interval of looks at the build meanwhile.
const BUILD_POLL: Duration = Duration::from_millis(20);

/// Appended to the default name of a server with tweaks: Cake Wallet asks no others.
const TWEAKS_NAME: &str = " (tweaks as electrs)";

/// The server for wallets, not bound yet.
pub(super) struct Opened {
    settings: Settings,
    listeners: Vec<Plan>,
    /// Folder of the self-signed certificate, and the names in it.
    certificate: (PathBuf, Vec<String>),
}

/// The bound server for wallets.
pub(super) struct Electrum {
    server: Server,
    index: Arc<Index>,
    sockets: Sockets<Limits>,
}

/// The state of the server.
#[derive(Debug)]
struct State {
    overview: birdhouse_electrum::Overview,
    listeners: Vec<BoundListener>,
}

/// Opens the server for wallets.
pub(super) fn open(options: &Options, network: Network) -> Result<Opened> {
    let listeners = listeners::plan(options, network)?;
    let certificate = (options.data_dir()?, listeners::host_names(options));
    Ok(Opened { settings: settings(options, network)?, listeners, certificate })
}

/// Checks the settings without opening anything.
pub(super) fn check(options: &Options, network: Network) -> Result<()> {
    listeners::plan(options, network)?;
    settings(options, network).map(drop)
}

/// Returns the settings of the server.
fn settings(options: &Options, network: Network) -> Result<Settings> {
    let hosts = listeners::hosts(options.public_host.as_deref().unwrap_or_default(), network);
    let discovery = options.peer.as_deref().map(|peers| listeners::discovery(peers, network)).transpose()?;
    let limits = options.limits.clone().unwrap_or_default().server();
    let pages = listeners::web_pages(options);
    let mut settings = Settings { hosts, discovery, limits, pages, ..Settings::default() };
    settings.tweak_dialect = match options.tweak_streams {
        None | Some(TweakStreams::Off) => TweakDialect::Off,
        Some(TweakStreams::V1) => TweakDialect::V1,
        Some(TweakStreams::V2) => TweakDialect::V2,
    };
    if options.prefetch_removed_blocks == Some(Switch::On) {
        settings.prefetch = Prefetch::On;
    }
    if settings.tweak_dialect != TweakDialect::Off {
        settings.server_version.push_str(TWEAKS_NAME);
    }
    if let Some(name) = &options.server_name {
        settings.server_version.clone_from(name);
    }
    if let Some(banner) = &options.banner {
        settings.banner.clone_from(banner);
    }
    if let Some(address) = &options.donation_address {
        settings.donation_address.clone_from(address);
    }
    Ok(settings)
}

impl Opened {
    /// Returns the bounds on connections, one for each listener.
    pub(super) fn connection_bounds(&mut self) -> impl Iterator<Item = &mut usize> {
        self.listeners.iter_mut().map(|plan| &mut plan.limits.connections)
    }

    pub(super) async fn bind(&self, setup: &Setup, shared: &Shared) -> Result<Electrum> {
        let (folder, names) = &self.certificate;
        let sockets = Sockets::open(ELECTRUM, &self.listeners, folder, names).await?;
        let (connections, reads) = (shared.connections.clone(), Some(Arc::clone(&shared.reads)));
        let settings = Settings { connections, reads, ..self.settings.clone() };
        let index = Arc::clone(&setup.index);
        Ok(Electrum {
            server: Server::new(Arc::clone(&index), setup.node_of_clients.clone(), settings),
            index,
            sockets,
        })
    }
}

impl Service for Electrum {
    fn name(&self) -> &'static str {
        "Electrum"
    }

    fn listeners(&self) -> &[BoundListener] {
        self.sockets.listeners()
    }

    fn serve(&self, mut stopped: Stopped) -> Serving {
        let (server, index, sockets) = (self.server.clone(), Arc::clone(&self.index), self.sockets.take());
        Box::pin(async move {
            // The sockets are bound already: clients that come meanwhile wait in their queues.
            tokio::select! {
                () = built_or_held(&index) => {}
                _ = &mut stopped => return,
            }
            server.serve(sockets, async { drop(stopped.await) }).await;
        })
    }

    fn on_panic(&self) -> OnPanic {
        OnPanic::EndsServer
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.server.connections()
    }

    fn disconnect(&self, id: u64) -> bool {
        self.server.disconnect(id)
    }

    fn overview(&self) -> Box<dyn Overview> {
        Box::new(State { overview: self.server.overview(), listeners: self.listeners().to_vec() })
    }
}

/// Waits until the index is built, or for [`BUILD_HOLD`].
async fn built_or_held(index: &Index) {
    let began = Instant::now();
    while !index.is_ready() && began.elapsed() < BUILD_HOLD {
        tokio::time::sleep(BUILD_POLL).await;
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
        requests(&self.overview, metrics)?;
        silent_payments(&self.overview, metrics)
    }

    fn show(&self, status: &mut Status, _rates: PerSecond) {
        let Some(bitcoin) = &mut status.bitcoin else { return };
        let birdhouse_electrum::Overview { connections, clients, subscriptions, .. } = &self.overview;
        bitcoin.connections = count_of(connections.iter().map(|(_, count)| count).sum());
        bitcoin.clients = count_of(*clients);
        bitcoin.subscriptions = count_of(*subscriptions);
    }
}

// === metrics ===

fn requests(overview: &birdhouse_electrum::Overview, metrics: &mut MetricsWriter<'_>) -> Written {
    let counted = &overview.counted;
    let requests = counted.requests.iter().filter(|(_, _, count)| *count > 0);
    metrics.labelled_counters(
        "electrum_requests",
        "Requests by kind and outcome: answered, rejected (invalid), refused (a limit) or failed.",
        requests.map(|(kind, outcome, count)| ([("kind", *kind), ("outcome", (*outcome).into())], *count)),
    )?;
    metrics.counter(
        "electrum_invalid_requests",
        "Messages, or items of batches, that are not a request.",
        counted.invalid_requests,
    )?;
    metrics.histograms(
        "electrum_request_duration_seconds",
        "Time from a message's arrival to its reply's departure, by source of the answer: memory, index or node.",
        "source",
        &counted.latencies,
    )?;
    metrics.counter("electrum_notifications", "Notifications sent.", counted.traffic.notifications)?;
    metrics.counter(
        "electrum_received_bytes",
        "Bytes of messages received from clients.",
        counted.traffic.received_bytes,
    )?;
    metrics.counter("electrum_sent_bytes", "Bytes of messages sent to clients.", counted.traffic.sent_bytes)?;
    metrics.connections("electrum", &overview.connections, overview.refused_connections)?;
    metrics.gauge(
        "electrum_clients",
        "Clients that are connected or whose use is remembered.",
        count_of(overview.clients),
    )?;
    metrics.gauge(
        "electrum_unsent_bytes",
        "Bytes of replies that wallets have not read.",
        count_of(overview.unsent_bytes),
    )?;
    metrics.gauge(
        "electrum_subscriptions",
        "Scripts and outpoints that connections subscribe to.",
        count_of(overview.subscriptions),
    )
}

fn silent_payments(overview: &birdhouse_electrum::Overview, metrics: &mut MetricsWriter<'_>) -> Written {
    let counted = &overview.counted;
    metrics.gauge(
        "electrum_silent_subscriptions",
        "Subscriptions to silent payments by scan key.",
        count_of(overview.silent_subscriptions),
    )?;
    metrics.gauge(
        "electrum_silent_scans",
        "Histories of silent payments that are scanned, or wait for their turn.",
        count_of(overview.silent_scans),
    )?;
    metrics.counter(
        "electrum_silent_scanned",
        "Transactions scanned for silent payments, once for each scan key.",
        counted.silent_scanned,
    )?;
    metrics.counter(
        "electrum_silent_found",
        "Transactions sent to subscriptions to silent payments.",
        counted.silent_found,
    )?;
    metrics.counter(
        "electrum_silent_histories",
        "Histories of silent payments sent to their end.",
        counted.silent_histories,
    )
}
