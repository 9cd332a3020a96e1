//! Opening and serving the Nostr relay. It shares no data with the index of the chain. Its events lie in files, or in a
//! cluster that this process writes or reads.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use birdhouse_events::{Events, EventsOptions, RelayUrl, SearchStorage};
use birdhouse_mirror::{Cursors, StreamSettings, Streams, WallClock};
use birdhouse_net::ConnectionInfo;
use birdhouse_relay::{FreeDisk, Relay, RelayWriter, RuleBook, Settings};
use birdhouse_store::{SegmentOptions, SegmentStore};

use super::Shared;
use super::relay_overview::State;
use super::service::{Overview, Service, Serving, Stopped};
use super::streams;
use super::{relay_members, relay_settings};
use crate::cluster::{RemoteWriter, cql};
use crate::config::{Options, Switch};
use crate::process::{private, random};
use crate::sockets::protocols::RELAY;
use crate::sockets::{BoundListener, Plan, Sockets, listeners};
use crate::storage::EventStore;

/// The relay keeps few rows in the store: the times at which events expire.
const CACHE_BYTES: u64 = 1 << 20;

/// Pause between two looks at a cluster that has no events yet, and at the lease of one that this process writes.
const LOOK: Duration = Duration::from_secs(2);
const FENCE_LOOK: Duration = Duration::from_millis(500);

/// Folder of the relay in the data folder.
pub(crate) const FOLDER: &str = "relay";

/// A relay with open events, not served yet.
pub(crate) struct Opened {
    events: Arc<Events>,
    store: EventStore,
    /// The process that stores the events, if this one does not.
    writer: Option<Arc<dyn RelayWriter>>,
    settings: Settings,
    rules: Arc<RuleBook>,
    streams: Vec<StreamSettings>,
    /// File of the places of streams.
    places: PathBuf,
    listeners: Vec<Plan<()>>,
    /// Folder of the self-signed certificate, and the names in it.
    certificate: (PathBuf, Vec<String>),
    grace: Duration,
}

/// The relay with bound listeners.
pub(super) struct Nostr {
    pub(super) relay: Arc<Relay>,
    /// `None` where another process stores the events.
    streams: Option<Arc<Streams>>,
    sockets: Sockets<()>,
    /// Time in which clients take their close message when the server ends.
    grace: Duration,
}

/// Returns true if the settings enable the relay.
pub(super) fn is_on(options: &Options) -> Result<bool> {
    Ok(!listeners::plan_of(options, &RELAY)?.is_empty())
}

/// Opens the relay with the operator's rules, if the settings enable it.
pub(super) fn open(options: &Options, rules: Arc<RuleBook>) -> Result<Option<Opened>> {
    let listeners = listeners::plan_of(options, &RELAY)?;
    if listeners.is_empty() {
        return Ok(None);
    }
    let store = store(options)?;
    let writer: Option<Arc<dyn RelayWriter>> = match store {
        EventStore::Followed(_) => Some(Arc::new(RemoteWriter::new(options)?)),
        EventStore::Files(_) | EventStore::Written { .. } => None,
    };
    let streams = streams::plan(options)?;
    if writer.is_some() && !streams.is_empty() {
        bail!("streams run in the process that stores the events; remove [[stream]] from this one's settings");
    }
    let events = Arc::new(events_of(options, &store)?);
    tracing::info!(events = events.live_events(), "opened the relay");
    if events.urls().is_empty() {
        tracing::warn!(
            "relay-url is not set: clients that know the relay by a name cannot authenticate or vanish; set relay-url"
        );
    }
    let hosts = events.urls().iter().map(|url| host(url.authority()).to_owned());
    let (certificate, on_disk) = ((options.data_dir()?, hosts.collect()), folder(options)?);
    let places = on_disk.join(streams::FILE);
    let disk = FreeDisk::new(move || birdhouse_store::disk_free_bytes(&on_disk));
    let members = relay_members::members(options, &folder(options)?)?;
    let settings = Settings { disk, members, ..relay_settings::settings(options) };
    let grace = options.limits.clone().unwrap_or_default().server().shutdown_timeout;
    Ok(Some(Opened { events, store, writer, settings, rules, streams, places, listeners, certificate, grace }))
}

/// Checks the settings without opening anything.
pub(super) fn check(options: &Options) -> Result<()> {
    if listeners::plan_of(options, &RELAY)?.is_empty() {
        return Ok(());
    }
    urls(options)?;
    relay_members::alone(options)?;
    streams::plan(options).map(drop)
}

/// Returns the public URLs of the settings.
fn urls(options: &Options) -> Result<Vec<RelayUrl>> {
    let urls = options.relay_url.as_deref().unwrap_or_default();
    let parse = |url: &String| {
        RelayUrl::parse(url)
            .with_context(|| format!("invalid --relay-url {url:?}; use a URL like wss://relay.example.org"))
    };
    urls.iter().map(parse).collect()
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

/// Opens the relay's events, where there are some.
///
/// # Errors
/// The data folder has no relay.
pub(crate) fn existing_events(options: &Options) -> Result<Events> {
    let folder = folder(options)?;
    let is_in_files = options.store.is_none() || options.has_bitcoin();
    ensure!(
        !is_in_files || folder.join("VERSION").exists(),
        "found no relay in {}; set --data-dir to that of the server",
        folder.display()
    );
    events(options)
}

/// Opens the relay without listeners, for a command that exchanges events. Needs a runtime around the caller.
pub(crate) fn unserved(options: &Options, rules: RuleBook) -> Result<Arc<Relay>> {
    let events = Arc::new(events(options)?);
    let members = relay_members::members(options, &folder(options)?)?;
    let settings = Settings { members, ..relay_settings::settings(options) };
    Ok(Relay::with_rules(events, settings, Arc::new(rules)))
}

fn store(options: &Options) -> Result<EventStore> {
    let folder = folder(options)?;
    private::folder(&folder)?;
    if let Some(address) = &options.store
        && !options.has_bitcoin()
    {
        return cql::open_events(options, address, &folder);
    }
    let store_options = SegmentOptions { cache_bytes: CACHE_BYTES, ..SegmentOptions::default() };
    Ok(EventStore::Files(Arc::new(SegmentStore::open(&folder, birdhouse_events::TABLES, store_options)?)))
}

fn events_of(options: &Options, store: &EventStore) -> Result<Events> {
    let folder = folder(options)?;
    let secret = random::bytes()?;
    // The full-text index lies in files, and front ends have none.
    let search = match (store, options.relay_search) {
        (EventStore::Files(_), Some(Switch::On) | None) => SearchStorage::Folder(folder.join("search")),
        _ => SearchStorage::Off,
    };
    let events_options = EventsOptions { urls: urls(options)?, search, ..EventsOptions::default() };
    let failed = || match &options.store {
        Some(address) => format!("failed to open the relay in {address}"),
        None => format!("failed to open the relay in {}", folder.display()),
    };
    match store {
        EventStore::Files(store) => Events::open(Arc::clone(store) as _, secret, events_options).with_context(failed),
        EventStore::Written { store, .. } => {
            Events::open(Arc::clone(store), secret, events_options).with_context(failed)
        }
        EventStore::Followed(replica) => loop {
            if let Some(events) =
                Events::open_published(Arc::clone(replica), events_options.clone()).with_context(failed)?
            {
                return Ok(events);
            }
            tracing::info!("waiting for the process that writes the events");
            std::thread::sleep(LOOK);
        },
    }
}

impl Opened {
    #[cfg(feature = "demo")]
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Returns the store if it lies in files.
    pub(crate) fn files(&self) -> Option<&Arc<SegmentStore>> {
        match &self.store {
            EventStore::Files(store) => Some(store),
            EventStore::Written { .. } | EventStore::Followed(_) => None,
        }
    }

    /// Waits until another process has taken over the writing of the events.
    pub(crate) async fn fenced(&self) -> anyhow::Error {
        let EventStore::Written { is_fenced, .. } = &self.store else { return std::future::pending().await };
        while !is_fenced() {
            tokio::time::sleep(FENCE_LOOK).await;
        }
        anyhow::anyhow!("another process took over the writing of the events; start this one again to wait for it")
    }

    /// The bound on connections.
    pub(crate) fn connections(&mut self) -> &mut usize {
        &mut self.settings.limits.connections
    }

    /// Binds its listeners, and starts its background tasks in the current runtime.
    pub(super) async fn bind(&self, shared: &Shared) -> Result<Nostr> {
        let (folder, names) = &self.certificate;
        let sockets = Sockets::open(RELAY.serves, &self.listeners, folder, names).await?;
        let (connections, reads) = (shared.connections.clone(), Arc::clone(&shared.reads));
        let settings = Settings { connections, reads, ..self.settings.clone() };
        let (events, rules) = (Arc::clone(&self.events), Arc::clone(&self.rules));
        let relay = match &self.writer {
            None => Relay::with_rules(events, settings, rules),
            Some(writer) => Relay::front(events, settings, rules, Arc::clone(writer)),
        };
        let streams = if self.writer.is_none() { Some(self.start_streams(&relay, shared)?) } else { None };
        Ok(Nostr { relay, streams, sockets, grace: self.grace })
    }
}

impl Opened {
    fn start_streams(&self, relay: &Arc<Relay>, shared: &Shared) -> Result<Arc<Streams>> {
        let plain = |why: String| anyhow!(why);
        let places = Cursors::open(&self.places).map_err(plain)?;
        let streams = Streams::start(Arc::clone(relay), Arc::clone(&shared.dial), places, WallClock::system());
        streams.set(self.streams.clone()).map_err(plain)?;
        Ok(Arc::new(streams))
    }
}

impl Service for Nostr {
    fn name(&self) -> &'static str {
        "Nostr"
    }

    fn listeners(&self) -> &[BoundListener] {
        self.sockets.listeners()
    }

    fn serve(&self, stopped: Stopped) -> Serving {
        let (relay, sockets, streams) = (Arc::clone(&self.relay), self.sockets.take(), self.streams.clone());
        let stopped = async move {
            drop(stopped.await);
            if let Some(streams) = streams {
                streams.end().await;
            }
        };
        Box::pin(relay.serve(sockets, self.grace, stopped))
    }

    fn reload(&self, options: &Options) {
        self.relay.reload(relay_settings::settings(options));
        let Some(streams) = &self.streams else { return };
        let read = streams::plan(options).and_then(|plan| streams.set(plan).map_err(|why| anyhow!(why)));
        if let Err(error) = read {
            tracing::error!(error = format!("{error:#}"), "kept the streams");
        }
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.relay.connections()
    }

    fn disconnect(&self, id: u64) -> bool {
        self.relay.disconnect(id)
    }

    fn overview(&self) -> Box<dyn Overview> {
        let streams = self.streams.as_ref().map(|streams| streams.status()).unwrap_or_default();
        Box::new(State { overview: self.relay.overview(), health: self.relay.health(), streams })
    }
}
