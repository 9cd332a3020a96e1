//! The relay as a whole: everything that its connections share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use birdhouse_clients::{ClientKeying, Quota};
use birdhouse_events::{EventId, Events, Explanation, Filter, Judged, Kind, Pubkey, Query, Retention, Sweep};
use birdhouse_net::{ConnectionInfo, PartialMessages, Pool, Registry, Seats, offload};
use parking_lot::RwLock;

use crate::clock::now;
use crate::counters::{Counters, Overview};
use crate::free_disk::DiskFloor;
use crate::fronts::{Feed, FeedOffset, Link, RelayWriter, forwarding, front};
use crate::limits::{BATCH_EVENTS, Limits, PAGE_ROWS};
use crate::live::Hub;
use crate::members;
use crate::plugin::Plugin;
use crate::policy::{Gate, UsedEvents};
use crate::rules::{Ending, RuleBook, Rules};
use crate::settings::Settings;
use crate::worker::{Heartbeat, Worker};
use crate::writing::{
    CurrentRules, Depot, Destination, Gathering, Health, Ingest, Retaining, Threads, compaction, indexing, recovery,
};

/// Numbers of what the relay holds for a client ([`Meter::held`](birdhouse_net::Meter::held)): values of the filters
/// that it has asked for, and ids of its negentropy sessions.
pub(crate) const FILTER_VALUES: usize = 0;
pub(crate) const SYNC_IDS: usize = 1;

/// A relay and everything that its connections share.
pub struct Relay {
    pub(crate) events: Arc<Events>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) ingest: Ingest,
    floor: Arc<DiskFloor>,
    pub(crate) destination: Destination,
    /// Events that front ends pass on, those of the server itself, and those about members.
    pub(crate) gathering: Arc<Gathering>,
    /// State of the thread that stores events.
    writer: Heartbeat,
    /// States of the threads without which the relay serves, by name.
    others: [(&'static str, Heartbeat); 3],
    _workers: Vec<Worker>,
    _ending: Ending,
    pub(crate) plugin: Option<Plugin>,
    /// Replaced as a whole by [`Self::reload`].
    gate: RwLock<Arc<Gate>>,
    /// Rules of how long events are kept.
    pub(crate) retention: Arc<CurrentRules>,
    pub(crate) rules: Arc<RuleBook>,
    pub(crate) used_authorizations: UsedEvents,
    pub(crate) registry: Arc<Registry>,
    pub(crate) seats: Arc<Seats>,
    pub(crate) counters: Counters,
    pub(crate) settings: Settings,
    /// Set by the first request of a reverse proxy that is not trusted.
    pub(crate) has_warned_of_proxy: AtomicBool,
    pub(crate) partial: PartialMessages,
    /// Bytes that wait to be written to all clients.
    pub(crate) unsent: Pool,
    /// Values of the filters that all clients have asked for.
    pub(crate) filter_values: Quota,
    /// Ids of the negentropy sessions of all clients.
    pub(crate) sync_ids: Quota,
}

impl Relay {
    /// A relay of these events, without rules. A plugin needs a runtime around the caller, and ends with the relay.
    pub fn new(events: Arc<Events>, settings: Settings) -> Arc<Self> {
        Self::with_rules(events, settings, Arc::new(RuleBook::in_memory()))
    }

    /// A relay of these events and rules. A plugin needs a runtime around the caller, and ends with the relay.
    pub fn with_rules(events: Arc<Events>, settings: Settings, rules: Arc<RuleBook>) -> Arc<Self> {
        Self::start(events, settings, rules, None)
    }

    /// A relay of events that another process writes ([`Events::open_published`]), and these rules. A plugin needs a
    /// runtime around the caller, and ends with the relay.
    pub fn front(
        events: Arc<Events>,
        settings: Settings,
        rules: Arc<RuleBook>,
        writer: Arc<dyn RelayWriter>,
    ) -> Arc<Self> {
        Self::start(events, settings, rules, Some(writer))
    }

    fn start(
        events: Arc<Events>,
        settings: Settings,
        rules: Arc<RuleBook>,
        other: Option<Arc<dyn RelayWriter>>,
    ) -> Arc<Self> {
        // One event has room in any case.
        let hub = Hub::new(settings.limits.live_queue_bytes_all.max(settings.limits.message_bytes));
        let now = Instant::now();
        let [writer, merging, words, bans] = [(); 4].map(|()| Heartbeat::new(now));
        let floor = Arc::new(DiskFloor::new(settings.disk.clone(), settings.limits.disk_free_bytes));
        let destination = match other {
            None => Destination::Local(depot(&events, &hub, &floor)),
            Some(other) => Destination::Remote(Arc::new(Link::new(other))),
        };
        let ingest = Ingest::start(destination.clone(), writer.clone(), &settings.limits);
        let patience = settings.limits.plugin_timeout;
        let plugin = settings.plugin.clone().map(|plugin| Plugin::start(plugin, patience, ingest.weak()));
        let alone = settings.members.as_ref().map(|members| members.alone);
        let gate = Gate::new(settings.policy.clone(), alone, &settings.limits);
        let retention = Arc::new(CurrentRules::new(settings.retention.clone()));
        let gathering = Arc::<Gathering>::default();
        let workers = match &destination {
            Destination::Remote(link) => vec![front::start(Arc::clone(&events), Arc::clone(&hub), Arc::clone(link))],
            Destination::Local(depot) => {
                let retaining = Retaining::new(Arc::clone(&retention), Arc::clone(&rules), now);
                let compaction = compaction::start(Arc::clone(&events), retaining, merging.clone());
                let indexing = indexing::start(Arc::clone(&events), words.clone());
                let recovery = recovery::start(Arc::clone(depot));
                let publisher = settings.members.as_ref();
                let publisher = publisher.map(|members| members::start(&members.keys, depot, &gathering, &rules));
                [compaction, recovery].into_iter().chain(indexing).chain(publisher).collect()
            }
        };
        let ending = Ending::reporting(&rules, bans.clone());
        rules.govern(&settings.connections);
        let counters = Counters::default();
        let (places, proxies) = (settings.limits.places(), settings.proxies.clone());
        Arc::new(Self {
            partial: PartialMessages::new(settings.limits.partial_message_bytes),
            unsent: Pool::new(settings.limits.unsent_bytes),
            filter_values: Quota::new(settings.limits.subscription_values),
            sync_ids: Quota::new(settings.limits.sync_ids_all),
            events,
            hub,
            ingest,
            floor,
            destination,
            gathering,
            plugin,
            gate: RwLock::new(Arc::new(gate)),
            retention,
            rules,
            used_authorizations: UsedEvents::default(),
            registry: Registry::new(ClientKeying::default(), settings.connections.clone()),
            seats: Seats::new(places, proxies, Arc::clone(&counters.seats), now),
            counters,
            settings,
            has_warned_of_proxy: AtomicBool::new(false),
            writer,
            others: [("compaction", merging), ("search", words), ("rules", bans)],
            _workers: workers,
            _ending: ending,
        })
    }

    /// The policy and its rates, as they are now.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(&self.gate.read())
    }

    /// Replaces admins, the lists of authors, kinds and addresses, the rates of events, the rules of retention and the
    /// floor of free disk. What was used of the old rates is forgotten. Other settings stay as they are.
    pub fn reload(&self, settings: Settings) {
        self.floor.set(settings.limits.disk_free_bytes);
        let alone = self.settings.members.as_ref().map(|members| members.alone);
        let gate = Arc::new(Gate::new(settings.policy, alone, &settings.limits));
        *self.gate.write() = Arc::clone(&gate);
        self.retention.set(settings.retention);
        let rules = self.rules();
        self.rules.end_connections_unless(&|author| gate.has_access(author, &rules));
    }

    /// Returns the rules as they are now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.current()
    }

    /// Returns true for members, and for the admins and authors that the settings allow.
    pub fn has_access(&self, author: &Pubkey) -> bool {
        self.gate().has_access(author, &self.rules())
    }

    /// Returns true for authors that a rule or the settings ban.
    pub fn is_banned(&self, author: &Pubkey) -> bool {
        self.gate().is_banned(author, &self.rules())
    }

    /// Returns the operator's rules, to change them.
    pub fn rule_book(&self) -> &RuleBook {
        &self.rules
    }

    /// True for the one path of the relay (NIP-01), or one that `relay-url` names: a reverse proxy may pass it on.
    pub(crate) fn is_endpoint(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.events.urls().iter().any(|url| url.path() == path)
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
        let limits = self.filter_limits();
        let filter = Filter::from_json(filter, &limits).map_err(|rejection| rejection.to_string())?;
        let query = Query { end: self.events.end(), now: now(), ..Query::of(&filter) };
        let rows = filter.limit.unwrap_or(usize::MAX).min(PAGE_ROWS);
        self.events.explain(query, rows).map_err(|error| error.to_string())
    }

    /// Judges all events by rules of retention, and deletes none. Returns what each rule keeps and what it does not.
    /// Reads every event's head, so this takes seconds with millions of events.
    ///
    /// # Errors
    /// Failures of the store.
    pub fn weigh(&self, retention: &Retention) -> Result<Vec<Judged>, birdhouse_events::Error> {
        let (mut sweep, now) = (Sweep::new(retention), now());
        while self.events.weigh(retention, &mut sweep, now)? {}
        Ok(sweep.judged().to_vec())
    }

    /// Stores events of a front end, which has checked them for its clients, one a line as JSON. Returns the outcomes,
    /// one a line. Waits for the store.
    ///
    /// # Errors
    /// The reason why nothing is stored: a line is no event, there are too many, or this process stores none.
    pub fn store_forwarded(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let depot = self.depot()?;
        let events = forwarding::events(message)?;
        if events.len() > BATCH_EVENTS {
            return Err(format!("{} events are too many: {BATCH_EVENTS} are taken at once", events.len()));
        }
        let has_vanished = events.iter().any(|event| event.kind == Kind::VANISH);
        let outcomes = self.gathering.store(depot, events).ok_or("storing events failed")?;
        while has_vanished && depot.go_on_vanishing() {}
        Ok(forwarding::encode(self.events.end().0, &outcomes))
    }

    /// Returns what front ends must learn after an offset; waits until there is something. The answer is for
    /// [`RelayWriter::feed`].
    ///
    /// # Errors
    /// This process stores no events.
    pub async fn feed(&self, after: FeedOffset) -> Result<Vec<u8>, String> {
        Ok(self.depot()?.feed.after(after).await)
    }

    pub(crate) fn depot(&self) -> Result<&Depot, String> {
        match &self.destination {
            Destination::Local(depot) => Ok(depot),
            Destination::Remote(_) => {
                Err("this process stores no events; set relay-writer to the one that does".into())
            }
        }
    }

    /// Returns true if an event of this id is stored and the relay can tell. The caller holds a turn.
    pub(crate) fn has(&self, id: &EventId) -> bool {
        let read = || self.events.has(id);
        let has = if self.events.is_remote() { offload(read) } else { self.settings.reads.in_turn(read) };
        has.unwrap_or(false)
    }

    /// Returns the health of the relay.
    pub fn health(&self) -> Health {
        let failure = match &self.destination {
            Destination::Local(_) => self.events.failure(),
            Destination::Remote(link) => link.failure(Instant::now()),
        };
        let has_ended = self.ingest.has_ended();
        let (short, writer, others) = (self.floor.short(), &self.writer, &self.others[..]);
        Health::assess(Threads { has_ended, failure, short, writer, others }, Instant::now())
    }

    /// Returns every connection, the oldest first.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.registry.list(Instant::now())
    }

    /// Ends a connection. Returns false if there is none of this number.
    pub fn disconnect(&self, id: u64) -> bool {
        self.registry.disconnect(id)
    }

    /// The relay at this moment.
    pub fn overview(&self) -> Overview {
        self.counters.overview(&self.registry, &self.seats, &self.events, self.ingest.waiting_bytes())
    }
}

/// Returns everything that storing events in this process needs.
fn depot(events: &Arc<Events>, hub: &Arc<Hub>, floor: &Arc<DiskFloor>) -> Arc<Depot> {
    let run = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    let feed = Arc::new(Feed::new(run, events.end()));
    Arc::new(Depot { events: Arc::clone(events), hub: Arc::clone(hub), floor: Arc::clone(floor), feed })
}
