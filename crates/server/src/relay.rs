//! Opening and serving the Nostr relay. It shares no data with the index of the chain.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use birdhouse_events::{Events, EventsOptions, RelayUrl, SearchStorage};
use birdhouse_relay::{Relay, Settings};
use birdhouse_store::{RocksOptions, RocksStore};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{Options, Switch};
use crate::{accept, relay_settings};

/// The relay keeps only its manifest in the store, and no rows, so it needs no cache.
const CACHE_BYTES: usize = 1 << 20;

/// A relay with open events, not served yet.
pub(crate) struct Opened {
    events: Arc<Events>,
    settings: Settings,
    addr: SocketAddr,
}

/// The accept loop and connections of the relay.
pub(crate) struct Serving {
    /// Watched by every connection.
    shutdown: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// Opens the relay, if the settings enable it.
pub(crate) fn open(options: &Options) -> Result<Option<Opened>> {
    let Some(addr) = options.relay_addr else { return Ok(None) };
    let events = Arc::new(events(options)?);
    tracing::info!(events = events.live_events(), "opened the relay");
    Ok(Some(Opened { events, settings: relay_settings::settings(options), addr }))
}

/// Returns the folder of the relay.
pub(crate) fn folder(options: &Options) -> Result<PathBuf> {
    Ok(options.data_dir()?.join("relay"))
}

/// Opens the relay's events.
pub(crate) fn events(options: &Options) -> Result<Events> {
    let folder = folder(options)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let store = RocksStore::open(&folder, &[], RocksOptions { cache_bytes: CACHE_BYTES, ..RocksOptions::default() })?;
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
    Events::open(Arc::new(store), secret, options)
        .with_context(|| format!("failed to open the relay in {}", folder.display()))
}

impl Opened {
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) async fn listen(&self) -> Result<TcpListener> {
        let addr = self.addr;
        let listener = TcpListener::bind(addr).await.with_context(|| format!("failed to bind --relay-addr {addr}"))?;
        tracing::info!(addr = %listener.local_addr()?, "serving the relay");
        Ok(listener)
    }

    /// Starts the relay's background tasks in the current runtime.
    pub(crate) fn start(&self) -> Arc<Relay> {
        Relay::new(Arc::clone(&self.events), self.settings.clone())
    }
}

impl Serving {
    /// Closes every connection; returns when each has sent its close message.
    pub(crate) async fn end(self) {
        self.accepting.abort();
        self.shutdown.send_replace(true);
        self.shutdown.closed().await;
    }
}

/// Serves the relay until the returned value is ended.
pub(crate) fn serve(relay: &Arc<Relay>, listener: TcpListener) -> Serving {
    let (shutdown, stopping) = watch::channel(false);
    let connections_max = relay.limits().connections;
    let relay = Arc::clone(relay);
    let converse = move |socket| Arc::clone(&relay).converse(socket, stopping.clone());
    let accepting = tokio::spawn(accept::each(listener, "relay", connections_max, converse));
    Serving { shutdown, accepting }
}
