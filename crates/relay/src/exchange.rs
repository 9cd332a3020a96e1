//! Events that the operator exchanges with other relays, or reads and writes as files, while the relay runs.
//!
//! Whoever exchanges is a client like others: it is in the list of connections, waits for its turns, and the plugin is
//! asked about its events. What the operator wants is not rated, though, and private messages are not withheld from
//! the operator. Events that the operator has banned are in no answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use birdhouse_clients::Origin;
use birdhouse_events::{
    Event, EventId, Filter, FilterLimits, KindClass, Malformed, Packed, Position, Query, Rejection, Seq, Timestamp,
    VerifiedEvent,
};
use birdhouse_net::{ClientBounds, ConnectionGuard, ReadTurns};
use tokio::sync::mpsc;

use crate::clock::now;
use crate::connection::TurnPace;
use crate::limits::{COUNT_ROWS, PAGE_BYTES};
use crate::members;
use crate::message::{Answer, Outcome};
use crate::plugin::{Plugin, Question, Source};
use crate::policy::Identity;
use crate::relay::Relay;
use crate::writing::Submission;

/// Events that are checked in one turn: some milliseconds.
const CHECKED_TOGETHER: usize = 64;

/// A participant in an exchange, from its beginning to its end.
pub struct Exchange {
    pub(crate) relay: Arc<Relay>,
    pub(crate) guard: ConnectionGuard,
    /// The origin of its events, for the plugin.
    source: Source,
    /// A plugin for its events instead of the relay's.
    plugin: Option<Arc<Plugin>>,
}

/// An id and the time of its event, seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatedId {
    /// Time of creation.
    pub created_at: u64,
    /// The id.
    pub id: EventId,
}

/// The outcome of an event that was offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is stored, or was sent to a subscription.
    Stored,
    /// It was here.
    Duplicate,
    /// It is refused, with the reason.
    Refused(Rejection),
}

/// An event that was offered and checked.
enum Checked {
    New(VerifiedEvent),
    /// An event of its id is stored.
    Known,
    Refused(Rejection),
}

impl Relay {
    /// Returns the bounds of filters.
    pub fn filter_limits(&self) -> FilterLimits {
        self.settings.filter_limits()
    }
}

impl Exchange {
    /// Lets a participant in, by a name for the list of connections and the address of the other side.
    ///
    /// # Errors
    /// The operator has banned the address.
    pub fn enter(relay: &Arc<Relay>, name: &str, address: IpAddr) -> Result<Self, String> {
        let unbounded = ClientBounds { connections: None, work: None, work_percent: 100, unsent_bytes: None };
        let (registry, origin) = (&relay.registry, Origin::of(address));
        let guard = registry.enter(registry.next_id(), name, origin, &unbounded, Instant::now());
        let guard = guard.map_err(|_| format!("the operator has banned {address}"))?;
        Ok(Self { relay: Arc::clone(relay), guard, source: Source::Address(address), plugin: None })
    }

    /// The same participant, whose events come from the relay of a URL. With a `plugin`, that one is asked
    /// about them instead of the relay's.
    #[must_use]
    pub fn streaming(self, url: &str, plugin: Option<Arc<Plugin>>) -> Self {
        Self { source: Source::Stream(url.into()), plugin, ..self }
    }

    /// Waits until the operator ends this connection.
    pub async fn disconnected(&self) {
        self.guard.meter.disconnected().await;
    }

    /// Counts bytes that came from the other side.
    pub fn received(&self, bytes: usize) {
        self.guard.meter.received(bytes, 1);
    }

    /// Counts bytes that went to the other side.
    pub fn sent(&self, bytes: usize) {
        self.guard.meter.sent(bytes);
    }

    /// Returns the ids of a filter's events, newest first; `most` at most, and one more if there are more.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn ids(&self, filter: &Filter, most: usize) -> Result<Vec<DatedId>, String> {
        let (mut ids, mut from) = (Vec::new(), None);
        let end = self.relay.events.end();
        loop {
            let rows = COUNT_ROWS.min(most + 1 - ids.len());
            from = self
                .page(filter, end, from, rows, &mut |packed| {
                    ids.push(DatedId { created_at: packed.created_at().into(), id: packed.id() });
                    ControlFlow::Continue(())
                })
                .await?;
            if from.is_none() || ids.len() > most {
                return Ok(ids);
            }
        }
    }

    /// Returns the events of a filter that are there, newest first.
    ///
    /// # Errors
    /// The store's failure.
    pub async fn events(&self, filter: &Filter) -> Result<Vec<Event>, String> {
        let (mut events, mut from) = (Vec::new(), None);
        let end = self.relay.events.end();
        loop {
            from = self
                .page(filter, end, from, COUNT_ROWS, &mut |packed| {
                    events.extend(packed.to_event());
                    ControlFlow::Continue(())
                })
                .await?;
            if from.is_none() {
                return Ok(events);
            }
        }
    }

    /// Writes a page of all events as lines of JSON, newest first, with those that have expired and are not deleted
    /// yet. Returns the position of the next page.
    ///
    /// # Errors
    /// The store's failure, or an event is damaged on disk.
    pub async fn lines(&self, from: Option<Position>, out: &mut Vec<u8>) -> Result<Option<Position>, String> {
        let (mut is_whole, filter, events) = (true, Filter::default(), &self.relay.events);
        let query = Query { end: events.end(), ..Query::of(&filter) };
        let page = |_: &ReadTurns| {
            events.page(query, from, COUNT_ROWS, &mut |_, packed| {
                is_whole &= packed.write_json(out).is_some();
                out.push(b'\n');
                if out.len() < PAGE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        };
        let next = self.relay.settings.reads.offloaded(&self.guard.meter, page).await;
        let next = next.map_err(|error| error.to_string())?;
        if is_whole { Ok(next) } else { Err("failed to read an event: it is damaged on disk".into()) }
    }

    async fn page(
        &self,
        filter: &Filter,
        end: Seq,
        from: Option<Position>,
        rows: usize,
        visit: &mut (dyn FnMut(Packed<'_>) -> ControlFlow<()> + Send),
    ) -> Result<Option<Position>, String> {
        let rules = self.relay.rules();
        let page = |turns: &ReadTurns| {
            let pace = TurnPace(turns);
            let query = Query { end, now: now(), hidden: rules.hiding(), pace: Some(&pace), ..Query::of(filter) };
            self.relay.events.page(query, from, rows, &mut |_, packed| visit(packed))
        };
        let next = self.relay.settings.reads.offloaded(&self.guard.meter, page).await;
        next.map_err(|error| error.to_string())
    }

    /// Offers events, each as its JSON: checks them as those of clients, and that they are `wanted`, and stores them.
    /// Returns the outcomes, in any order, once they are durable.
    pub async fn take(&self, texts: &[String], wanted: &Filter) -> Vec<Taken> {
        let (answers, mut answered) = mpsc::channel(texts.len().max(1));
        let (mut outcomes, mut in_flight) = (Vec::with_capacity(texts.len()), 0);
        for some in texts.chunks(CHECKED_TOGETHER) {
            let check = |_: &ReadTurns| some.iter().map(|text| self.check(text, wanted)).collect::<Vec<_>>();
            let checked = self.relay.settings.reads.offloaded(&self.guard.meter, check).await;
            for (checked, text) in checked.into_iter().zip(some) {
                match checked {
                    Checked::New(event) => {
                        if self.submit(event, text.len(), answers.clone()).await {
                            in_flight += 1;
                        } else {
                            outcomes.push(cannot_keep());
                        }
                    }
                    Checked::Known => {
                        self.relay.counters.event(Outcome::Duplicate.name());
                        outcomes.push(Taken::Duplicate);
                    }
                    Checked::Refused(rejection) => outcomes.push(Taken::Refused(rejection)),
                }
            }
        }
        drop(answers);
        while in_flight > 0 {
            in_flight -= 1;
            outcomes.push(match answered.recv().await {
                Some(Answer { outcome, .. }) => {
                    self.relay.counters.event(outcome.name());
                    Taken::of(outcome)
                }
                None => cannot_keep(),
            });
        }
        outcomes
    }

    async fn submit(&self, event: VerifiedEvent, bytes: usize, answer: mpsc::Sender<Answer>) -> bool {
        let meter = Arc::clone(&self.guard.meter);
        let room = self.relay.ingest.reserve(&meter, bytes).await;
        let (submission, source) = (Submission { event, room, meter, answer }, self.source.clone());
        match self.plugin.as_deref().or(self.relay.plugin.as_ref()) {
            Some(plugin) => plugin.ask(Question { submission, source, authenticated: None, received_at: now() }).await,
            None => self.relay.ingest.submit(submission),
        }
    }

    /// Checks an event as one that a client publishes, but for rates. One that is here is not verified: several relays
    /// send the same events.
    fn check(&self, text: &str, wanted: &Filter) -> Checked {
        let verified = match self.admit(text, wanted) {
            Ok(event) if self.relay.has(&event.id) => return Checked::Known,
            // No store remembers it: between two relays that exchange, it would go round for ever.
            Ok(event) if event.kind.class() == KindClass::Ephemeral => {
                return Checked::Refused(Rejection::Mute("ephemeral events stay at the relay of their client".into()));
            }
            Ok(event) => event.verify(),
            Err(rejection) => Err(rejection),
        };
        verified.map_or_else(Checked::Refused, Checked::New)
    }

    fn admit(&self, text: &str, wanted: &Filter) -> Result<Event, Rejection> {
        if text.len() > self.relay.settings.limits.message_bytes {
            return Err(Rejection::Invalid("it is longer than message-bytes".into()));
        }
        let event = Event::from_json(text).map_err(|Malformed { rejection, .. }| rejection)?;
        if !wanted.matches(&event) {
            return Err(Rejection::Invalid("it does not match the filter".into()));
        }
        let (relay, seconds) = (&self.relay, now());
        let nobody = Identity::new(0, relay.events.urls(), SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let limits = relay.settings.limits.event_limits();
        let wanted = limits.check(&event, Timestamp(seconds.into()), nobody.pubkeys());
        let wanted = wanted.and_then(|()| relay.retention.get().check(&event, seconds));
        let wanted = wanted.and_then(|()| nobody.check_vanish(&event));
        let (gate, rules) = (relay.gate(), relay.rules());
        let members = relay.settings.members.as_ref();
        let wanted = wanted.and_then(|()| members::check(members, &event, &gate, &rules, nobody.pubkeys()));
        wanted.map(|()| event)
    }
}

/// The outcome of an event while the writer is gone, by a defect.
fn cannot_keep() -> Taken {
    Taken::Refused(Rejection::Error("the relay cannot keep events now".into()))
}

impl Taken {
    /// True if the relay could not keep the event, for a reason that passes.
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Refused(Rejection::Error(_)))
    }

    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted | Outcome::Shadowed => Self::Stored,
            Outcome::Duplicate => Self::Duplicate,
            Outcome::Refused(rejection) => Self::Refused(rejection),
        }
    }
}
