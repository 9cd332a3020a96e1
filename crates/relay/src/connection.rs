//! One client: its messages, its stored events and its news, in one task.
//!
//! Nothing is computed for a client that does not read: a page of stored events is made when the one before it was taken, so
//! a subscription of any size holds no more than a page. Live events come after EOSE, and each event once: what is older than
//! the subscription's mark is stored, what is newer is news.

mod syncing;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use birdhouse_events::{Audience, Event, Filter, Packed, Rejection, Seq, Timestamp};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::block_in_place;
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::{self, Message, protocol::CloseFrame, protocol::frame::coding::CloseCode};

use crate::http::{Client, WebSocket};
use crate::hub::{Ear, News};
use crate::identity::Identity;
use crate::ingest::Submission;
use crate::limits::{COUNT_ROWS, PAGE_ROWS, PrivateMessages, QUERIES_RUNNING};
use crate::message::{self, ClientMessage, SubscriptionId, refused};
use crate::relay::{Relay, now};
use crate::stored::{Next, Stored};
use crate::sync::Sessions;
use crate::tally::Tally;

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The client is gone, or said farewell.
    Gone,
    /// It broke the rules of WebSocket, or its message is too large.
    Broken(tungstenite::Error),
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
    identity: Identity,
    ear: Ear,
    answers: mpsc::Sender<String>,
    in_flight: usize,
    subscriptions: HashMap<SubscriptionId, Subscription>,
    next_number: u64,
    running: VecDeque<Running>,
    syncs: Sessions,
}

/// The message that carries a stored event; none for one that is damaged on the disk.
fn event_message(prefix: &str, packed: Packed<'_>) -> Option<String> {
    let mut message = prefix.as_bytes().to_vec();
    packed.write_json(&mut message)?;
    message.push(b']');
    String::from_utf8(message).ok()
}

/// Serves a client until it goes, or is sent away. The random number is its challenge (NIP-42).
pub(crate) async fn run(relay: &Relay, client: Client, random: u128, mut shutdown: watch::Receiver<bool>) -> Ending {
    let limits = &relay.settings.limits;
    let (answers, mut answered) = mpsc::channel(limits.events_in_flight);
    let mut connection = Connection {
        relay,
        socket: client.socket,
        identity: Identity::new(random, relay.events.urls(), &client.host),
        ear: relay.hub.enter(limits.untold),
        answers,
        in_flight: 0,
        subscriptions: HashMap::new(),
        next_number: 0,
        running: VecDeque::new(),
        syncs: Sessions::new(Arc::clone(&relay.sync_room)),
    };
    let mut silence = std::pin::pin!(sleep(limits.silence));
    let mut is_asked = false;
    let greeting = message::auth(connection.identity.challenge());
    let mut step = connection.send(greeting).await;
    let ending = loop {
        if let Err(ending) = step {
            break ending;
        }
        let has_room = connection.in_flight < limits.events_in_flight && connection.running.len() < QUERIES_RUNNING;
        let sync_silence = connection.sync_silence();
        step = tokio::select! {
            biased;
            _ = shutdown.changed() => Err(Ending::Shutdown),
            () = connection.ear.behind.notified() => Err(Ending::Behind),
            Some(answer) = answered.recv() => {
                connection.in_flight -= 1;
                connection.send(answer).await
            }
            // After all that is stored.
            Some(news) = connection.ear.news.recv(), if connection.running.is_empty() => connection.tell(news).await,
            message = connection.socket.next(), if has_room => match message {
                Some(Ok(message)) => {
                    silence.set(sleep(limits.silence));
                    is_asked = false;
                    connection.hear(message).await
                }
                Some(Err(error)) => Err(Ending::Broken(error)),
                None => Err(Ending::Gone),
            },
            // Only a client that would be heard can be silent.
            () = &mut silence, if has_room => {
                silence.set(sleep(limits.pong));
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
            Message::Close(_) => return Err(Ending::Gone),
            Message::Binary(_) => return self.send("[\"NOTICE\",\"invalid: messages are text\"]".to_owned()).await,
            // Pings are answered by the library, with the next write.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return self.flush().await,
        };
        match ClientMessage::parse(&text, &self.relay.settings.limits) {
            Ok(ClientMessage::Event(event)) => self.take_in(event).await,
            Ok(ClientMessage::Req(id, filters)) => self.subscribe(id, filters.into()).await,
            Ok(ClientMessage::Count(id, filters)) => {
                if let Err(rejection) = self.may_ask(&filters).and_then(|()| without_search(&filters)) {
                    return self.send(id.closed(&rejection)).await;
                }
                let tally = Tally::new(&filters);
                let stored = Stored::new(filters.into(), self.relay.events.end());
                self.running.push_back(Running::Count(id, stored, tally));
                Ok(())
            }
            Ok(ClientMessage::Close(id)) => {
                self.unsubscribe(&id);
                Ok(())
            }
            Ok(ClientMessage::Auth(event)) => self.recognise(event).await,
            Ok(ClientMessage::Sync(message)) => self.hear_sync(message).await,
            Err(refusal) => self.send(refusal.answer()).await,
        }
    }

    /// Who is asking.
    fn audience(&self) -> Audience<'_> {
        match self.relay.settings.limits.private_messages {
            PrivateMessages::ForTheirPeople => Audience::People(self.identity.pubkeys()),
            PrivateMessages::ForEverybody => Audience::Operator,
        }
    }

    /// Whether something of what is asked for could be shown; else the client must prove who it is before.
    fn may_ask(&self, filters: &[Filter]) -> Result<(), Rejection> {
        if !self.relay.events.has_search() && filters.iter().any(|filter| filter.search.is_some()) {
            return Err(Rejection::Unsupported("there is no search here".into()));
        }
        match self.audience() {
            Audience::People([]) if filters.iter().all(Filter::is_private) => {
                Err(Rejection::AuthRequired("private messages are shown to their author and recipients".into()))
            }
            _ => Ok(()),
        }
    }

    /// Takes the proof of who the client is. The event goes nowhere else.
    async fn recognise(&mut self, event: Event) -> Step {
        let id = event.id;
        let answer = match block_in_place(|| self.identity.prove(event, Timestamp(now().into()))) {
            Ok(()) => message::accepted(&id),
            Err(rejection) => refused(&id, &rejection),
        };
        self.send(answer).await
    }

    /// Gives an event that is taken to the writer.
    async fn take_in(&mut self, event: Event) -> Step {
        let id = event.id;
        // What can be refused without a look at the signature, which costs most, is refused first.
        let admitted =
            self.relay.settings.limits.admission.check(&event, Timestamp(now().into()), self.identity.pubkeys());
        let event = match admitted.and_then(|()| block_in_place(|| event.verify())) {
            Ok(event) => event,
            Err(rejection) => return self.send(refused(&id, &rejection)).await,
        };
        let submission = Submission { event, answer: self.answers.clone() };
        // The writer lives as long as the relay.
        if self.relay.ingest.submit(submission).await {
            self.in_flight += 1;
        }
        Ok(())
    }

    async fn subscribe(&mut self, id: SubscriptionId, filters: Arc<[Filter]>) -> Step {
        self.unsubscribe(&id);
        if let Err(rejection) = self.may_ask(&filters) {
            return self.send(id.closed(&rejection)).await;
        }
        if self.subscriptions.len() >= self.relay.settings.limits.subscriptions {
            return self.send(id.closed(&Rejection::RateLimited("too many subscriptions".into()))).await;
        }
        let number = self.next_number;
        self.next_number += 1;
        // First the ear, then the mark: what comes between is stored, and told in vain.
        self.relay.hub.subscribe((self.ear.id, number), Arc::clone(&filters));
        let mark = self.relay.events.end();
        self.subscriptions.insert(id.clone(), Subscription { number, mark });
        self.running.push_back(Running::Req(id, number, Stored::new(filters, mark)));
        Ok(())
    }

    fn unsubscribe(&mut self, id: &SubscriptionId) {
        if let Some(Subscription { number, .. }) = self.subscriptions.remove(id) {
            self.relay.hub.unsubscribe((self.ear.id, number));
        }
    }

    /// Makes the next page of the query that waits longest.
    async fn go_on(&mut self) -> Step {
        let events = &self.relay.events;
        let running = self.running.pop_front();
        let asked = (now(), self.audience());
        match running {
            None => Ok(()),
            Some(Running::Req(id, number, mut stored)) => {
                if self.subscriptions.get(&id).is_none_or(|open| open.number != number) {
                    return Ok(()); // closed meanwhile
                }
                let prefix = id.event_prefix();
                let mut page = Vec::new();
                let next = block_in_place(|| {
                    stored.page(events, asked, PAGE_ROWS, &mut |packed| page.push(event_message(&prefix, packed)))
                });
                let next = next.map_err(Ending::Failed)?;
                for message in page.into_iter().flatten() {
                    self.feed(message).await?;
                }
                match next {
                    Next::Page => {
                        self.running.push_back(Running::Req(id, number, stored));
                        self.flush().await
                    }
                    Next::End(hint) => self.send(id.eose(hint)).await,
                    Next::Refused(rejection) => {
                        self.unsubscribe(&id);
                        self.send(id.closed(&rejection)).await
                    }
                }
            }
            Some(Running::Sync(id, number)) => self.go_on_syncing(id, number).await,
            Some(Running::Count(id, mut stored, mut tally)) => {
                let next = block_in_place(|| stored.page(events, asked, COUNT_ROWS, &mut |packed| tally.add(packed)));
                if next.map_err(Ending::Failed)? == Next::Page {
                    self.running.push_back(Running::Count(id, stored, tally));
                    return Ok(());
                }
                self.send(id.count(&tally)).await
            }
        }
    }

    /// Tells of a new event, unless it was among the stored ones or is for others.
    async fn tell(&mut self, news: News) -> Step {
        // A connection has few; one that was closed meanwhile is not among them.
        let Some((id, open)) = self.subscriptions.iter().find(|(_, open)| open.number == news.subscription) else {
            return Ok(());
        };
        let is_stored = news.seq.is_some_and(|seq| seq < open.mark);
        if is_stored || !self.audience().is_among(news.readers.as_deref()) {
            return Ok(());
        }
        let message = id.event_prefix() + &news.json + "]";
        self.send(message).await
    }

    // === writing ===

    async fn feed(&mut self, text: String) -> Step {
        let stalled = self.relay.settings.limits.stalled_write;
        written(timeout(stalled, self.socket.feed(Message::text(text))).await)
    }

    /// Asks whether the client is there.
    async fn ping(&mut self) -> Step {
        let stalled = self.relay.settings.limits.stalled_write;
        written(timeout(stalled, self.socket.send(Message::Ping(Bytes::new()))).await)
    }

    async fn flush(&mut self) -> Step {
        written(timeout(self.relay.settings.limits.stalled_write, self.socket.flush()).await)
    }

    async fn send(&mut self, text: String) -> Step {
        self.feed(text).await?;
        self.flush().await
    }

    /// Ends the subscriptions, and says why, as far as WebSocket has words for it.
    async fn end(mut self, ending: &Ending) {
        for id in self.subscriptions.keys().cloned().collect::<Vec<_>>() {
            self.unsubscribe(&id);
        }
        let (code, reason) = match ending {
            Ending::Gone | Ending::Stalled | Ending::Silent => return,
            Ending::Broken(tungstenite::Error::Capacity(_)) => (CloseCode::Size, "the message is too large"),
            Ending::Broken(tungstenite::Error::Utf8(_)) => (CloseCode::Invalid, "messages are UTF-8"),
            Ending::Broken(_) => (CloseCode::Protocol, "no WebSocket"),
            Ending::Behind => (CloseCode::Policy, "too slow: ask again"),
            Ending::Shutdown => (CloseCode::Away, "the relay ends"),
            Ending::Failed(error) => {
                tracing::error!(%error, "stored events cannot be read");
                (CloseCode::Error, "the relay failed")
            }
        };
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = timeout(self.relay.settings.limits.stalled_write, self.socket.close(Some(frame))).await;
    }
}

/// Words are looked for, not counted or compared.
fn without_search(filters: &[Filter]) -> Result<(), Rejection> {
    if filters.iter().any(|filter| filter.search.is_some()) {
        return Err(Rejection::Unsupported("search is for REQ alone".into()));
    }
    Ok(())
}

fn written(written: Result<Result<(), tungstenite::Error>, Elapsed>) -> Step {
    written.map_err(|_| Ending::Stalled)?.map_err(Ending::Broken)
}
