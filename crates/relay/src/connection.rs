//! One client: its messages, its stored events and its news, in one task.
//!
//! Nothing is computed for a client that does not read: a page of stored events is made when the one before it was taken, so
//! a subscription of any size holds no more than a page. Live events come after EOSE, and each event once: what is older than
//! the subscription's mark is stored, what is newer is news.

mod querying;
mod syncing;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use birdhouse_clients::{Overdrawn, Turn};
use birdhouse_events::{Audience, Event, EventId, Filter, Rejection, Seq, TagsBy, Timestamp, VerifiedEvent};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::frames::{Broken, Message};
use crate::http::{Client, WebSocket};
use crate::hub::{Ear, News};
use crate::identity::Identity;
use crate::ingest::{Answer, Outcome, Submission};
use crate::limits::{NEWS_TOGETHER, PrivateMessages, QUERIES_RUNNING};
use crate::message::{self, ClientMessage, Refused, SubscriptionId, refused};
use crate::place::Place;
use crate::plugin::Question;
use crate::policy::try_again;
use crate::relay::{self, Relay, now};
use crate::socket::Over;
use crate::stored::Stored;
use crate::sync::Sessions;
use crate::tally::Tally;
use crate::visitor::Visitor;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The client is gone.
    Gone,
    /// It said farewell.
    Farewell(CloseCode),
    /// It broke the rules of WebSocket, or its message is too large.
    Broken(Broken),
    /// Its message takes too long.
    Slow,
    /// There is no room for the rest of its message.
    Crowded,
    /// It takes nothing of what is written.
    Stalled,
    /// It does not answer pings.
    Silent,
    /// It is too far behind with its news.
    Behind,
    /// The relay ends.
    Shutdown,
    /// The events cannot be read.
    Failed(birdhouse_events::Error),
}

/// What the connection knows of a subscription.
struct Subscription {
    number: u64,
    /// Events from here on are news.
    mark: Seq,
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
    socket: WebSocket,
    visitor: Arc<Visitor>,
    identity: Identity,
    ear: Ear,
    answers: mpsc::Sender<Answer>,
    in_flight: usize,
    subscriptions: HashMap<SubscriptionId, Subscription>,
    next_number: u64,
    running: VecDeque<Running>,
    syncs: Sessions,
}

/// Serves a client until it goes, or is sent away. The random number is its challenge (NIP-42).
pub(crate) async fn run(relay: &Relay, client: Client, random: u128, mut shutdown: watch::Receiver<bool>) -> Ending {
    let limits = &relay.settings.limits;
    let in_flight_max = limits.events_in_flight.max(1);
    let (answers, mut answered) = mpsc::channel(in_flight_max);
    let mut connection = Connection {
        relay,
        socket: client.socket,
        visitor: Arc::new(client.visitor),
        identity: Identity::new(random, relay.events.urls(), &client.host),
        ear: relay.hub.enter(limits.live_queue_events.max(1)),
        answers,
        in_flight: 0,
        subscriptions: HashMap::new(),
        next_number: 0,
        running: VecDeque::new(),
        syncs: Sessions::new(Arc::clone(&relay.sync_room)),
    };
    let mut silence = std::pin::pin!(sleep(limits.idle_timeout));
    let mut is_asked = false;
    let greeting = message::auth(connection.identity.challenge());
    let mut step = connection.send(greeting).await;
    let ending = loop {
        if let Err(ending) = step {
            break ending;
        }
        let has_room = connection.in_flight < in_flight_max && connection.running.len() < QUERIES_RUNNING;
        let sync_silence = connection.sync_silence();
        step = tokio::select! {
            biased;
            _ = shutdown.changed() => Err(Ending::Shutdown),
            () = connection.ear.behind.notified() => Err(Ending::Behind),
            Some(answer) = answered.recv() => {
                connection.in_flight -= 1;
                connection.answer(&answer).await
            }
            // After all that is stored.
            Some(news) = connection.ear.news.recv(), if connection.running.is_empty() => connection.tell(news).await,
            message = connection.socket.next(), if has_room => match message {
                Ok(message) => {
                    silence.set(sleep(limits.idle_timeout));
                    is_asked = false;
                    connection.hear(message).await
                }
                Err(over) => Err(over.into()),
            },
            // Only a client that would be heard can be silent.
            () = &mut silence, if has_room => {
                silence.set(sleep(limits.ping_timeout));
                if is_asked { Err(Ending::Silent) } else { is_asked = true; connection.ping().await }
            }
            () = sync_silence => connection.end_silent_syncs().await,
            () = std::future::ready(()), if !connection.running.is_empty() => connection.go_on().await,
        };
    };
    connection.end(&ending).await;
    ending
}

type Step = Result<(), Ending>;

impl Connection<'_> {
    async fn hear(&mut self, message: Message) -> Step {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(code) => return Err(Ending::Farewell(code)),
            Message::Binary => return self.send("[\"NOTICE\",\"invalid: messages are text\"]".to_owned()).await,
            Message::Ping(payload) => {
                self.socket.outgoing.pong(&payload);
                return self.flush().await;
            }
            Message::Pong => return Ok(()),
        };
        self.visitor.moved(text.len());
        // What a message costs before it is answered is done in the client's turn.
        let turn = self.turn().await;
        let place = Place::of_message(text.len());
        match place.run(|| ClientMessage::parse(&text, &self.relay.settings)) {
            Ok(ClientMessage::Event(event)) => {
                let checked = place.run(|| self.check(event));
                drop(turn);
                self.take_in(checked).await
            }
            Ok(ClientMessage::Req(id, filters)) => {
                drop(turn);
                self.visitor.counters.reqs.fetch_add(1, Ordering::Relaxed);
                self.subscribe(id, filters.into()).await
            }
            Ok(ClientMessage::Count(id, filters)) => {
                drop(turn);
                self.visitor.counters.counts.fetch_add(1, Ordering::Relaxed);
                self.count(id, filters.into()).await
            }
            Ok(ClientMessage::Close(id)) => {
                self.unsubscribe(&id);
                Ok(())
            }
            Ok(ClientMessage::Auth(event)) => {
                let id = event.id;
                let proved = place.run(|| self.identity.prove(event, Timestamp(now().into())));
                drop(turn);
                self.send(proved.map_or_else(|rejection| refused(&id, &rejection), |()| message::accepted(&id))).await
            }
            Ok(ClientMessage::Sync(message)) => {
                drop(turn);
                self.hear_sync(message).await
            }
            Err(refusal) => {
                drop(turn);
                match &refusal {
                    Refused::Event(_, rejection) => self.visitor.counters.event(rejection.prefix()),
                    Refused::Subscription(_, rejection) | Refused::Sync(_, rejection) => {
                        self.visitor.counters.closed(rejection.prefix());
                    }
                    Refused::Message(_) => {}
                }
                self.send(refusal.answer()).await
            }
        }
    }

    /// A turn to keep a processor busy: clients that want much wait behind those that want little.
    fn turn(&self) -> impl Future<Output = Turn<Visitor>> + use<> {
        let (processors, visitor) = (Arc::clone(&self.relay.processors), Arc::clone(&self.visitor));
        async move { processors.take(&visitor).await }
    }

    /// Who is asking.
    fn audience(&self) -> Audience<'_> {
        match self.relay.settings.private_messages {
            PrivateMessages::ForParticipants => Audience::Authenticated(self.identity.pubkeys()),
            PrivateMessages::ForEveryone => Audience::Operator,
        }
    }

    /// Whether something of what is asked for could be shown, else the client must prove who it is before; and whether its client
    /// has not used too much.
    fn may_ask(&self, filters: &[Filter]) -> Result<(), Rejection> {
        if !self.relay.events.has_search() && filters.iter().any(|filter| filter.search.is_some()) {
            return Err(Rejection::Unsupported("there is no search here".into()));
        }
        self.within_share()?;
        match self.audience() {
            Audience::Authenticated([]) if filters.iter().all(Filter::is_private) => {
                Err(Rejection::AuthRequired("private messages are shown to their author and recipients".into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether its client has not used too much.
    fn within_share(&self) -> Result<(), Rejection> {
        self.visitor.check(Instant::now()).map_err(overdrawn)
    }

    /// Whether an event is taken. What can be refused without a look at the signature, which costs most, is refused first.
    fn check(&self, event: Event) -> Result<VerifiedEvent, (EventId, Rejection)> {
        let (id, now) = (event.id, Instant::now());
        let Relay { gate, settings, .. } = self.relay;
        let event_limits = settings.limits.event_limits();
        let admitted = event_limits.check(&event, Timestamp(relay::now().into()), self.identity.pubkeys());
        let wanted = admitted.and_then(|()| self.visitor.check(now).map_err(overdrawn));
        let wanted = wanted.and_then(|()| gate.check(&event, self.visitor.client(), now));
        let verified = wanted.and_then(|()| event.verify());
        let taken = verified.and_then(|event| gate.check_author(&event, now).map(|()| event));
        taken.map_err(|rejection| (id, rejection))
    }

    /// Gives an event that is taken to the writer, or first to whoever judges it.
    async fn take_in(&mut self, checked: Result<VerifiedEvent, (EventId, Rejection)>) -> Step {
        let event = match checked {
            Ok(event) => event,
            Err((id, rejection)) => return self.answer(&Answer { id, outcome: Outcome::Refused(rejection) }).await,
        };
        let submission = Submission { event, answer: self.answers.clone() };
        let (address, authenticated) = (self.visitor.address, self.identity.pubkeys().first().copied());
        // Writer and judge live as long as the relay.
        let is_submitted = match &self.relay.plugin {
            Some(plugin) => plugin.ask(Question { submission, address, authenticated, received_at: now() }).await,
            None => self.relay.ingest.submit(submission).await,
        };
        self.in_flight += usize::from(is_submitted);
        Ok(())
    }

    /// Says what became of an event.
    async fn answer(&mut self, answer: &Answer) -> Step {
        self.visitor.counters.event(answer.outcome.name());
        self.send(answer.message()).await
    }

    /// Says why a subscription is none.
    async fn close(&mut self, id: &SubscriptionId, rejection: &Rejection) -> Step {
        self.visitor.counters.closed(rejection.prefix());
        self.send(id.closed(rejection)).await
    }

    async fn count(&mut self, id: SubscriptionId, filters: Arc<[Filter]>) -> Step {
        if let Err(rejection) = self.may_ask(&filters).and_then(|()| without_search(&filters)) {
            return self.close(&id, &rejection).await;
        }
        let tally = Tally::new(&filters);
        let stored = Stored::new(filters, TagsBy::List, self.relay.events.end());
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
        let number = self.next_number;
        self.next_number += 1;
        // First the ear, then the mark: what comes between is stored, and told in vain.
        self.relay.hub.subscribe((self.ear.id, number), Arc::clone(&filters));
        let mark = self.relay.events.end();
        self.subscriptions.insert(id.clone(), Subscription { number, mark });
        self.visitor.follows(self.subscriptions.len());
        self.running.push_back(Running::Req(id, number, Stored::new(filters, TagsBy::Event, mark)));
        Ok(())
    }

    fn unsubscribe(&mut self, id: &SubscriptionId) {
        if let Some(Subscription { number, .. }) = self.subscriptions.remove(id) {
            self.relay.hub.unsubscribe((self.ear.id, number));
            self.visitor.follows(self.subscriptions.len());
        }
    }

    /// Makes the next page of the query that waits longest, in the client's turn.
    async fn go_on(&mut self) -> Step {
        match self.running.pop_front() {
            None => Ok(()),
            Some(Running::Req(id, number, stored)) => self.show(id, number, stored).await,
            Some(Running::Count(id, stored, tally)) => self.count_on(id, stored, tally).await,
            Some(Running::Sync(id, number)) => self.go_on_syncing(id, number).await,
        }
    }

    /// Tells of a new event, and of those that wait behind it, in one write.
    async fn tell(&mut self, first: News) -> Step {
        self.put_news(&first);
        for _ in 1..NEWS_TOGETHER {
            let Ok(news) = self.ear.news.try_recv() else { break };
            self.socket.flush_much(self.patience()).await?;
            self.put_news(&news);
        }
        self.flush().await
    }

    /// Puts down a new event, unless it was among the stored ones or is for others.
    fn put_news(&mut self, news: &News) {
        // A connection has few; one that was closed meanwhile is not among them.
        let Some((id, open)) = self.subscriptions.iter().find(|(_, open)| open.number == news.subscription) else {
            return;
        };
        let is_stored = news.seq.is_some_and(|seq| seq < open.mark);
        if is_stored || !self.audience().is_among(news.readers.as_deref()) {
            return;
        }
        self.visitor.counters.news.fetch_add(1, Ordering::Relaxed);
        let beginning = id.event_prefix();
        self.visitor.moved(beginning.len() + news.told.rest().len());
        self.socket.outgoing.told(beginning.as_bytes(), &news.told);
    }

    // === writing ===

    /// Puts down a text, in parts.
    fn put(&mut self, parts: &[&[u8]]) {
        self.visitor.moved(parts.iter().map(|part| part.len()).sum());
        self.socket.outgoing.text(parts);
    }

    /// Asks whether the client is there.
    async fn ping(&mut self) -> Step {
        self.socket.outgoing.ping();
        self.flush().await
    }

    async fn flush(&mut self) -> Step {
        Ok(self.socket.flush(self.patience()).await?)
    }

    /// How long the client may take nothing of what is written.
    fn patience(&self) -> Duration {
        self.relay.settings.limits.write_timeout
    }

    async fn send(&mut self, text: String) -> Step {
        self.put(&[text.as_bytes()]);
        self.flush().await
    }

    /// Ends the subscriptions, and says why, as far as WebSocket has words for it.
    async fn end(mut self, ending: &Ending) {
        for id in self.subscriptions.keys().cloned().collect::<Vec<_>>() {
            self.unsubscribe(&id);
        }
        let (code, reason) = match ending {
            Ending::Gone | Ending::Stalled | Ending::Silent => return,
            Ending::Farewell(code) => (*code, ""),
            Ending::Broken(Broken::TooLarge) => (CloseCode::Size, "the message is too large"),
            Ending::Broken(Broken::NotText) => (CloseCode::Invalid, "messages are UTF-8"),
            Ending::Broken(Broken::Malformed) => (CloseCode::Protocol, "no WebSocket"),
            Ending::Slow => (CloseCode::Policy, "the message takes too long"),
            Ending::Crowded => (CloseCode::Again, "the relay is busy: try again later"),
            Ending::Behind => (CloseCode::Policy, "too slow: ask again"),
            Ending::Shutdown => (CloseCode::Away, "the relay ends"),
            Ending::Failed(error) => {
                tracing::error!(%error, "stored events cannot be read");
                (CloseCode::Error, "the relay failed")
            }
        };
        let patience = self.patience();
        self.socket.close(code, reason, patience).await;
    }
}

impl From<Over> for Ending {
    fn from(over: Over) -> Self {
        match over {
            // A connection that breaks is a client that is gone.
            Over::Gone | Over::Io(_) => Self::Gone,
            Over::Broken(broken) => Self::Broken(broken),
            Over::Stalled => Self::Stalled,
            Over::Slow => Self::Slow,
            Over::Crowded => Self::Crowded,
        }
    }
}

/// Words are looked for, not counted or compared.
fn without_search(filters: &[Filter]) -> Result<(), Rejection> {
    if filters.iter().any(|filter| filter.search.is_some()) {
        return Err(Rejection::Unsupported("search is for REQ alone".into()));
    }
    Ok(())
}

fn overdrawn(Overdrawn { wait }: Overdrawn) -> Rejection {
    try_again("your address has used more than its share", wait)
}
