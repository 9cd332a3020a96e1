//! Opening and serving the Nostr relay. It shares no data with the index of the chain.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use birdhouse_events::{Events, EventsOptions, RelayUrl, SearchStorage};
use birdhouse_net::ConnectionIds;
use birdhouse_relay::{FreeDisk, Listener, Relay, RuleBook, Settings};
use birdhouse_store::{SegmentOptions, SegmentStore};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::{Options, Switch};
use crate::listeners::{self, Plan};
use crate::{private, relay_settings};

/// The relay keeps few rows in the store: the times at which events expire.
const CACHE_BYTES: u64 = 1 << 20;

/// Folder of the relay in the data folder.
pub(crate) const FOLDER: &str = "relay";

/// File of the operator's rules in the folder of the relay.
pub(crate) const RULES: &str = "rules";

/// A relay with open events, not served yet.
pub(crate) struct Opened {
    events: Arc<Events>,
    store: Arc<SegmentStore>,
    settings: Settings,
    rules: Arc<RuleBook>,
    listeners: Vec<Plan<()>>,
    /// Folder of the self-signed certificate, and the names in it.
    certificate: (PathBuf, Vec<String>),
}

/// The accept loop and connections of the relay.
pub(crate) struct Serving {
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// Opens the relay, if the settings enable it.
pub(crate) fn open(options: &Options) -> Result<Option<Opened>> {
    let listeners = listeners::plan_relay(options)?;
    if listeners.is_empty() {
        return Ok(None);
    }
    let store = store(options)?;
    let rules = Arc::new(RuleBook::open(folder(options)?.join(RULES))?);
    let events = Arc::new(events_of(options, &store)?);
    tracing::info!(events = events.live_events(), "opened the relay");
    if events.urls().is_empty() {
        tracing::warn!(
            "relay-url is not set: clients that know the relay by a name cannot authenticate or vanish; set relay-url"
        );
    }
    let hosts = events.urls().iter().map(|url| host(url.authority()).to_owned());
    let (certificate, on_disk) = ((options.data_dir()?, hosts.collect()), folder(options)?);
    let disk = FreeDisk::new(move || birdhouse_store::disk_free_bytes(&on_disk));
    let settings = Settings { disk, ..relay_settings::settings(options) };
    Ok(Some(Opened { events, store, settings, rules, listeners, certificate }))
}

/// Returns the host of an authority, without its port.
fn host(authority: &str) -> &str {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    host.trim_matches(['[', ']'])
}

/// Returns the folder of the relay.
pub(crate) fn folder(options: &Options) -> Result<PathBuf> {
    Ok(options.data_dir()?.join(FOLDER))
}

/// Opens the relay's events.
pub(crate) fn events(options: &Options) -> Result<Events> {
    events_of(options, &store(options)?)
}

fn store(options: &Options) -> Result<Arc<SegmentStore>> {
    let folder = folder(options)?;
    private::folder(&folder)?;
    let store_options = SegmentOptions { cache_bytes: CACHE_BYTES, ..SegmentOptions::default() };
    Ok(Arc::new(SegmentStore::open(&folder, birdhouse_events::TABLES, store_options)?))
}

fn events_of(options: &Options, store: &Arc<SegmentStore>) -> Result<Events> {
    let folder = folder(options)?;
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).context("failed to get random bytes from the system")?;
    let urls = options.relay_url.as_deref().unwrap_or_default();
    let urls = urls.iter().map(|url| {
        RelayUrl::parse(url)
            .with_context(|| format!("invalid --relay-url {url:?}; use a URL like wss://relay.example.org"))
    });
    let search = match options.relay_search {
        Some(Switch::Off) => SearchStorage::Off,
        Some(Switch::On) | None => SearchStorage::Folder(folder.join("search")),
    };
    let options = EventsOptions { urls: urls.collect::<Result<_>>()?, search, ..EventsOptions::default() };
    Events::open(Arc::clone(store) as _, secret, options)
        .with_context(|| format!("failed to open the relay in {}", folder.display()))
}

impl Opened {
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn store(&self) -> Arc<SegmentStore> {
        Arc::clone(&self.store)
    }

    /// The bound on connections.
    pub(crate) fn connections(&mut self) -> &mut usize {
        &mut self.settings.limits.connections
    }

    pub(crate) async fn listen(&self) -> Result<Vec<(TcpListener, Listener)>> {
        let (folder, names) = &self.certificate;
        let open = listeners::open(&self.listeners, folder, names).await?;
        for (socket, listener) in &open {
            let (addr, listener) = (socket.local_addr()?, &listener.name);
            tracing::info!(%addr, listener, "serving the relay");
        }
        Ok(open)
    }

    /// Starts the relay's background tasks in the current runtime.
    pub(crate) fn start(&self, connection_ids: ConnectionIds) -> Arc<Relay> {
        let settings = Settings { connection_ids, ..self.settings.clone() };
        Relay::with_rules(Arc::clone(&self.events), settings, Arc::clone(&self.rules))
    }
}

impl Serving {
    /// Closes every connection; returns when each has sent its close message, or its time is over.
    pub(crate) async fn end(self) {
        drop(self.stop);
        // One that panicked has said so itself.
        let _ = self.serving.await;
    }
}

/// Serves the relay until the returned value is ended; then connections have `grace` to take their close message.
pub(crate) fn serve(relay: &Arc<Relay>, listeners: Vec<(TcpListener, Listener)>, grace: Duration) -> Serving {
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = Arc::clone(relay).serve(listeners, grace, async move { drop(stopped.await) });
    Serving { stop, serving: tokio::spawn(serving) }
}
