//! The relay as a whole: what its connections share.

use std::sync::Arc;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use birdhouse_clients::{DiskStall, Turns};
use birdhouse_events::{Events, Explanation, Filter, Query, UnknownKeys};
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tracing::debug;

use crate::counters::Overview;
use crate::frames::Compression;
use crate::hub::Hub;
use crate::info::Description;
use crate::ingest::Ingest;
use crate::limits::{Limits, PAGE_ROWS, PrivateMessages};
use crate::plugin::{Plugin, PluginSettings};
use crate::policy::{Gate, Policy};
use crate::socket::Beginnings;
use crate::visitor::{Visitor, Visitors};
use crate::worker::Worker;
use crate::{connection, http, indexing, tidy};

/// What an operator decides.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// What the relay says of itself (NIP-11).
    pub description: Description,
    /// What clients may do.
    pub limits: Limits,
    /// Who may read private messages.
    pub private_messages: PrivateMessages,
    /// What becomes of filters that say more than is understood.
    pub unknown_keys: UnknownKeys,
    /// Reverse proxies whose `X-Forwarded-For` says who a client is.
    pub proxies: Vec<IpNet>,
    /// Whether messages are compressed for clients that can.
    pub compression: Compression,
    /// Whose events, and which, are wanted.
    pub policy: Policy,
    /// A program that judges events.
    pub plugin: Option<PluginSettings>,
}

/// See the module.
pub struct Relay {
    pub(crate) events: Arc<Events>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) ingest: Ingest,
    _tidy: Worker,
    _indexing: Option<Worker>,
    pub(crate) plugin: Option<Plugin>,
    pub(crate) gate: Gate,
    pub(crate) visitors: Visitors,
    /// Turns to keep a processor busy.
    pub(crate) processors: Arc<Turns<Visitor>>,
    pub(crate) settings: Settings,
    pub(crate) beginnings: Arc<Beginnings>,
    pub(crate) disk_stall: DiskStall,
    /// For the ids of negentropy sessions.
    pub(crate) sync_room: Arc<Semaphore>,
}

impl Relay {
    /// A relay of these events. A plugin needs a runtime around the caller, and ends with the relay.
    pub fn new(events: Arc<Events>, settings: Settings) -> Arc<Self> {
        let hub = Arc::<Hub>::default();
        let ingest = Ingest::start(Arc::clone(&events), Arc::clone(&hub));
        let patience = settings.limits.plugin_timeout;
        let plugin = settings.plugin.clone().map(|plugin| Plugin::start(plugin, patience, ingest.way()));
        let gate = Gate::new(settings.policy.clone(), &settings.limits);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // One client may use every processor, and leaves as many turns to others as it holds.
        let processors = Turns::new(processors * 2, processors);
        let visitors = Visitors::default();
        let sync_room = Arc::new(Semaphore::new(settings.limits.sync_ids_all));
        let tidy = tidy::start(Arc::clone(&events));
        let indexing = indexing::start(Arc::clone(&events));
        let beginnings = Arc::new(Beginnings::new(settings.limits.partial_message_bytes));
        Arc::new(Self {
            beginnings,
            disk_stall: DiskStall::new(Instant::now()),
            events,
            hub,
            ingest,
            plugin,
            gate,
            visitors,
            processors,
            settings,
            sync_room,
            _tidy: tidy,
            _indexing: indexing,
        })
    }

    /// What clients may do.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// How a filter would be answered, and what its first page would cost.
    ///
    /// # Errors
    /// Why it is no filter, or the store's failure.
    pub fn explain(&self, filter: &str) -> Result<Explanation, String> {
        let limits = self.settings.limits.filter(self.settings.unknown_keys);
        let filter = Filter::from_json(filter, &limits).map_err(|rejection| rejection.to_string())?;
        let query = Query { end: self.events.end(), now: now(), ..Query::of(&filter) };
        let rows = filter.limit.unwrap_or(usize::MAX).min(PAGE_ROWS);
        self.events.explain(query, rows).map_err(|error| error.to_string())
    }

    /// How the relay is.
    pub fn overview(&self) -> Overview {
        self.visitors.overview(self.events.live_events(), self.processors.waiting())
    }

    /// Serves one client until it goes, is sent away, or `shutdown` changes.
    pub async fn converse(self: Arc<Self>, socket: TcpStream, mut shutdown: watch::Receiver<bool>) {
        let opened = tokio::select! {
            _ = shutdown.changed() => None,
            opened = http::open(&self, socket) => opened,
        };
        if let Some(client) = opened {
            let ending = connection::run(&self, client, random(), shutdown).await;
            debug!(?ending, "connection ends");
        }
    }
}

/// A number that nobody can guess.
fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers: it gave some when the relay was opened");
    u128::from_be_bytes(bytes)
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clock: the rest of the crate takes the time as an argument")]
pub(crate) fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
