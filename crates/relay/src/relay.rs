//! The relay as a whole: everything that its connections share.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use birdhouse_clients::{ClientKeying, DiskStall};
use birdhouse_events::{Events, Explanation, Filter, Query, UnknownKeys};
use birdhouse_net::{Compression, PartialMessages, Pool, Registry, Turns, WhenFull, accept};
use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{Instrument as _, debug, debug_span};

use crate::counters::{Counters, Overview};
use crate::hub::Hub;
use crate::info::Description;
use crate::ingest::Ingest;
use crate::limits::{HANDSHAKE_TIMEOUT, Limits, PAGE_ROWS, PrivateMessages};
use crate::plugin::{Plugin, PluginSettings};
use crate::policy::{Gate, Policy};
use crate::worker::Worker;
use crate::{connection, http, indexing, tidy};

/// Settings by the operator.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The relay's description of itself (NIP-11).
    pub description: Description,
    /// Bounds.
    pub limits: Limits,
    /// Readers of private messages.
    pub private_messages: PrivateMessages,
    /// Treatment of filters with unknown keys.
    pub unknown_keys: UnknownKeys,
    /// Reverse proxies whose `X-Forwarded-For` names the client.
    pub proxies: Vec<IpNet>,
    /// Compression of messages.
    pub compression: Compression,
    /// Allowed authors, kinds and addresses, and rates.
    pub policy: Policy,
    /// A program that judges events.
    pub plugin: Option<PluginSettings>,
}

/// A listener for Nostr clients: its transport is [`Ws`](birdhouse_net::Transport::Ws) or
/// [`Wss`](birdhouse_net::Transport::Wss).
pub type Listener = birdhouse_net::Listener<()>;

/// A relay and everything that its connections share.
pub struct Relay {
    pub(crate) events: Arc<Events>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) ingest: Ingest,
    _tidy: Worker,
    _indexing: Option<Worker>,
    pub(crate) plugin: Option<Plugin>,
    pub(crate) gate: Gate,
    pub(crate) registry: Arc<Registry>,
    pub(crate) counters: Counters,
    /// Turns to keep a processor busy.
    pub(crate) processors: Arc<Turns>,
    pub(crate) settings: Settings,
    pub(crate) partial: PartialMessages,
    /// Bytes that wait to be written to all clients.
    pub(crate) unsent: Pool,
    pub(crate) disk_stall: DiskStall,
    /// One permit for each id of negentropy sessions.
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
        let sync_room = Arc::new(Semaphore::new(settings.limits.sync_ids_all));
        let tidy = tidy::start(Arc::clone(&events));
        let indexing = indexing::start(Arc::clone(&events));
        Arc::new(Self {
            partial: PartialMessages::new(settings.limits.partial_message_bytes),
            unsent: Pool::new(settings.limits.unsent_bytes),
            disk_stall: DiskStall::new(Instant::now()),
            events,
            hub,
            ingest,
            plugin,
            gate,
            registry: Registry::new(ClientKeying::default()),
            counters: Counters::default(),
            processors,
            settings,
            sync_room,
            _tidy: tidy,
            _indexing: indexing,
        })
    }

    /// Its bounds.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Returns the plan for a filter, and the cost of its first page.
    ///
    /// # Errors
    /// The reason why it is no filter, or the store's failure.
    pub fn explain(&self, filter: &str) -> Result<Explanation, String> {
        let limits = self.settings.limits.filter(self.settings.unknown_keys);
        let filter = Filter::from_json(filter, &limits).map_err(|rejection| rejection.to_string())?;
        let query = Query { end: self.events.end(), now: now(), ..Query::of(&filter) };
        let rows = filter.limit.unwrap_or(usize::MAX).min(PAGE_ROWS);
        self.events.explain(query, rows).map_err(|error| error.to_string())
    }

    /// The relay at this moment.
    pub fn overview(&self) -> Overview {
        self.counters.overview(&self.registry, self.events.live_events(), self.processors.waiting())
    }

    /// Serves clients on every listener until `shutdown` completes. Then each connection is closed with a status, within
    /// `grace`.
    pub async fn serve(
        self: Arc<Self>,
        listeners: Vec<(TcpListener, Listener)>,
        grace: Duration,
        shutdown: impl Future<Output = ()>,
    ) {
        let places = Arc::new(Semaphore::new(self.settings.limits.connections.min(Semaphore::MAX_PERMITS)));
        let (stop, stopped) = watch::channel(());
        let mut running = JoinSet::new();
        for (socket, listener) in listeners {
            let (relay, room) = (Arc::clone(&self), (Arc::clone(&places), WhenFull::Wait));
            running.spawn(accept(
                socket,
                listener.into(),
                room,
                (stopped.clone(), grace),
                move |accepted, connections| {
                    let relay = Arc::clone(&relay);
                    let span = debug_span!("connection", listener = accepted.listener.name);
                    let converse = async move {
                        let handshake = accepted.handshake(HANDSHAKE_TIMEOUT);
                        if let Some(client) = handshake.finish(http::open(&relay, accepted)).await {
                            let ending = connection::run(&relay, client, random()).await;
                            debug!(?ending, "connection ends");
                        }
                    };
                    connections.spawn(converse.instrument(span));
                },
            ));
        }
        shutdown.await;
        drop(stop);
        while running.join_next().await.is_some() {}
    }
}

/// Returns a number that nobody can guess.
fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers: it gave some when the relay was opened");
    u128::from_be_bytes(bytes)
}

/// Returns the seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clock: the rest of the crate takes the time as an argument")]
pub(crate) fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
