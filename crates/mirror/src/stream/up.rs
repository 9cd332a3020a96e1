//! Events that go: in the order of the log, each until its OK or a final refusal.
//!
//! An event may end the connection, or be passed over. Those that were under way at such an end are sent alone on the
//! next connection, so that the one to blame shows; `unanswered` decides when it is set aside.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dial::relay::Accepted;
use birdhouse_events::{EventId, Seq};
use birdhouse_relay::{DatedId, Exchange, Published, PublishedPage};
use serde_json::Value;

use super::down::Identity;
use super::leg::Leg;
use super::question::{self, Answered, Need, Question, Refusal};
use super::unanswered::{Company, Fate, Turn};
use super::undecided::Undecided;
use crate::limits::{
    ALONE, ERROR_ATTEMPTS, ERROR_PAUSE, FETCH_IDS, REPEATED_MAX, UNDECIDED_MAX, UPLOAD_BYTES_MAX, UPLOADS_IN_FLIGHT,
};
use crate::peer::Peer;
use crate::upload::{Outgoing, Sent, Upload};
use crate::words::wants_identity;

/// Pages of the log that are read before others have their turn.
const PAGES_MAX: usize = 20;

/// The direction in which events go.
pub(super) struct Up {
    leg: Arc<Leg>,
    exchange: Arc<Exchange>,
    /// Number of the next event to read.
    next: Seq,
    undecided: Undecided,
    upload: Upload,
    /// Events that the peer could not keep, which are sent again later.
    failed: Vec<Failed>,
    /// Attempts at them.
    attempts: HashMap<EventId, Attempts>,
    /// Events that the peer has passed over, which are sent again later.
    passed_over: Vec<Failed>,
    /// Events of which one may have ended a connection: each is sent alone.
    suspects: Vec<Outgoing>,
    /// The one of them that is under way.
    alone: Option<Alone>,
    /// Time of the last event that the peer accepted on this connection; `None` before the first one.
    accepted: Option<Duration>,
    /// The question which of the next events the peer has.
    question: Question,
    gap: Gap,
    /// Events that were sent again after a proof of identity.
    repeated: usize,
    /// Time of the last outcome, or since when one is owed.
    answered: Duration,
}

/// State of the events before this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// Some are not sent yet. The peer may have them: their outcomes were lost.
    Open,
    /// All are sent.
    Closed,
}

/// Cause of the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// One event, on a connection on which the peer has accepted others.
    Event,
    Peer,
}

/// An event that is sent alone.
struct Alone {
    id: EventId,
    since: Duration,
}

/// Attempts at an event that the peer could not keep.
#[derive(Clone, Copy)]
struct Attempts {
    count: u32,
    /// Time of the first failure.
    since: Duration,
}

/// An event that the peer could not keep, or has passed over.
struct Failed {
    outgoing: Outgoing,
    /// Time of the next attempt.
    at: Duration,
}

impl Up {
    /// Begins at the place of the stream.
    pub(super) fn new(leg: Arc<Leg>, exchange: Arc<Exchange>) -> Self {
        Self {
            next: Seq(leg.cursors.get(&leg.key).up.unwrap_or(0)),
            leg,
            exchange,
            undecided: Undecided::default(),
            upload: Upload::default(),
            failed: Vec::new(),
            attempts: HashMap::new(),
            passed_over: Vec::new(),
            suspects: Vec::new(),
            alone: None,
            accepted: None,
            question: Question::default(),
            gap: Gap::Open,
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
        !self.question.is_open() && self.upload.has_sent_all() && self.undecided.len() < UNDECIDED_MAX
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
            let page = self.exchange.published(self.next, &self.leg.settings.job.wanted(), FETCH_IDS).await?;
            self.read(peer, page, now).await?;
        }
        if self.next >= end && !self.question.is_open() {
            self.gap = Gap::Closed;
        }
        if !self.upload.is_pausing(now)
            && let Some(message) = self.question.again(now)
        {
            self.say(peer, &message).await?;
        }
        for waiting in [&mut self.failed, &mut self.passed_over] {
            let due = waiting.extract_if(.., |failed| failed.at <= now).map(|failed| failed.outgoing);
            self.upload.read(due);
        }
        while let Some(Outgoing { id, json }) = self.next_to_send(end, now) {
            self.leg.came.sent(id);
            if !self.upload_was_waited_for() {
                self.answered = now;
            }
            let bytes = peer.send_text(format!("[\"EVENT\",{json}]")).await?;
            self.sent(bytes);
            self.leg.tally.change(|tally| tally.sent += 1);
        }
        Ok(())
    }

    /// Returns the next event to send, if one may be sent now. One whose turn it is to be sent alone goes first; the
    /// others wait a moment for its outcome, and before it for theirs. But the peer has accepted another one before, if
    /// any waits: else each connection would end at once, and nothing would show that it is not the peer's fault.
    fn next_to_send(&mut self, end: Seq, now: Duration) -> Option<Outgoing> {
        self.alone.take_if(|alone| !self.upload.is_in_flight(&alone.id));
        match &self.alone {
            Some(alone) if now < alone.since + ALONE => return None,
            Some(_) => return self.upload.next(now),
            None => {}
        }
        let Some(due) = self.due_suspect(now) else { return self.upload.next(now) };
        if self.upload.waits_since(now.saturating_sub(ALONE)) || self.upload.is_pausing(now) {
            return None;
        }
        if self.accepted.is_none() && self.others_wait(end) {
            return self.upload.next(now);
        }
        let outgoing = self.suspects.remove(due);
        self.alone = Some(Alone { id: outgoing.id, since: now });
        Some(self.upload.send(outgoing, now))
    }

    /// True if events wait to be sent beside those that are sent alone.
    fn others_wait(&self, end: Seq) -> bool {
        !self.upload.has_sent_all() || self.question.is_open() || (self.next < end && self.has_room())
    }

    /// Returns the place of an event whose turn it is to be sent alone: the first of those that have failed least.
    fn due_suspect(&self, now: Duration) -> Option<usize> {
        let unanswered = self.leg.unanswered.lock();
        let is_due = |one: &Outgoing| unanswered.turn(&one.id).is_none_or(|turn| turn.at <= now);
        let due = self.suspects.iter().enumerate().filter(|(_, one)| is_due(one));
        due.min_by_key(|(_, one)| unanswered.attempts(&one.id)).map(|(place, _)| place)
    }

    /// Leaves events out that have come from the peer while they wait: later their ids may be forgotten.
    pub(super) fn leave_out_what_came(&mut self) {
        let came = Arc::clone(&self.leg.came);
        let mut left_out = self.upload.leave_out(|id| came.has(id));
        left_out.extend(self.suspects.extract_if(.., |one| came.has(&one.id)).map(|one| one.id));
        for waiting in [&mut self.failed, &mut self.passed_over] {
            left_out.extend(waiting.extract_if(.., |one| came.has(&one.outgoing.id)).map(|one| one.outgoing.id));
        }
        for id in left_out {
            self.is_there(&id);
        }
    }

    /// Notes that the peer has an event, though not from here.
    fn is_there(&mut self, id: &EventId) {
        self.leg.unanswered.lock().forget(id);
        self.attempts.remove(id);
        self.undecided.decide(id);
    }

    /// True if an outcome was owed before the event that is being sent.
    fn upload_was_waited_for(&self) -> bool {
        self.upload.in_flight() > 1
    }

    fn sent(&self, bytes: usize) {
        self.exchange.sent(bytes);
        self.leg.tally.change(|tally| tally.bytes_out += bytes as u64);
    }

    /// Takes the next events.
    async fn read(&mut self, peer: &Peer, page: PublishedPage, now: Duration) -> Result<(), String> {
        let (mut dated, mut events) = (Vec::new(), Vec::new());
        let set_aside = self.leg.cursors.get(&self.leg.key).set_aside.into_iter().map(|one| one.id);
        let set_aside: HashSet<String> = set_aside.collect();
        let is_set_aside = |id: &EventId| !set_aside.is_empty() && set_aside.contains(&id.to_string());
        for Published { seq, event } in page.events {
            let outgoing = Outgoing { id: event.id, json: event.to_json() };
            if !self.goes(&event, &outgoing) || is_set_aside(&event.id) {
                continue;
            }
            self.undecided.add(event.id, seq);
            dated.push(DatedId { created_at: event.created_at.0, id: event.id });
            events.push(outgoing);
        }
        self.next = page.next;
        let may_be_there = self.gap == Gap::Open || self.leg.came.has_begun();
        if events.is_empty() || self.question.is_given_up() || !may_be_there {
            self.queue(events);
            return Ok(());
        }
        let message = self.question.ask(events, &dated, now);
        self.say(peer, &message).await
    }

    async fn say(&self, peer: &Peer, message: &Value) -> Result<(), String> {
        let bytes = peer.send(message).await?;
        self.sent(bytes);
        Ok(())
    }

    /// Returns the worth of knowing which of the next events the peer has.
    fn need(&self) -> Need {
        if self.leg.came.has_begun() { Need::NoEcho } else { Need::Saving }
    }

    /// True if an event goes to the peer; counts one that does not.
    fn goes(&self, event: &birdhouse_events::Event, outgoing: &Outgoing) -> bool {
        if self.leg.came.has(&event.id) {
            self.leg.unanswered.lock().forget(&event.id);
            return false;
        }
        let (is_kept, is_too_long) = (!self.leg.settings.job.sends(event), outgoing.json.len() > UPLOAD_BYTES_MAX);
        self.leg.tally.change(|tally| {
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
            if self.upload.accepted(&id) == Sent::Accepted || self.was_waiting(&id) {
                self.accepted = Some(now);
                self.leg.tally.change(|tally| tally.accepted += 1);
                self.end(&id, now);
            }
            return Ok(None);
        }
        self.leg.came.not_kept(&id);
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
                self.leg.tally.change(|tally| tally.refused_there.add(reason));
                self.end(&id, now);
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
            return if self.accepted > Some(since) {
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

    /// Takes an event out of those that are sent again; true if it was among them. Its outcome has come late.
    fn was_waiting(&mut self, id: &EventId) -> bool {
        let before = self.suspects.len() + self.passed_over.len();
        self.suspects.retain(|one| one.id != *id);
        self.passed_over.retain(|one| one.outgoing.id != *id);
        self.suspects.len() + self.passed_over.len() < before
    }

    fn end(&mut self, id: &EventId, now: Duration) {
        self.leg.unanswered.lock().answered(id, now);
        self.attempts.remove(id);
        self.undecided.decide(id);
    }

    // === events without an answer ===

    /// Notes the end of the connection: the event that was sent alone has ended it, or one of those under way.
    pub(super) fn ended(&mut self, why: &str, now: Duration) -> Cause {
        let mut left = self.upload.unanswered();
        let alone = self.alone.as_ref().map(|alone| alone.id).filter(|id| left.contains(id));
        let to_blame = alone.or(if let [only] = left[..] { Some(only) } else { None });
        if let Some(id) = to_blame {
            left.retain(|other| *other != id);
            self.has_no_answer(&id, Company::None, why, now);
        }
        self.leg.unanswered.lock().suspect(&left, now);
        let has_accepted = self.accepted.is_some();
        if to_blame.is_some() && has_accepted { Cause::Event } else { Cause::Peer }
    }

    fn has_no_answer(&mut self, id: &EventId, company: Company, why: &str, now: Duration) {
        let Some(outgoing) = self.upload.take_back(id) else { return };
        let mut unanswered = self.leg.unanswered.lock();
        let fate = unanswered.failed(id, company, now);
        let turn = unanswered.turn(id).unwrap_or(Turn { at: now, company });
        drop(unanswered);
        match fate {
            Fate::Again => self.queue_again(outgoing, turn),
            Fate::SetAside => {
                self.leg.set_aside(id, why);
                self.attempts.remove(id);
                self.undecided.decide(id);
            }
        }
    }

    /// Takes an answer by negentropy to a question about events.
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
        let turn = self.question.compared(name, message, now)?;
        self.go_on(peer, turn).await
    }

    /// Takes the id of an event that the peer sends in answer to a question. Returns false if it was not asked for.
    pub(super) fn has(&mut self, name: &str, id: EventId) -> bool {
        let is_asked = self.question.has(name, id);
        if is_asked {
            self.leg.came.add(id);
        }
        is_asked
    }

    /// Takes the end of these events.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn complete(&mut self, peer: &Peer, name: &str) -> Result<(), String> {
        let turn = self.question.complete(name);
        self.go_on(peer, turn).await
    }

    /// Takes a refusal of a subscription, which may be that of a question.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn closed(
        &mut self,
        peer: &Peer,
        name: &str,
        reason: &str,
        identity: Identity,
        now: Duration,
    ) -> Result<(), String> {
        if !self.question.is_of(name) {
            return Ok(());
        }
        let is_paused = reason.starts_with("rate-limited:");
        if is_paused {
            self.upload.slow_down(now);
        }
        let may_change = is_paused || (wants_identity(reason) && identity != Identity::None);
        let refusal = if may_change { Refusal::ForNow } else { Refusal::ForGood };
        let turn = self.question.closed(name, refusal);
        self.go_on(peer, turn).await
    }

    /// Takes a refusal of negentropy. Without a name, it may be about another message.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) async fn compare_refused(
        &mut self,
        peer: &Peer,
        name: Option<&str>,
        now: Duration,
    ) -> Result<(), String> {
        let turn = self.question.compare_refused(name, self.need(), now);
        self.go_on(peer, turn).await
    }

    /// Takes the next step of a question: sends what the peer lacks of its events.
    async fn go_on(&mut self, peer: &Peer, turn: question::Turn) -> Result<(), String> {
        let question::Turn { message, answered } = turn;
        if let Some(Answered { lacked, known }) = answered {
            self.queue(lacked);
            for id in known {
                self.is_there(&id);
            }
        }
        match message {
            Some(message) => self.say(peer, &message).await,
            None => Ok(()),
        }
    }

    /// Queues events to be sent, those that were not answered before for their turns.
    fn queue(&mut self, events: Vec<Outgoing>) {
        for outgoing in events {
            let turn = self.leg.unanswered.lock().turn(&outgoing.id);
            match turn {
                None => self.upload.read([outgoing]),
                Some(turn) => self.queue_again(outgoing, turn),
            }
        }
    }

    fn queue_again(&mut self, outgoing: Outgoing, Turn { at, company }: Turn) {
        match company {
            Company::Any => self.passed_over.push(Failed { outgoing, at }),
            Company::None => self.suspects.push(outgoing),
        }
    }

    /// Takes a request to wait.
    pub(super) fn slow_down(&mut self, now: Duration) {
        self.upload.slow_down(now);
    }

    /// Checks that answers come in time.
    ///
    /// # Errors
    /// None does, or the connection has ended.
    pub(super) async fn check_time(&mut self, peer: &Peer, now: Duration) -> Result<(), String> {
        let turn = self.question.check_time(self.need(), now);
        self.go_on(peer, turn).await?;
        let patience = self.leg.settings.outcome_timeout;
        let late = || format!("the outcome of an event does not come in {} s", patience.as_secs());
        for id in self.upload.passed_over(now.saturating_sub(patience)) {
            self.has_no_answer(&id, Company::Any, &late(), now);
        }
        if !self.upload.is_waited_for() || now <= self.answered + patience {
            return Ok(());
        }
        let unanswered = self.upload.unanswered();
        match &self.alone {
            // It may be its fault, so the connection goes on.
            Some(Alone { id, .. }) if unanswered == [*id] => {
                let id = *id;
                self.has_no_answer(&id, Company::None, &late(), now);
                Ok(())
            }
            _ => Err(late()),
        }
    }
}
