//! The other half of the house: the Nostr relay, beside the index of the chain and without any part of it.

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
use crate::{accept, relay_options};

/// The store keeps no rows of the relay, only its mark: it needs no cache.
const CACHE_BYTES: usize = 1 << 20;

/// A relay whose events are open, and which is not yet served.
pub(crate) struct Opened {
    events: Arc<Events>,
    settings: Settings,
    addr: SocketAddr,
}

/// The relay's connections.
pub(crate) struct Serving {
    /// Each connection listens to it.
    shutdown: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// Opens the relay, if one is wanted.
pub(crate) fn open(options: &Options) -> Result<Option<Opened>> {
    let Some(addr) = options.relay_addr else { return Ok(None) };
    let events = Arc::new(events(options)?);
    tracing::info!(events = events.live_events(), "opened the relay");
    Ok(Some(Opened { events, settings: relay_options::settings(options), addr }))
}

/// Where the relay keeps what it has.
pub(crate) fn folder(options: &Options) -> Result<PathBuf> {
    Ok(options.data_dir()?.join("relay"))
}

/// Opens the relay's events.
pub(crate) fn events(options: &Options) -> Result<Events> {
    let folder = folder(options)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let store = RocksStore::open(&folder, &[], RocksOptions { cache_bytes: CACHE_BYTES, ..RocksOptions::default() })?;
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).context("the system has no random numbers")?;
    let urls = options.relay_url.as_deref().unwrap_or_default();
    let urls = urls.iter().map(|url| {
        RelayUrl::parse(url)
            .with_context(|| format!("--relay-url {url} is no URL of a relay, like wss://relay.example.org"))
    });
    let search = match options.relay_search {
        Some(Switch::Off) => SearchStorage::Off,
        Some(Switch::On) | None => SearchStorage::Folder(folder.join("search")),
    };
    let options = EventsOptions { urls: urls.collect::<Result<_>>()?, search, ..EventsOptions::default() };
    Events::open(Arc::new(store), secret, options).context("cannot open the events of the relay")
}

impl Opened {
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) async fn listen(&self) -> Result<TcpListener> {
        let addr = self.addr;
        let listener =
            TcpListener::bind(addr).await.with_context(|| format!("cannot listen on --relay-addr {addr}"))?;
        tracing::info!(addr = %listener.local_addr()?, "serving the relay");
        Ok(listener)
    }

    /// Starts what the relay does beside its connections, in the runtime around the caller.
    pub(crate) fn start(&self) -> Arc<Relay> {
        Relay::new(Arc::clone(&self.events), self.settings.clone())
    }
}

impl Serving {
    /// Ends every connection, and waits until all are told.
    pub(crate) async fn end(self) {
        self.accepting.abort();
        self.shutdown.send_replace(true);
        self.shutdown.closed().await;
    }
}

/// Serves until what is returned is ended.
pub(crate) fn serve(relay: &Arc<Relay>, listener: TcpListener) -> Serving {
    let (shutdown, told) = watch::channel(false);
    let connections_max = relay.limits().connections;
    let relay = Arc::clone(relay);
    let converse = move |socket| Arc::clone(&relay).converse(socket, told.clone());
    let accepting = tokio::spawn(accept::each(listener, "a connection for the relay", connections_max, converse));
    Serving { shutdown, accepting }
}
