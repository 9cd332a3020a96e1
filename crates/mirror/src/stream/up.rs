//! Events that go: in the order of the log, each until its OK or a final refusal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dial::relay::Accepted;
use birdhouse_events::{EventId, Seq, hex};
use birdhouse_relay::{DatedId, Exchange, Published, PublishedPage};
use serde_json::json;

use super::down::Identity;
use super::undecided::Undecided;
use crate::came::Came;
use crate::comparison::{Begun, Comparison, Step};
use crate::job::Job;
use crate::limits::{
    ERROR_ATTEMPTS, ERROR_PAUSE, FETCH_IDS, PROBE_TIMEOUT, REPEATED_MAX, SILENCE_TIMEOUT, UNDECIDED_MAX,
    UPLOAD_BYTES_MAX, UPLOADS_IN_FLIGHT,
};
use crate::peer::Peer;
use crate::tally::SharedTally;
use crate::upload::{Outgoing, Sent, Upload};
use crate::words::wants_identity;

/// Pages of the log that are read before others have their turn.
const PAGES_MAX: usize = 20;

/// The direction in which events go.
pub(super) struct Up {
    exchange: Arc<Exchange>,
    job: Job,
    tally: SharedTally,
    /// Ids that came from the peer.
    came: Arc<Came>,
    /// Number of the next event to read.
    next: Seq,
    undecided: Undecided,
    upload: Upload,
    /// Events that the peer could not keep, which are sent again later.
    failed: Vec<Failed>,
    /// Attempts at them.
    attempts: HashMap<EventId, Attempts>,
    /// Time of the last event that the peer accepted.
    accepted: Duration,
    question: Question,
    /// Number of the last comparison, for its name.
    last: u64,
    /// Events that were sent again after a proof of identity.
    repeated: usize,
    /// Time of the last outcome, or since when one is owed.
    answered: Duration,
}

/// The question which of the next events the peer has: after an outage, and always where the stream goes both ways, for
/// the peer may have sent them on another connection.
enum Question {
    /// It is asked before the next events are sent.
    Before,
    /// The answer is waited for.
    Asked(Box<Check>),
    /// It is not needed, or the peer does not answer it.
    Never,
}

/// A question about events.
struct Check {
    name: String,
    comparison: Comparison,
    /// In the order of the log.
    events: Vec<Outgoing>,
    /// Those that the peer lacks, as far as they are known.
    lacks: Vec<EventId>,
    since: Duration,
}

/// Attempts at an event that the peer could not keep.
#[derive(Clone, Copy)]
struct Attempts {
    count: u32,
    /// Time of the first failure.
    since: Duration,
}

/// An event that the peer could not keep.
struct Failed {
    outgoing: Outgoing,
    /// Time of the next attempt.
    at: Duration,
}

impl Up {
    pub(super) fn new(exchange: Arc<Exchange>, job: Job, tally: SharedTally, came: Arc<Came>, next: Seq) -> Self {
        Self {
            exchange,
            job,
            tally,
            came,
            next,
            undecided: Undecided::default(),
            upload: Upload::default(),
            failed: Vec::new(),
            attempts: HashMap::new(),
            accepted: Duration::ZERO,
            question: Question::Before,
            last: 0,
            repeated: 0,
            answered: Duration::ZERO,
        }
    }

    /// Returns the number below which every event has an outcome.
    pub(super) fn decided_below(&self) -> Seq {
        self.undecided.decided_below(self.next)
    }

    /// Returns the number from which on another event is waited for; `None` if there is no room for one.
    pub(super) fn waits_for(&self) -> Option<Seq> {
        self.has_room().then_some(self.next)
    }

    fn has_room(&self) -> bool {
        let is_waiting = matches!(self.question, Question::Asked(_));
        !is_waiting && self.upload.has_sent_all() && self.undecided.len() < UNDECIDED_MAX
    }

    /// Sends what may be sent now. `end` is the number of the next event that will be published.
    pub(super) async fn send(&mut self, peer: &Peer, end: Seq, now: Duration) -> Result<(), String> {
        if peer.is_proving() {
            return Ok(());
        }
        for _ in 0..PAGES_MAX {
            if !self.has_room() || self.next >= end {
                break;
            }
            let page = self.exchange.published(self.next, &self.job.wanted(), FETCH_IDS).await?;
            self.read(peer, page, now).await?;
        }
        if self.next >= end && matches!(self.question, Question::Before) && !self.job.purpose.is_down() {
            self.question = Question::Never;
        }
        let due = self.failed.extract_if(.., |failed| failed.at <= now).map(|failed| failed.outgoing);
        self.upload.read(due.collect::<Vec<_>>());
        while let Some(json) = self.upload.next(now) {
            if !self.upload_was_waited_for() {
                self.answered = now;
            }
            let bytes = peer.send_text(format!("[\"EVENT\",{json}]")).await?;
            self.sent(bytes);
            self.tally.change(|tally| tally.sent += 1);
        }
        Ok(())
    }

    /// True if an outcome was owed before the event that is being sent.
    fn upload_was_waited_for(&self) -> bool {
        self.upload.in_flight() > 1
    }

    fn sent(&self, bytes: usize) {
        self.exchange.sent(bytes);
        self.tally.change(|tally| tally.bytes_out += bytes as u64);
    }

    /// Takes the next events.
    async fn read(&mut self, peer: &Peer, page: PublishedPage, now: Duration) -> Result<(), String> {
        let (mut dated, mut events) = (Vec::new(), Vec::new());
        for Published { seq, event } in page.events {
            let outgoing = Outgoing { id: event.id, json: event.to_json() };
            if !self.goes(&event, &outgoing) {
                continue;
            }
            self.undecided.add(event.id, seq);
            dated.push(DatedId { created_at: event.created_at.0, id: event.id });
            events.push(outgoing);
        }
        self.next = page.next;
        if events.is_empty() || matches!(self.question, Question::Never) {
            self.upload.read(events);
            return Ok(());
        }
        self.last += 1;
        let name = format!("c{}", self.last);
        let Begun { comparison, first } = Comparison::begin(&dated);
        let ids: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
        let bytes = peer.send(&json!(["NEG-OPEN", name, { "ids": ids }, hex::string(&first)])).await?;
        self.sent(bytes);
        let check = Check { name, comparison, events, lacks: Vec::new(), since: now };
        self.question = Question::Asked(Box::new(check));
        Ok(())
    }

    /// True if an event goes to the peer; counts one that does not.
    fn goes(&self, event: &birdhouse_events::Event, outgoing: &Outgoing) -> bool {
        if self.came.has(&event.id) {
            return false;
        }
        let (is_kept, is_too_long) = (!self.job.sends(event), outgoing.json.len() > UPLOAD_BYTES_MAX);
        self.tally.change(|tally| {
            tally.kept += u64::from(is_kept);
            tally.too_long += u64::from(is_too_long && !is_kept);
        });
        !is_kept && !is_too_long
    }

    // === what the peer says ===

    /// Takes the outcome of an event. Returns the reason of a refusal.
    ///
    /// # Errors
    /// The reason, if the connection is of no use for now.
    pub(super) fn decided(
        &mut self,
        id: &str,
        accepted: Accepted,
        reason: &str,
        identity: Identity,
        now: Duration,
    ) -> Result<Option<String>, String> {
        let Some(id) = EventId::parse(id) else { return Ok(None) };
        self.answered = now;
        // As relays say it that answer a duplicate with false.
        if accepted == Accepted::Yes || reason.starts_with("duplicate:") {
            if self.upload.accepted(&id) == Sent::Accepted {
                self.accepted = now;
                self.tally.change(|tally| tally.accepted += 1);
                self.end(&id);
            }
            return Ok(None);
        }
        if wants_identity(reason) {
            self.repeated += 1;
            if identity == Identity::None || self.repeated > REPEATED_MAX {
                return Err(format!("the peer wants to know who sends events: {reason}; set key-file"));
            }
            self.upload.again(&id);
            return Ok(None);
        }
        if reason.starts_with("error:") {
            if self.failed.len() >= UPLOADS_IN_FLIGHT {
                return Err(format!("the peer cannot keep events: {reason}"));
            }
            if self.fails(&id, reason, now)? {
                return Ok(Some(reason.to_owned()));
            }
        }
        match self.upload.refused(&id, reason, now) {
            Sent::Refused if reason.starts_with("rate-limited:") => Err(format!("the peer takes no events: {reason}")),
            Sent::Refused => {
                self.tally.change(|tally| tally.refused_there.add(reason));
                self.end(&id);
                Ok(Some(reason.to_owned()))
            }
            _ => Ok(None),
        }
    }

    /// Notes a failure of the peer. Returns true if the event is sent again later, false if it is given up: the peer
    /// has kept another one meanwhile.
    ///
    /// # Errors
    /// The peer keeps nothing.
    fn fails(&mut self, id: &EventId, reason: &str, now: Duration) -> Result<bool, String> {
        let Attempts { count, since } = self.attempts.get(id).copied().unwrap_or(Attempts { count: 0, since: now });
        let count = count + 1;
        if count >= ERROR_ATTEMPTS {
            return if self.accepted > since {
                Ok(false)
            } else {
                Err(format!("the peer cannot keep events: {reason}"))
            };
        }
        let Some(outgoing) = self.upload.take_back(id) else { return Ok(false) };
        self.attempts.insert(*id, Attempts { count, since });
        self.failed.push(Failed { outgoing, at: now + ERROR_PAUSE * (1 << (count - 1)) });
        Ok(true)
    }

    fn end(&mut self, id: &EventId) {
        self.attempts.remove(id);
        self.undecided.decide(id);
    }

    /// Takes an answer to a question about events.
    ///
    /// # Errors
    /// It is none, or the connection has ended.
    pub(super) async fn compared(
        &mut self,
        peer: &Peer,
        name: &str,
        message: &[u8],
        now: Duration,
    ) -> Result<(), String> {
        let Question::Asked(check) = &mut self.question else { return Ok(()) };
        if check.name != name {
            return Ok(());
        }
        check.since = now;
        let Step { next, have, need: _ } = check.comparison.answered(message)?;
        check.lacks.extend(have);
        let message = if let Some(next) = next {
            json!(["NEG-MSG", name, hex::string(&next)])
        } else {
            self.checked(Lacks::AsSaid);
            json!(["NEG-CLOSE", name])
        };
        let bytes = peer.send(&message).await?;
        self.sent(bytes);
        Ok(())
    }

    /// Takes a refusal of a question. Without a name, it may be about another message.
    pub(super) fn check_refused(&mut self, name: Option<&str>) {
        let Question::Asked(check) = &self.question else { return };
        if name.is_none_or(|name| name == check.name) {
            self.checked(Lacks::All);
            self.question = Question::Never;
        }
    }

    /// Sends what the peer lacks of the events in question.
    fn checked(&mut self, lacks: Lacks) {
        let Question::Asked(check) = std::mem::replace(&mut self.question, Question::Before) else {
            return;
        };
        let Check { events, lacks: said, .. } = *check;
        let said: HashSet<EventId> = said.into_iter().collect();
        let (lacked, known): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|event| lacks == Lacks::All || said.contains(&event.id));
        self.upload.read(lacked);
        for event in known {
            self.undecided.decide(&event.id);
        }
    }

    /// Takes a request to wait.
    pub(super) fn slow_down(&mut self, now: Duration) {
        self.upload.slow_down(now);
    }

    /// Checks that answers come in time.
    ///
    /// # Errors
    /// An outcome does not.
    pub(super) fn check_time(&mut self, now: Duration) -> Result<(), String> {
        if let Question::Asked(check) = &self.question
            && now > check.since + PROBE_TIMEOUT
        {
            self.check_refused(None);
            self.answered = now;
        }
        if self.upload.is_waited_for() && now > self.answered + SILENCE_TIMEOUT {
            return Err(format!("the outcome of an event does not come in {} s", SILENCE_TIMEOUT.as_secs()));
        }
        Ok(())
    }
}

/// Events in question that the peer lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lacks {
    AsSaid,
    /// It has not said.
    All,
}
