//! One client: its messages, its stored events and its live events, in one task.
//!
//! Nothing is computed for a client that does not read: a page of stored events is made when the client has taken the
//! one before, so a subscription of any size holds no more than a page. Live events come after EOSE, and each event
//! once: an event below the subscription's `since_seq` is stored, one from there on is live.
//!
//! A client may be silent for ever if it answers pings. Its socket is not read while its events or queries in flight
//! are at their bound. The values of its filters count in its quota and in that of all clients, from the request to the
//! end of the subscription, query or session that needs them.

mod sync;
mod sync_form;

mod membership;
mod querying;
mod syncing;

pub(crate) use self::querying::TurnPace;

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use birdhouse_clients::{Held, Overdrawn, Payer as _};
use birdhouse_events::{Audience, Event, EventId, Filter, Rejection, TagsBy, Timestamp, VerifiedEvent};
use birdhouse_net::{
    CloseCode, Executor, FrameWriter, Frames, Incoming, Kind, Message, Meter, Next, PING_WORK, Stream, Unsent,
    Upgraded, write_now,
};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

use crate::clock::now;
use crate::connection::sync::Sessions;
use crate::entrance::Client;
use crate::limits::{INLINE_MESSAGE_BYTES, LIVE_TOGETHER, PrivateMessages, QUERIES_RUNNING, WRITE_BYTES};
use crate::live::{LiveEvent, LiveInbox, LiveQueue, SinceSeq};
use crate::members;
use crate::members::is_request;
use crate::message;
use crate::message::{Answer, ClientMessage, Outcome, Refused, SubscriptionId, is_event, refused};
use crate::plugin::{Question, Source};
use crate::policy::{Identity, try_again};
use crate::relay::{Relay, SYNC_IDS};
use crate::rules::Verdict;
use crate::stored::{Stored, Tally, words_are_missing};
use crate::writing::{EventReservation, Submission};

/// Reason for the end of a connection.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The client is gone.
    Gone,
    /// It closed the WebSocket.
    Farewell(CloseCode),
    /// It broke the rules of WebSocket, or its message is too large.
    Refused(CloseCode),
    /// Its message takes too long.
    Slow,
    /// There is no room for the rest of its message.
    Crowded,
    /// It takes nothing of what is written.
    Stalled,
    /// It does not answer pings.
    Silent,
    /// Its live queue has overflowed.
    Behind,
    /// The operator has banned it.
    Banned,
    /// The operator has closed it.
    Disconnected,
    /// Only members read, and its author is none any more.
    Outside,
    /// Its place is needed by a newcomer.
    Displaced,
    /// The relay ends.
    Shutdown,
    /// The events cannot be read.
    Failed(birdhouse_events::Error),
}

/// An open subscription.
struct Subscription {
    number: u64,
    since_seq: SinceSeq,
    /// The client's quota for its filters.
    _held: Arc<Held>,
}

/// A query that is being answered.
enum Running {
    Req(SubscriptionId, u64, Stored),
    Count(SubscriptionId, Stored, Tally),
    /// A session of this name and number.
    Sync(SubscriptionId, u64),
}

struct Connection<'a> {
    relay: &'a Relay,
    incoming: Incoming<Stream, Frames>,
    /// Frames that are sent next.
    writer: FrameWriter,
    unsent: Unsent,
    meter: Arc<Meter>,
    identity: Identity,
    inbox: LiveInbox,
    answers: mpsc::Sender<Answer>,
    in_flight: usize,
    subscriptions: HashMap<SubscriptionId, Subscription>,
    next_number: u64,
    running: VecDeque<Running>,
    syncs: Sessions,
    /// The client has used up its share: until then it is not read, and its queries do not go on.
    pause_until: Option<tokio::time::Instant>,
}

/// Serves a client until it goes, is sent away, or the relay ends. The random number is its challenge (NIP-42).
pub(crate) async fn run(relay: &Relay, client: Client, random: u128) -> Ending {
    let limits = &relay.settings.limits;
    let Client { upgraded: Upgraded { stream, read, compression }, local, guard, seat, mut stopped, .. } = client;
    let in_flight_max = limits.events_in_flight.max(1);
    let (answers, mut answered) = mpsc::channel(in_flight_max);
    let mut connection = Connection {
        relay,
        incoming: Incoming::new(stream, read, Frames::new(compression), limits.incoming(), relay.partial.clone())
            .with_tolls(),
        writer: FrameWriter::new(compression),
        unsent: Unsent { all: relay.unsent.clone(), client: guard.meter.unsent() },
        meter: Arc::clone(&guard.meter),
        identity: Identity::new(random, relay.events.urls(), local),
        inbox: relay.hub.enter(LiveQueue::new(limits.live_queue_events, limits.live_queue_bytes)),
        answers,
        in_flight: 0,
        subscriptions: HashMap::new(),
        next_number: 0,
        running: VecDeque::new(),
        syncs: Sessions::new([guard.meter.held(SYNC_IDS, limits.client_sync_ids), relay.sync_ids.clone()]),
        pause_until: None,
    };
    let greeting = message::auth(connection.identity.challenge());
    let meter = Arc::clone(&connection.meter);
    let serving = async {
        let mut step = connection.send(greeting).await;
        loop {
            if let Err(ending) = step {
                break ending;
            }
            let has_room = connection.in_flight < in_flight_max && connection.running.len() < QUERIES_RUNNING;
            let (pause_until, sync_silence) = (connection.pause_until, connection.sync_silence());
            step = tokio::select! {
                biased;
                _ = stopped.changed() => Err(Ending::Shutdown),
                () = connection.inbox.live.overflowed() => Err(Ending::Behind),
                Some(answer) = answered.recv() => connection.send_answers(&answer, &mut answered).await,
                // After all that is stored.
                event = connection.inbox.live.next(), if connection.running.is_empty() => {
                    connection.send_live(event).await
                }
                // Only a client that would be heard can be silent.
                next = connection.incoming.next(), if has_room && pause_until.is_none() => match next {
                    Ok(next) => connection.handle_input(next).await,
                    // A connection that breaks is a client that is gone.
                    Err(_) => Err(Ending::Gone),
                },
                () = sync_silence => connection.end_silent_syncs().await,
                () = pause(pause_until), if pause_until.is_some() => {
                    connection.pause_until = None;
                    Ok(())
                }
                () = std::future::ready(()), if !connection.running.is_empty() && pause_until.is_none() => {
                    connection.run_next_query().await
                }
            };
        }
    };
    // Also in the middle of a write: a client that reads nothing is ended at once, too.
    let ending = tokio::select! {
        biased;
        () = meter.disconnected() => match relay.rules().on_client(meter.address) {
            Some(Verdict::Ban) => Ending::Banned,
            _ => Ending::Disconnected,
        },
        () = seat.displaced() => Ending::Displaced,
        ending = serving => ending,
    };
    let ending = if matches!(ending, Ending::Disconnected) && connection.check_reader().is_err() {
        Ending::Outside
    } else {
        ending
    };
    connection.end(&ending).await;
    ending
}

/// Sleeps until then. Nothing is made for it until it is polled.
async fn pause(until: Option<tokio::time::Instant>) {
    if let Some(until) = until {
        sleep_until(until).await;
    }
}

type Step = Result<(), Ending>;

impl Connection<'_> {
    async fn handle_input(&mut self, next: Next) -> Step {
        match next {
            Next::Message => {
                self.read_message().await?;
                self.pause_if_overdrawn(Instant::now());
                Ok(())
            }
            Next::Reply(owed) => {
                self.writer.framed(&owed.bytes);
                self.flush().await?;
                self.charge(owed.work());
                Ok(())
            }
            Next::Toll => {
                self.charge(Duration::ZERO);
                Ok(())
            }
            Next::End(CloseCode::Abnormal) => Err(Ending::Gone),
            Next::End(code) => Err(Ending::Farewell(code)),
            Next::Idle => {
                self.incoming.ask(self.relay.settings.limits.ping_timeout);
                self.writer.ping();
                self.flush().await
            }
            Next::Unanswered => Err(Ending::Silent),
            Next::Slow => Err(Ending::Slow),
            Next::Crowded => Err(Ending::Crowded),
            Next::Refused(code) => Err(Ending::Refused(code)),
        }
    }

    /// Charges the client for work that was done in no turn, and for what it has sent.
    fn charge(&mut self, work: Duration) {
        let now = Instant::now();
        self.meter.read_beside(self.incoming.take_unpaid());
        self.meter.worked(work, now);
        self.pause_if_overdrawn(now);
    }

    /// Reads nothing for a while if the client has used up its share.
    fn pause_if_overdrawn(&mut self, now: Instant) {
        if let Err(Overdrawn { wait }) = self.meter.check(now) {
            let pause = wait.min(self.relay.settings.limits.overdrawn_pause);
            self.pause_until = Some(tokio::time::Instant::now() + pause);
            self.relay.counters.pauses.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn read_message(&mut self) -> Step {
        // An event takes room where it waits before it is read: until then its bytes count as a partial message.
        let (bytes, is_event) = self.incoming.peek().map_or((0, false), |bytes| (bytes.len(), is_event(bytes)));
        let room = if is_event { Some(self.relay.ingest.reserve(&self.meter, bytes).await) } else { None };
        // What a message costs before it is answered is done in the client's turn.
        let turn = self.relay.settings.reads.processors.take(&self.meter).await;
        let unpaid = self.incoming.take_unpaid();
        let Message { kind, bytes } = self.incoming.take();
        // Headers, and what came before the message; a compressed one has more bytes than came.
        self.meter.read_beside(unpaid.saturating_sub(bytes.len()));
        if kind == Kind::Binary {
            self.meter.received(bytes.len(), 1);
            drop(turn);
            self.send("[\"NOTICE\",\"invalid: messages are text\"]".to_owned()).await?;
            self.charge(PING_WORK);
            return Ok(());
        }
        self.meter.received(bytes.len(), 1);
        let bytes_of_event = bytes.len();
        let executor = Executor::for_bytes(bytes.len(), INLINE_MESSAGE_BYTES);
        let text = str::from_utf8(bytes).expect("the framing has checked it");
        match executor.run(|| ClientMessage::parse(text, &self.relay.settings)) {
            Ok(ClientMessage::Event(event)) => {
                let checked = executor.run(|| self.check(event));
                drop(turn);
                self.admit_event(checked, bytes_of_event, room).await
            }
            Ok(ClientMessage::Req(id, filters)) => {
                drop(turn);
                self.relay.counters.reqs.fetch_add(1, Ordering::Relaxed);
                self.subscribe(id, filters.into()).await
            }
            Ok(ClientMessage::Count(id, filters)) => {
                drop(turn);
                self.relay.counters.counts.fetch_add(1, Ordering::Relaxed);
                self.count(id, filters.into()).await
            }
            Ok(ClientMessage::Close(id)) => {
                self.unsubscribe(&id);
                Ok(())
            }
            Ok(ClientMessage::Auth(event)) => {
                let id = event.id;
                let (author, proved) =
                    (event.pubkey, executor.run(|| self.identity.prove(event, Timestamp(now().into()))));
                drop(turn);
                if proved.is_ok() {
                    self.enter_as(author);
                }
                self.send(proved.map_or_else(|rejection| refused(&id, &rejection), |()| message::accepted(&id))).await
            }
            Ok(ClientMessage::Sync(message)) => {
                drop(turn);
                self.handle_sync(message).await
            }
            Err(refusal) => {
                drop(turn);
                match &refusal {
                    Refused::Event(_, rejection) => self.relay.counters.event(rejection.prefix()),
                    Refused::Subscription(_, rejection) | Refused::Sync(_, rejection) => {
                        self.relay.counters.closed(rejection.prefix());
                    }
                    Refused::Message(_) => {}
                }
                self.send(refusal.answer()).await
            }
        }
    }

    /// The readers on whose behalf the client asks.
    fn audience(&self) -> Audience<'_> {
        match self.relay.settings.private_messages {
            PrivateMessages::ForParticipants => Audience::Authenticated(self.identity.pubkeys()),
            PrivateMessages::ForEveryone => Audience::Operator,
        }
    }

    /// Checks that the client may see some of what it asks for, and has not used too much. For private messages it must
    /// authenticate before.
    fn may_ask(&self, filters: &[Filter]) -> Result<(), Rejection> {
        if filters.iter().any(|filter| filter.search.is_some()) {
            self.may_search()?;
        }
        self.within_share()?;
        self.check_reader()?;
        match self.audience() {
            Audience::Authenticated([]) if filters.iter().all(Filter::is_private) => {
                Err(Rejection::AuthRequired("private messages are shown to their author and recipients".into()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that there are searches now. A refusal after the events of an earlier filter would look like an answer.
    fn may_search(&self) -> Result<(), Rejection> {
        if !self.relay.events.has_search() {
            return Err(Rejection::Unsupported("there is no search here".into()));
        }
        self.relay.events.words_building().map_or(Ok(()), |percent| Err(words_are_missing(percent)))
    }

    /// Checks that the client has not used too much.
    fn within_share(&self) -> Result<(), Rejection> {
        self.meter.check(Instant::now()).map_err(overdrawn)
    }

    /// Checks whether an event is accepted. The signature, which costs most, is verified last.
    fn check(&self, event: Event) -> Result<VerifiedEvent, (EventId, Rejection)> {
        let (id, at) = (event.id, Instant::now());
        let (settings, gate, rules) = (&self.relay.settings, self.relay.gate(), self.relay.rules());
        let (event_limits, seconds) = (settings.limits.event_limits(), now());
        let admitted = event_limits.check(&event, Timestamp(seconds.into()), self.identity.pubkeys());
        let admitted = admitted.and_then(|()| self.relay.retention.get().check(&event, seconds));
        let admitted = admitted.and_then(|()| self.identity.check_vanish(&event));
        let wanted = admitted.and_then(|()| self.meter.check(at).map_err(overdrawn));
        let members = settings.members.as_ref();
        let wanted = wanted.and_then(|()| members::check(members, &event, &gate, &rules, self.identity.pubkeys()));
        // Clients send to all of their relays what one of them lacks: that counts where it is new.
        let is_counted = wanted.is_ok() && gate.has_rates() && !self.relay.has(&id);
        let client = self.meter.client();
        let wanted = wanted.and_then(|()| if is_counted { gate.check_client(&event, client, at) } else { Ok(()) });
        let verified = wanted.and_then(|()| event.verify());
        let check_author = |event: &Event| if is_counted { gate.check_author(event, at) } else { Ok(()) };
        let taken = verified.and_then(|event| check_author(&event).map(|()| event));
        taken.map_err(|rejection| (id, rejection))
    }

    /// Passes an accepted event on to the plugin, if there is one, else to the writer.
    async fn admit_event(
        &mut self,
        checked: Result<VerifiedEvent, (EventId, Rejection)>,
        bytes: usize,
        room: Option<EventReservation>,
    ) -> Step {
        let event = match checked {
            Ok(event) => event,
            Err((id, rejection)) => {
                self.put_answer(&Answer { id, outcome: Outcome::Refused(rejection) });
                return self.flush().await;
            }
        };
        if self.relay.settings.members.is_some() && is_request(&event) {
            return self.answer_member(&event).await;
        }
        let room = match room {
            Some(room) => room,
            None => self.relay.ingest.reserve(&self.meter, bytes).await,
        };
        let submission = Submission { event, room, meter: Arc::clone(&self.meter), answer: self.answers.clone() };
        let (source, authenticated) = (Source::Address(self.meter.address), self.identity.pubkeys().first().copied());
        // Writer and plugin live as long as the relay.
        let is_submitted = match &self.relay.plugin {
            Some(plugin) => plugin.ask(Question { submission, source, authenticated, received_at: now() }).await,
            None => self.relay.ingest.submit(submission),
        };
        self.in_flight += usize::from(is_submitted);
        Ok(())
    }

    /// Sends the outcome of an event, and those of the same batch, in one write. No more than were in flight.
    async fn send_answers(&mut self, first: &Answer, answered: &mut mpsc::Receiver<Answer>) -> Step {
        self.in_flight -= 1;
        self.put_answer(first);
        while let Ok(answer) = answered.try_recv() {
            self.in_flight -= 1;
            self.put_answer(&answer);
        }
        self.flush().await
    }

    /// Puts down the outcome of an event.
    fn put_answer(&mut self, answer: &Answer) {
        self.relay.counters.event(answer.outcome.name());
        self.put(&answer.message());
    }

    /// Refuses or ends a subscription.
    async fn close(&mut self, id: &SubscriptionId, rejection: &Rejection) -> Step {
        self.relay.counters.closed(rejection.prefix());
        self.send(id.closed(rejection)).await
    }

    async fn count(&mut self, id: SubscriptionId, filters: Arc<[Filter]>) -> Step {
        let may_ask = self.may_ask(&filters).and_then(|()| without_search(&filters));
        let held = match may_ask.and_then(|()| self.hold(&filters)) {
            Ok(held) => held,
            Err(rejection) => return self.close(&id, &rejection).await,
        };
        let tally = Tally::new(&filters);
        let stored = Stored::new(filters, TagsBy::List, SinceSeq::at(self.relay.events.end())).holding(held);
        self.running.push_back(Running::Count(id, stored, tally));
        Ok(())
    }

    async fn subscribe(&mut self, id: SubscriptionId, filters: Arc<[Filter]>) -> Step {
        self.unsubscribe(&id);
        if let Err(rejection) = self.may_ask(&filters) {
            return self.close(&id, &rejection).await;
        }
        if self.subscriptions.len() >= self.relay.settings.limits.subscriptions {
            return self.close(&id, &Rejection::RateLimited("too many subscriptions".into())).await;
        }
        let held = match self.hold(&filters) {
            Ok(held) => held,
            Err(rejection) => return self.close(&id, &rejection).await,
        };
        let invite = match self.invite(&filters) {
            Ok(invite) => invite,
            Err(rejection) => return self.close(&id, &rejection).await,
        };
        let number = self.next_number;
        self.next_number += 1;
        let since_seq = self.relay.hub.subscribe((self.inbox.id, number), Arc::clone(&filters));
        since_seq.lower_to(self.relay.events.end());
        let stored = Stored::new(filters, TagsBy::Event, since_seq.clone()).holding(Arc::clone(&held));
        self.subscriptions.insert(id.clone(), Subscription { number, since_seq, _held: held });
        self.meter.follows(self.subscriptions.len());
        let invite = invite.map(|event| format!("{}{}]", id.event_prefix(), event.to_json()));
        self.running.push_back(Running::Req(id, number, stored));
        match invite {
            Some(message) => self.send(message).await,
            None => Ok(()),
        }
    }

    fn unsubscribe(&mut self, id: &SubscriptionId) {
        if let Some(Subscription { number, .. }) = self.subscriptions.remove(id) {
            self.relay.hub.unsubscribe((self.inbox.id, number));
            self.meter.follows(self.subscriptions.len());
        }
    }

    /// Makes the next page of the query that waits longest, in the client's turn.
    async fn run_next_query(&mut self) -> Step {
        match self.running.pop_front() {
            None => Ok(()),
            Some(Running::Req(id, number, stored)) => self.send_page(id, number, stored).await,
            Some(Running::Count(id, stored, tally)) => self.run_count(id, stored, tally).await,
            Some(Running::Sync(id, number)) => self.run_sync(id, number).await,
        }
    }

    /// Sends a live event, and those that wait behind it, in one write.
    async fn send_live(&mut self, first: LiveEvent) -> Step {
        self.put_live(&first);
        // No event is held while something is written.
        drop(first);
        for _ in 1..LIVE_TOGETHER {
            if self.writer.bytes().len() >= WRITE_BYTES {
                self.flush().await?;
            }
            let Some(event) = self.inbox.live.try_next() else { break };
            self.put_live(&event);
        }
        self.flush().await
    }

    /// Puts down a live event, unless it was among the stored ones or is for others.
    fn put_live(&mut self, event: &LiveEvent) {
        // A connection has few; one that was closed meanwhile is not among them.
        let Some((id, open)) = self.subscriptions.iter().find(|(_, open)| open.number == event.subscription) else {
            return;
        };
        if !open.since_seq.is_live(event.seq) || !self.audience().is_among(event.readers.as_deref()) {
            return;
        }
        let beginning = id.event_prefix();
        self.meter.notified(beginning.len() + event.payload.len());
        self.writer.shared(beginning.as_bytes(), event.payload.shared());
    }

    // === writing ===

    /// Sends what was put down. Nothing else is done for the client until it has taken it.
    async fn flush(&mut self) -> Step {
        let patience = self.relay.settings.limits.patience();
        let written = write_now(self.incoming.stream(), self.writer.bytes(), patience, &self.unsent).await;
        self.writer.clear();
        written.map_err(|error| match error.kind() {
            ErrorKind::TimedOut => Ending::Stalled,
            _ => Ending::Gone,
        })
    }

    async fn send(&mut self, text: String) -> Step {
        self.put(&text);
        self.flush().await
    }

    fn put(&mut self, text: &str) {
        self.meter.sent(text.len());
        self.writer.text(&[text.as_bytes()]);
    }

    /// Ends the subscriptions, and closes the WebSocket with a status that says why, as far as there is one.
    async fn end(mut self, ending: &Ending) {
        for id in self.subscriptions.keys().cloned().collect::<Vec<_>>() {
            self.unsubscribe(&id);
        }
        self.forget_authors();
        let (code, reason) = match ending {
            Ending::Gone | Ending::Stalled | Ending::Silent => return,
            Ending::Farewell(code) => (*code, ""),
            Ending::Refused(CloseCode::Size) => (CloseCode::Size, "the message is too large"),
            Ending::Refused(CloseCode::Invalid) => (CloseCode::Invalid, "messages are UTF-8"),
            Ending::Refused(code) => (*code, "no WebSocket"),
            Ending::Slow => (CloseCode::Policy, "the message takes too long"),
            Ending::Crowded => (CloseCode::Again, "the relay is busy: try again later"),
            Ending::Behind => (CloseCode::Policy, "too slow: ask again"),
            // Within a frame that is not sent, there is no place for another.
            Ending::Banned | Ending::Disconnected | Ending::Outside | Ending::Displaced
                if !self.writer.bytes().is_empty() =>
            {
                return;
            }
            Ending::Banned => (CloseCode::Policy, "your address is not wanted here"),
            Ending::Disconnected => (CloseCode::Policy, "the operator closed this connection"),
            Ending::Outside => (CloseCode::Policy, "only members read here"),
            Ending::Displaced => (CloseCode::Again, "the relay is full: try again later"),
            Ending::Shutdown => (CloseCode::Away, "the relay ends"),
            Ending::Failed(error) => {
                tracing::error!(%error, "failed to read stored events");
                (CloseCode::Error, "the relay failed")
            }
        };
        // Memory for live events and for the rest of a message is not needed any more, and others may wait for it.
        self.inbox.live.close();
        self.incoming.release_all();
        self.writer.close(code, reason);
        if matches!(ending, Ending::Displaced) {
            // Somebody waits for the place, so nothing is waited for.
            let _ = timeout(Duration::ZERO, self.incoming.stream().write_all(self.writer.bytes())).await;
            return;
        }
        if self.flush().await.is_ok() && self.incoming.stream().shutdown().await.is_ok() {
            self.incoming.farewell(&self.meter).await;
        }
    }
}

/// Refuses a search where events are counted or compared.
fn without_search(filters: &[Filter]) -> Result<(), Rejection> {
    if filters.iter().any(|filter| filter.search.is_some()) {
        return Err(Rejection::Unsupported("search is for REQ alone".into()));
    }
    Ok(())
}

fn overdrawn(Overdrawn { wait }: Overdrawn) -> Rejection {
    try_again("your address has used more than its share", wait)
}
