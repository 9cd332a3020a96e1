//! A front end: a relay whose events another process stores. It reads the published states of their store, passes new
//! events on to that process, and tells its own subscriptions of all events as they are published.
//!
//! Invariants: an event is answered `OK true` only after the other process has answered so. A subscription gets the
//! events of a state after queries can find them, in the order in which they were stored, and each once.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::{Event, Events, Rejection, Seq, VerifiedEvent};
use parking_lot::{Condvar, Mutex};
use tracing::{info, warn};

use crate::fronts::feed::FeedOffset;
use crate::fronts::{feed, forwarding};
use crate::live::Hub;
use crate::message::Outcome;
use crate::worker::Worker;

/// Pause between two looks at the published state while the other process does not say when it changes.
const LOOK: Duration = Duration::from_millis(100);
/// Longest time for which an `OK` waits until the front end itself has the event.
const ADOPTED_WAIT: Duration = Duration::from_secs(1);
/// Name of what the other process is needed for, in messages.
const PASS_ON: &str = "reach the process that stores the events";
/// Time without an answer of the other process after which this one is not well. A process that takes over from it
/// needs some twelve seconds.
const FAILED_AFTER: Duration = Duration::from_secs(20);

/// The process that stores the events. Each call waits for it, some seconds at most.
pub trait RelayWriter: Send + Sync + 'static {
    /// Passes on events that were checked, one a line as JSON, for [`Relay::store_forwarded`](crate::Relay). Returns
    /// its answer.
    ///
    /// # Errors
    /// The reason, for people. Whether the events are stored is not known then.
    fn store(&self, events: &[u8]) -> Result<Vec<u8>, String>;

    /// Returns what comes after an offset, as [`Relay::feed`](crate::Relay) gives it; `None` if that is nothing so far.
    ///
    /// # Errors
    /// The reason, for people.
    fn feed(&self, after: FeedOffset) -> Result<Option<Vec<u8>>, String>;
}

/// The connection to the process that stores the events.
pub(crate) struct Link {
    writer: Arc<dyn RelayWriter>,
    /// Of passing events on.
    outage: Outage,
    /// Of reading the newest events.
    reading: Outage,
    /// Number of the next event that queries do not find yet.
    end: Mutex<u64>,
    moved: Condvar,
}

/// Failures without a success between them: the time of the first, and the reason of the last.
#[derive(Debug, Default)]
struct Outage(Mutex<Option<(Instant, String)>>);

// === impl Outage ===

impl Outage {
    /// Returns the reason, if it has lasted for a while.
    fn reason(&self, now: Instant) -> Option<String> {
        let failure = self.0.lock();
        let (_, reason) = failure.as_ref().filter(|(since, _)| now.duration_since(*since) >= FAILED_AFTER)?;
        Some(reason.clone())
    }

    /// Notes an outcome, and passes it on. Logs the first failure, and the end of failures.
    fn record<T, E: fmt::Display>(&self, action: &'static str, outcome: Result<T, E>) -> Result<T, E> {
        let mut failure = self.0.lock();
        match &outcome {
            Ok(_) => {
                if failure.take().is_some() {
                    info!(action, "works again");
                }
            }
            Err(error) => {
                let since = failure.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                let reason = format!("failed to {action}: {error}");
                if failure.is_none() {
                    warn!("{reason}; trying again");
                }
                *failure = Some((since, reason));
            }
        }
        outcome
    }
}

// === impl Link ===

impl Link {
    pub(crate) fn new(writer: Arc<dyn RelayWriter>) -> Self {
        let (outage, reading) = (Outage::default(), Outage::default());
        Self { writer, outage, reading, end: Mutex::new(0), moved: Condvar::new() }
    }

    /// Returns the reason why events are not stored, or the newest are not found, if that has been so for a while.
    pub(crate) fn failure(&self, now: Instant) -> Option<String> {
        self.outage.reason(now).or_else(|| self.reading.reason(now))
    }

    /// Reports that queries find the events below `end`.
    fn has_adopted(&self, end: Seq) {
        *self.end.lock() = end.0;
        self.moved.notify_all();
    }

    /// Waits until queries find the events below `end`, so that an author finds its events after their `OK`.
    fn wait_for(&self, end: u64) {
        let mut adopted = self.end.lock();
        self.moved.wait_while_for(&mut adopted, |adopted| *adopted < end, ADOPTED_WAIT);
    }

    /// Passes events on, and returns the outcomes. Sets the time that each event took the writer.
    pub(crate) fn pass_on(&self, events: &[&VerifiedEvent], spent: &mut [Duration]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(events.len());
        while outcomes.len() < events.len() {
            let (message, count) = forwarding::message(&events[outcomes.len()..]);
            let answer = self.writer.store(&message).and_then(|answer| {
                forwarding::decode(&answer, count).ok_or_else(|| "the answer is of another version".to_owned())
            });
            match self.outage.record(PASS_ON, answer) {
                Ok((end, answers)) => {
                    self.wait_for(end);
                    for (outcome, took) in answers {
                        spent[outcomes.len()] = took;
                        outcomes.push(outcome);
                    }
                }
                Err(_) => outcomes.extend((0..count).map(|_| unknown())),
            }
        }
        outcomes
    }
}

/// The outcome of an event whose answer did not come: it may be stored or not.
fn unknown() -> Outcome {
    Outcome::Refused(Rejection::Error("the relay cannot keep events now; send it again".into()))
}

// === following ===

/// Starts the thread that keeps `events` at the newest published state.
pub(crate) fn start(events: Arc<Events>, hub: Arc<Hub>, link: Arc<Link>) -> Worker {
    Worker::start("front", move |wait| run(&events, &hub, &link, wait))
}

/// Follows until `wait` returns false.
fn run(events: &Events, hub: &Hub, link: &Link, wait: &dyn Fn(Duration) -> bool) {
    let (mut offset, mut pause) = (FeedOffset::default(), Duration::ZERO);
    while wait(pause) {
        let moved = events.adopt_newest(&mut |seq, event| _ = hub.publish_live(&event, Some(seq)));
        let moved = link.reading.record("read the newest events", moved);
        link.has_adopted(events.end());
        let page = link.writer.feed(offset).and_then(|page| read(page.as_deref()));
        pause = match link.outage.record(PASS_ON, page) {
            // What was published is read at once.
            Ok(page) if moved.is_ok() => {
                if let Some((next, ephemeral)) = page {
                    offset = next;
                    for event in ephemeral {
                        hub.publish_live(&event, None);
                    }
                }
                Duration::ZERO
            }
            _ => LOOK,
        };
    }
}

type FeedPage = Option<(FeedOffset, Vec<Event>)>;

fn read(page: Option<&[u8]>) -> Result<FeedPage, String> {
    let Some(page) = page else { return Ok(None) };
    feed::decode(page).map(Some).ok_or_else(|| "the feed is of another version".to_owned())
}
