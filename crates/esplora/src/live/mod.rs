//! One WebSocket of mempool's protocol: wishes of a client, and messages at each change that concerns it, in one task.
//!
//! Nothing is computed for a client that does not read: the next message is made when the last one is written. Changes
//! that a slow client misses are not lost, for each message says what differs from the state that the client knows.

pub(crate) mod event_stream;

mod response;
mod touches;
mod tracked;
mod tracking;
mod wishes;

pub(crate) use self::wishes::Wishes;

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::{Snapshot, Update};
use birdhouse_net::{
    Bounds, CloseCode, FrameWriter, Frames, Incoming, Kind, Message, Next, Patience, Stream, Upgraded, offload,
    write_now,
};
use hyper::StatusCode;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep_until, timeout};

use self::tracking::Tracking;
use self::wishes::Action;
use crate::fees::{NodeUse, RateStep, Rates};
use crate::limits::{LIVE_ANSWER, LIVE_CROWDED, LIVE_MESSAGE_BYTES, LIVE_PACE, LIVE_SILENCE, TRACKED};
use crate::service::{Caller, Service, Way};
use crate::wire::{AnswerMemory, Failure, Params};
use crate::work::Question;

/// Reason for the end of a connection.
enum Ending {
    /// The client is gone, or takes nothing of what is written.
    Gone,
    /// It closed the WebSocket.
    Farewell(CloseCode),
    /// It is sent away, with this status and reason.
    Sent(CloseCode, &'static str),
    /// The server ends.
    Shutdown,
}

type Step = Result<(), Ending>;

struct Connection {
    service: Arc<Service>,
    caller: Caller,
    incoming: Incoming<Stream, Frames>,
    writer: FrameWriter,
    tracking: Tracking,
    /// Time of the next message about what is sent at a pace, if something may have changed.
    due: Option<Instant>,
    /// Time of the last one.
    paced_at: Option<Instant>,
}

/// Serves a client until it goes, is sent away, or the server ends.
pub(crate) async fn converse(service: Arc<Service>, caller: Caller, upgraded: Upgraded<Stream>) {
    let Upgraded { stream, read, compression } = upgraded;
    // Before the first snapshot: nothing happens in between.
    let index = Arc::clone(&service.index);
    let mut updates = index.updates();
    let Ok(at) = service.index.snapshot() else { return };
    let bounds = Bounds {
        message_bytes: LIVE_MESSAGE_BYTES,
        message: service.settings.limits.body_timeout,
        first_message: LIVE_SILENCE,
        idle: LIVE_SILENCE,
    };
    let incoming = Incoming::new(stream, read, Frames::new(compression), bounds, service.partial.clone()).with_tolls();
    let (mut stopped, meter) = (caller.stopped.clone(), Arc::clone(&caller.meter));
    let mut connection = Connection {
        service,
        caller,
        incoming,
        writer: FrameWriter::new(compression),
        tracking: Tracking::new(at),
        due: None,
        paced_at: None,
    };
    let ending = loop {
        let due = connection.due;
        let paced = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let step = tokio::select! {
            biased;
            _ = stopped.changed() => Err(Ending::Shutdown),
            () = meter.disconnected() => Err(Ending::Gone),
            update = index.next_update(&mut updates) => match update {
                Some(update) => connection.update(&update).await,
                None => Err(Ending::Shutdown),
            },
            () = paced => connection.tell().await,
            next = connection.incoming.next() => match next {
                Ok(next) => connection.take(next).await,
                Err(_) => Err(Ending::Gone),
            },
        };
        if let Err(ending) = step {
            break ending;
        }
    };
    connection.end(&ending).await;
    meter.follows(0);
}

fn overdrawn() -> Ending {
    Ending::Sent(CloseCode::Policy, "too many requests: try again later")
}

impl Connection {
    async fn take(&mut self, next: Next) -> Step {
        match next {
            Next::Message => self.hear().await,
            Next::Reply(owed) => {
                self.writer.framed(&owed.bytes);
                self.flush().await?;
                self.pay(owed.work())
            }
            Next::Idle => {
                self.incoming.ask(LIVE_ANSWER);
                self.writer.ping();
                self.flush().await
            }
            Next::Toll => self.pay(Duration::ZERO),
            Next::End(CloseCode::Abnormal) | Next::Unanswered => Err(Ending::Gone),
            Next::End(code) => Err(Ending::Farewell(code)),
            Next::Slow => Err(Ending::Sent(CloseCode::Policy, "the message takes too long")),
            Next::Crowded => Err(busy()),
            Next::Refused(CloseCode::Size) => Err(Ending::Sent(CloseCode::Size, "the message is too large")),
            Next::Refused(code) => Err(Ending::Sent(code, "the message is no text")),
        }
    }

    /// Charges the client for work that was done in no turn, and for what it has sent.
    fn pay(&mut self, work: Duration) -> Step {
        let meter = &self.caller.meter;
        meter.read_beside(self.incoming.take_unpaid());
        meter.charge(work, std::time::Instant::now()).map_err(|_| overdrawn())
    }

    /// Reads a message and answers it, in the client's turn.
    async fn hear(&mut self) -> Step {
        let meter = Arc::clone(&self.caller.meter);
        if meter.check(std::time::Instant::now()).is_err() {
            return Err(overdrawn());
        }
        let wishes = {
            let _turn = self.service.reads.processors.take(&meter).await;
            let Message { kind, bytes } = self.incoming.take();
            meter.received(bytes.len(), 1);
            (kind == Kind::Text).then(|| Wishes::parse(bytes)).flatten()
        };
        let Some(wishes) = wishes else {
            return Err(Ending::Sent(CloseCode::Policy, "messages are JSON objects"));
        };
        let Ok(at) = self.service.index.snapshot() else { return Err(failed()) };
        let has_stats = wishes.action == Some(Action::Init) || wishes.want.is_some_and(|want| want.stats);
        let rates = if has_stats { self.rates(&at).await } else { None };
        let limits = &self.service.settings.limits;
        let max = meter.subscriptions_max(TRACKED, limits.client_tracked, limits.tracked);
        let answer = self
            .ask(&at, |tracking, question, _| Ok(tracking.hear(question, wishes, rates, max)?.into_iter().collect()));
        let messages = answer.await?;
        meter.follows(self.tracking.count());
        self.send(messages).await
    }

    /// Sends the client its part of a change.
    async fn update(&mut self, update: &Update) -> Step {
        let Update { snapshot, touched } = update;
        let is_sent = if self.caller.concerned(|| self.tracking.concerns(snapshot, touched)) {
            let changed = |tracking: &mut Tracking, question: &Question<'_>, at: &Arc<Snapshot>| {
                tracking.changed(question, at, touched)
            };
            let messages = self.ask(snapshot, changed).await?;
            !messages.is_empty() && self.send(messages).await.map(|()| true)?
        } else {
            self.tracking.see(snapshot);
            false
        };
        if self.tracking.is_paced() {
            let now = Instant::now();
            // What came with a change of the client's own is sent at once.
            let due = self.paced_at.filter(|_| !is_sent).map_or(now, |sent| (sent + LIVE_PACE).max(now));
            self.due = Some(self.due.map_or(due, |before| before.min(due)));
        }
        Ok(())
    }

    /// Sends what is sent at a pace.
    async fn tell(&mut self) -> Step {
        (self.due, self.paced_at) = (None, Some(Instant::now()));
        let Ok(at) = self.service.index.snapshot() else { return Err(failed()) };
        let rates = if self.tracking.wants_stats() { self.rates(&at).await } else { None };
        let paced = |tracking: &mut Tracking, question: &Question<'_>, _: &Arc<Snapshot>| {
            Ok(tracking.paced(question, rates)?.into_iter().collect())
        };
        let messages = self.ask(&at, paced).await?;
        self.send(messages).await
    }

    /// Fee rates, for which the node may be asked; `None` if it does not answer.
    async fn rates(&mut self, at: &Snapshot) -> Option<Rates> {
        let (params, room) = (Params::default(), AnswerMemory::new(self.caller.unsent.clone()));
        let service = &*self.service;
        let rates = |node_use| {
            Question { service, at, params: &params, room: &room, way: Way::Open, node_use }.rates(RateStep::Thousandth)
        };
        let found = match offload(|| rates(NodeUse::NotYet)) {
            Err(Failure::Unasked) => {
                let (node_use, _turn) = service.node_turn(&self.caller.meter).await;
                offload(|| rates(node_use))
            }
            found => found,
        };
        found.ok().map(|rates| rates.value)
    }

    /// Makes messages in a turn of the client.
    async fn ask(
        &mut self,
        at: &Arc<Snapshot>,
        answer: impl FnOnce(&mut Tracking, &Question<'_>, &Arc<Snapshot>) -> Result<Vec<String>, Failure>,
    ) -> Result<Vec<String>, Ending> {
        let (params, service, tracking) = (Params::default(), &self.service, &mut self.tracking);
        // Until the messages are made. They count again while they wait to be taken.
        let room = AnswerMemory::new(self.caller.unsent.clone());
        let read = || {
            answer(
                tracking,
                &Question { service, at, params: &params, room: &room, way: Way::Open, node_use: NodeUse::NotYet },
                at,
            )
        };
        let answered = service.offloaded(&self.caller.meter, read).await;
        answered.map_err(|failure| match failure {
            Failure::Refused(StatusCode::SERVICE_UNAVAILABLE, _) => busy(),
            // Logs what concerns the operator.
            failure => {
                failure.into_refusal();
                failed()
            }
        })
    }

    async fn send(&mut self, messages: Vec<String>) -> Step {
        for message in messages {
            self.caller.meter.notified(message.len());
            self.writer.text(&[message.as_bytes()]);
            self.flush().await?;
        }
        Ok(())
    }

    /// Sends what was put down. Nothing else is done for the client until it has taken it.
    async fn flush(&mut self) -> Step {
        let usual = self.service.settings.limits.write_timeout;
        let patience = Patience { usual, crowded: usual.min(LIVE_CROWDED) };
        // Until then the snapshot of what it was sent before is kept.
        let within = self.service.settings.limits.download_timeout;
        let writing = write_now(self.incoming.stream(), self.writer.bytes(), patience, &self.caller.unsent);
        let written = timeout(within, writing).await;
        self.writer.clear();
        written.map_err(Error::from).flatten().map_err(|error| {
            if error.kind() == ErrorKind::TimedOut {
                tracing::debug!("the client does not read");
            }
            Ending::Gone
        })
    }

    /// Closes the WebSocket with a status that says why, as far as there is one.
    async fn end(&mut self, ending: &Ending) {
        let (code, reason) = match ending {
            Ending::Gone => return,
            Ending::Farewell(code) => (*code, ""),
            Ending::Sent(code, reason) => (*code, *reason),
            Ending::Shutdown => (CloseCode::Away, "the server ends"),
        };
        self.incoming.release_all();
        self.writer.close(code, reason);
        if self.flush().await.is_ok() && self.incoming.stream().shutdown().await.is_ok() {
            self.incoming.farewell(&self.caller.meter).await;
        }
    }
}

fn busy() -> Ending {
    Ending::Sent(CloseCode::Again, "the server is busy: try again later")
}

fn failed() -> Ending {
    Ending::Sent(CloseCode::Error, "the index cannot be read: try again later")
}
