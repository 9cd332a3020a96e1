//! One connection of a stream, until it fails.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dial::relay::{Answer, Received};
use birdhouse_events::Seq;
use birdhouse_relay::{Exchange, Relay};
use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::backoff::Backoff;
use super::down::{Down, Identity, LIVE, Next};
use super::leg::Leg;
use super::status::StreamState;
use super::up::{Cause, Up};
use crate::clock::elapsed;
use crate::intake::{Intake, Progress};
use crate::limits::{
    DRAINED_MAX, PING_INTERVAL, SILENCE_TIMEOUT, STREAM_SILENCE_TIMEOUT, UNASKED_MAX, UNREAD_ROUNDS_MAX,
};
use crate::page::dated;
use crate::peer::Peer;
use crate::words::{is_unknown, wants_pause};

/// Time between two looks at what waits for a time.
const TICK: Duration = Duration::from_secs(1);

/// A connection.
pub(super) struct Conversation {
    leg: Arc<Leg>,
    exchange: Arc<Exchange>,
    peer: Peer,
    down: Option<Down>,
    up: Option<Up>,
    missed: Missed,
    is_proved: bool,
    /// Time since which the peer owes an answer to the proof of our identity.
    proving: Option<Duration>,
    /// Time of the last message or pong.
    heard: Duration,
    pinged: Duration,
    /// Events that were not asked for.
    unasked: usize,
    /// The first message that was not looked at when others had their turn.
    unread: Option<Received>,
    /// Times in a row that there was one.
    unread_rounds: usize,
}

/// Work on what was missed before the live subscription.
struct Missed {
    /// None or one, in a task of its own: this one may wait for a turn to read that the work was given.
    work: JoinSet<Result<(), String>>,
    /// Second since 1970 at which the live subscription was asked for: nothing that is newer is missed.
    asked: u64,
    backoff: Backoff,
    /// Time of the next attempt.
    again: Option<Duration>,
}

/// The end of a connection, or of an attempt to open one.
pub(super) struct Ended {
    pub(super) why: String,
    pub(super) cause: Cause,
}

/// The event that ended a wait.
enum Woken {
    Heard(Received),
    CaughtUp(Result<(), String>),
    Stored,
    /// There is an event to send, or it is time to look.
    Look,
}

impl Ended {
    pub(super) fn by_peer(why: String) -> Self {
        Self { why, cause: Cause::Peer }
    }
}

impl Conversation {
    pub(super) fn new(leg: Arc<Leg>, peer: Peer, exchange: Arc<Exchange>) -> Self {
        let (direction, now) = (leg.settings.direction(), elapsed());
        let down = direction.is_down().then(|| {
            let (wanted, came) = (leg.settings.job.wanted(), Some(Arc::clone(&leg.came)));
            Down::new(Intake::start(Arc::clone(&exchange), wanted, leg.tally.clone(), came, leg.clock.clone()), now)
        });
        let up = direction.is_up().then(|| Up::new(Arc::clone(&leg), Arc::clone(&exchange)));
        let missed =
            Missed { work: JoinSet::new(), asked: leg.clock.seconds(), backoff: Backoff::default(), again: None };
        Self {
            leg,
            exchange,
            peer,
            down,
            up,
            missed,
            is_proved: false,
            proving: None,
            heard: now,
            pinged: now,
            unasked: 0,
            unread: None,
            unread_rounds: 0,
        }
    }

    /// Passes events on until the connection fails.
    ///
    /// # Errors
    /// The reason.
    pub(super) async fn run(mut self) -> Result<(), Ended> {
        let ended = self.work().await;
        let mut cause = Cause::Peer;
        if let (Some(up), Err(why)) = (&mut self.up, &ended) {
            cause = up.ended(why, elapsed());
            self.leg.cursors.set_up(&self.leg.key, up.decided_below());
        }
        if let Some(Down { intake, is_complete, .. }) = self.down.take() {
            let progress = intake.progress.clone();
            intake.finish().await.map_err(Ended::by_peer)?;
            let progress = *progress.borrow();
            if is_complete && progress.failed == 0 {
                self.leg.complete_until(progress.newest);
            }
        }
        ended.map_err(|why| Ended { why, cause })
    }

    async fn work(&mut self) -> Result<(), String> {
        self.ask().await?;
        if self.down.is_none() {
            self.is_well(StreamState::Live);
        }
        loop {
            self.send().await?;
            match self.wait().await? {
                Woken::Heard(received) => self.hear_all(received).await?,
                Woken::CaughtUp(ended) => self.caught_up(ended),
                Woken::Stored => self.stored()?,
                Woken::Look => {}
            }
            self.look().await?;
        }
    }

    async fn wait(&mut self) -> Result<Woken, String> {
        let Self { exchange, peer, missed, down, up, leg, unread, .. } = self;
        let stored = async {
            match down {
                Some(down) => down.intake.progress.changed().await.map_err(|_| "storing the events failed".to_owned()),
                None => pending().await,
            }
        };
        let worked = async {
            match missed.work.join_next().await {
                Some(ended) => ended.unwrap_or_else(|_| Err("comparing failed; see the log".to_owned())),
                None => pending().await,
            }
        };
        let sends = !peer.is_proving();
        let heard = async {
            match unread.take() {
                Some(received) => Ok(received),
                None => peer.next().await,
            }
        };
        // Nothing is sent before the peer has answered a proof of identity.
        let next = up.as_ref().filter(|_| sends).and_then(Up::waits_for);
        tokio::select! {
            () = exchange.disconnected() => Err("the operator closed this connection".to_owned()),
            received = heard => received.map(Woken::Heard),
            ended = worked => Ok(Woken::CaughtUp(ended)),
            stored = stored => stored.map(|()| Woken::Stored),
            published = published(&leg.relay, next) => published.map(|()| Woken::Look),
            () = sleep(TICK) => Ok(Woken::Look),
        }
    }

    // === what is asked of the peer ===

    async fn ask(&mut self) -> Result<(), String> {
        let Some(down) = &mut self.down else { return Ok(()) };
        // What comes between a refusal and the new subscription is caught up once that is confirmed.
        down.is_complete = false;
        (self.missed.work, self.missed.again) = (JoinSet::new(), None);
        self.missed.asked = self.leg.clock.seconds();
        let message = down.ask(&self.leg.settings.job, elapsed());
        let bytes = self.peer.send(&message).await?;
        self.exchange.sent(bytes);
        self.leg.tally.change(|tally| tally.bytes_out += bytes as u64);
        Ok(())
    }

    /// Sends what may be sent, once everything is read that has come: the next events may be among it.
    async fn send(&mut self) -> Result<(), String> {
        let Some(up) = &mut self.up else { return Ok(()) };
        if self.unread.is_some() && !self.unread_rounds.is_multiple_of(UNREAD_ROUNDS_MAX) {
            return Ok(());
        }
        let end = self.leg.relay.published_end()?;
        up.send(&self.peer, end, elapsed()).await?;
        self.leg.cursors.set_up(&self.leg.key, up.decided_below());
        Ok(())
    }

    /// Does what waits for a time.
    async fn look(&mut self) -> Result<(), String> {
        let now = elapsed();
        if now > self.heard + STREAM_SILENCE_TIMEOUT {
            return Err(format!("{} is silent for {} s", self.peer.name(), STREAM_SILENCE_TIMEOUT.as_secs()));
        }
        if now > self.pinged + PING_INTERVAL {
            self.pinged = now;
            self.peer.ping().await?;
        }
        self.proving = if self.peer.is_proving() { self.proving.or(Some(now)) } else { None };
        if self.proving.is_some_and(|since| now > since + SILENCE_TIMEOUT) {
            return Err(format!("{} does not answer the proof of our identity", self.peer.name()));
        }
        if let Some(up) = &mut self.up {
            up.check_time(&self.peer, now).await?;
            up.leave_out_what_came();
            self.leg.cursors.set_up(&self.leg.key, up.decided_below());
        }
        if let Some(down) = &self.down {
            down.check_time(now)?;
        }
        if self.missed.again.is_some_and(|again| now >= again) {
            self.missed.again = None;
            self.missed.work.spawn(self.leg.catch_up());
        }
        Ok(())
    }

    // === what the peer says ===

    /// Takes everything that has come, then has it stored.
    async fn hear_all(&mut self, first: Received) -> Result<(), String> {
        let (mut next, mut count) = (Some(first), 0);
        while let Some(received) = next.take_if(|_| count < DRAINED_MAX) {
            self.heard = elapsed();
            if let Received::Message(text) = received {
                self.hear(&text).await?;
            }
            count += 1;
            next = self.peer.next().now_or_never().transpose()?;
        }
        self.unread_rounds = if next.is_some() { self.unread_rounds + 1 } else { 0 };
        self.unread = next;
        if let Some(down) = &mut self.down {
            down.intake.flush().await;
        }
        Ok(())
    }

    async fn hear(&mut self, text: &str) -> Result<(), String> {
        self.exchange.received(text.len());
        self.leg.tally.change(|tally| tally.bytes_in += text.len() as u64);
        let Some(answer) = Answer::parse(text) else { return Ok(()) };
        if let Some(proved) = self.peer.proved(&answer) {
            proved?;
            self.is_proved = true;
            return if self.down.as_ref().is_some_and(Down::waits_for_proof) { self.ask().await } else { Ok(()) };
        }
        match answer {
            Answer::Auth(challenge) => self.peer.prove(challenge).await,
            Answer::Event { subscription, event } => self.take(&subscription, event.get()).await,
            Answer::Eose(name) => self.complete(&name).await,
            Answer::Closed { subscription, reason } => self.closed(&subscription, &reason).await,
            Answer::Ok { id, accepted, reason } => {
                let (identity, up) = (self.identity(), &mut self.up);
                let Some(up) = up else { return Ok(()) };
                if let Some(reason) = up.decided(&id, accepted, &reason, identity, elapsed())? {
                    self.leg.changing.lock().last_refusal = Some(reason);
                }
                Ok(())
            }
            Answer::Compared { session, message } => match &mut self.up {
                Some(up) => up.compared(&self.peer, &session, &message, elapsed()).await,
                None => Ok(()),
            },
            Answer::CompareRefused { session, .. } => match &mut self.up {
                Some(up) => up.compare_refused(&self.peer, Some(&session), elapsed()).await,
                None => Ok(()),
            },
            Answer::Notice(text) => self.noticed(&text.to_ascii_lowercase()).await,
        }
    }

    fn identity(&self) -> Identity {
        match (self.peer.has_keys(), self.is_proved) {
            (false, _) => Identity::None,
            (true, false) => Identity::Unproved,
            (true, true) => Identity::Proved,
        }
    }

    async fn noticed(&mut self, lowercase: &str) -> Result<(), String> {
        let Some(up) = &mut self.up else { return Ok(()) };
        if wants_pause(lowercase) {
            up.slow_down(elapsed());
        } else if is_unknown(lowercase) {
            up.compare_refused(&self.peer, None, elapsed()).await?;
        }
        Ok(())
    }

    async fn take(&mut self, subscription: &str, json: &str) -> Result<(), String> {
        if let Some(down) = self.down.as_mut().filter(|_| subscription == LIVE) {
            self.leg.tally.change(|tally| tally.received += 1);
            down.take(json).await;
            return Ok(());
        }
        if let Some(up) = &mut self.up
            && dated(json).is_some_and(|dated| up.has(subscription, dated.id))
        {
            return Ok(());
        }
        self.unasked += 1;
        if self.unasked > UNASKED_MAX {
            return Err(format!("{} sends events that it was not asked for", self.peer.name()));
        }
        Ok(())
    }

    /// Takes the end of the stored events of a subscription.
    async fn complete(&mut self, subscription: &str) -> Result<(), String> {
        if subscription == LIVE {
            self.confirmed();
            return Ok(());
        }
        match &mut self.up {
            Some(up) => up.complete(&self.peer, subscription).await,
            None => Ok(()),
        }
    }

    async fn closed(&mut self, subscription: &str, reason: &str) -> Result<(), String> {
        let identity = self.identity();
        if subscription != LIVE {
            return match &mut self.up {
                Some(up) => up.closed(&self.peer, subscription, reason, identity, elapsed()).await,
                None => Ok(()),
            };
        }
        let Some(down) = &mut self.down else { return Ok(()) };
        match down.closed(reason, identity, elapsed())? {
            Next::AskAgain => self.ask().await,
            Next::Wait => Ok(()),
        }
    }

    // === catching up ===

    fn confirmed(&mut self) {
        if self.down.as_mut().is_some_and(Down::confirmed) && self.missed.work.is_empty() {
            self.missed.work.spawn(self.leg.catch_up());
            self.is_well(StreamState::CatchingUp);
        }
    }

    fn caught_up(&mut self, ended: Result<(), String>) {
        match ended {
            Ok(()) => {
                if let Some(down) = &mut self.down {
                    down.is_complete = true;
                    self.leg.complete_until(self.missed.asked);
                }
                self.is_well(StreamState::Live);
            }
            Err(why) => {
                let pause = self.missed.backoff.next(getrandom::u32().unwrap_or_default());
                tracing::warn!(stream = self.leg.key.name, why, again_in_ms = pause.as_millis(), "failed to catch up");
                self.missed.again = Some(elapsed() + pause);
                self.leg.changing.lock().why = Some(format!("failed to catch up: {why}"));
            }
        }
    }

    fn stored(&mut self) -> Result<(), String> {
        let Some(down) = &mut self.down else { return Ok(()) };
        let progress: Progress = *down.intake.progress.borrow_and_update();
        down.check(progress)?;
        if down.is_complete {
            self.leg.complete_until(progress.newest);
        }
        Ok(())
    }

    /// Notes a state without a failure.
    fn is_well(&self, state: StreamState) {
        let mut changing = self.leg.changing.lock();
        if changing.why.take().is_some() {
            tracing::info!(stream = self.leg.key.name, "a stream works again");
        }
        changing.enter(state, self.leg.clock.seconds());
    }
}

/// Waits for an event to send from this number on; for ever without one.
async fn published(relay: &Relay, next: Option<Seq>) -> Result<(), String> {
    match next {
        Some(next) => relay.published_beyond(next).await,
        None => pending().await,
    }
}
