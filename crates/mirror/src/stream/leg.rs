//! One URL of a stream: its places, its connections to the peer, and its state.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use birdhouse_dial::{Guard, Target};
use birdhouse_events::{EventId, Seq};
use birdhouse_relay::{Exchange, Plugin, Relay};
use parking_lot::Mutex;

use super::cursors::{Anew, Cursors, Key, SetAside};
use super::settings::{StreamSettings, shown};
use super::status::{Changing, StreamState, StreamStatus};
use super::unanswered::Unanswered;
use crate::came::Came;
use crate::clock::WallClock;
use crate::job::{Direction, Purpose};
use crate::limits::{OVERLAP_S, WRAPPED_OVERLAP_S};
use crate::peer::Peer;
use crate::session::sync;
use crate::tally::SharedTally;

/// Work that brings a stream up to now.
pub(super) type CatchUp = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// One URL of a stream.
pub(super) struct Leg {
    pub(super) relay: Arc<Relay>,
    pub(super) guard: Arc<Guard>,
    pub(super) clock: WallClock,
    pub(super) settings: Arc<StreamSettings>,
    pub(super) target: Target,
    pub(super) key: Key,
    pub(super) plugin: Option<Arc<Plugin>>,
    pub(super) came: Arc<Came>,
    pub(super) cursors: Arc<Cursors>,
    pub(super) tally: SharedTally,
    pub(super) changing: Mutex<Changing>,
    /// Events that the peer has not answered, over all connections.
    pub(super) unanswered: Mutex<Unanswered>,
}

impl Leg {
    /// Finds its places, or begins: without a beginning in the filter, an hour ago and with the next event.
    pub(super) fn begin(&self) {
        let job = &self.settings.job;
        let anew = if job.has_beginning() { Anew::WithAnotherFilter } else { Anew::Never };
        let filter = serde_json::to_string(&job.wire()).expect("a filter is JSON");
        let cursor = self.cursors.begin(&self.key, &filter, anew);
        let direction = self.settings.direction();
        if direction.is_down() && cursor.down.is_none() && !job.has_beginning() {
            self.complete_until(self.clock.seconds());
        }
        if let Ok(end) = self.relay.published_end()
            && direction.is_up()
        {
            let first = if job.has_beginning() { Seq(0) } else { end };
            // After a restored backup the number may be one that is not given yet.
            self.cursors.set_up(&self.key, cursor.up.map_or(first, Seq).min(end));
        }
    }

    /// Connects to the peer.
    pub(super) async fn connect(&self) -> Result<(Peer, Arc<Exchange>), String> {
        let (target, keys) = (self.target.clone(), self.settings.keys.clone());
        let peer = Peer::connect(&self.guard, target, keys, self.clock.clone()).await?;
        let name = format!("stream {}", self.key.name);
        let exchange = Exchange::enter(&self.relay, &name, peer.address.ip())?;
        let exchange = exchange.streaming(&shown(&self.target), self.plugin.clone());
        Ok((peer.noting(Some(Arc::clone(&self.came))), Arc::new(exchange)))
    }

    /// Returns the work that brings what was missed, on a connection of its own.
    pub(super) fn catch_up(self: &Arc<Self>) -> CatchUp {
        let leg = Arc::clone(self);
        Box::pin(async move {
            let (mut peer, exchange) = leg.connect().await?;
            let overlap_s = if leg.settings.job.wants_gift_wraps() { WRAPPED_OVERLAP_S } else { OVERLAP_S };
            let since = leg.place_down().map_or(0, |second| second.saturating_sub(overlap_s));
            let mut job = leg.settings.job.clone().since(since);
            job.purpose = Purpose::Transfer(Direction::Down);
            sync(&exchange, &mut peer, &job, &leg.tally, None).await
        })
    }

    /// Returns the last complete moment, now at the latest; `None` before the first. A later one was noted by a clock
    /// that was ahead.
    fn place_down(&self) -> Option<u64> {
        let (stream, place, now) = (&self.key.name, self.cursors.get(&self.key).down?, self.clock.seconds());
        if place > now {
            let ahead_s = place - now;
            tracing::warn!(stream, ahead_s, "the clock was ahead; synchronize the time in which it was");
        }
        Some(place.min(now))
    }

    /// Notes that all events until a second have come.
    pub(super) fn complete_until(&self, second: u64) {
        self.cursors.set_down(&self.key, second, self.clock.seconds());
    }

    /// Notes the end of a connection.
    pub(super) fn failed(&self, why: String) {
        let mut changing = self.changing.lock();
        changing.failures += 1;
        changing.why = Some(why);
        changing.enter(StreamState::Waiting, self.clock.seconds());
    }

    pub(super) fn enter(&self, state: StreamState) {
        self.changing.lock().enter(state, self.clock.seconds());
    }

    /// Gives an event up that the peer does not answer.
    pub(super) fn set_aside(&self, id: &EventId, why: &str) {
        let (stream, url, id) = (&self.key.name, &self.key.url, id.to_string());
        tracing::warn!(stream, url, id, why, "a stream has set an event aside");
        self.tally.change(|tally| tally.set_aside += 1);
        self.cursors.set_aside(&self.key, SetAside { id, why: why.to_owned() });
    }

    /// Returns its state.
    pub(super) fn status(&self) -> StreamStatus {
        let Changing { state, since, failures, why, last_refusal } = self.changing.lock().clone();
        let (cursor, direction) = (self.cursors.get(&self.key), self.settings.direction());
        let end = self.relay.published_end().ok();
        StreamStatus {
            name: self.key.name.clone(),
            url: shown(&self.target),
            direction,
            state,
            since,
            failures,
            why,
            last_refusal,
            complete_until: cursor.down.filter(|_| direction.is_down()),
            set_aside: cursor.set_aside,
            behind: cursor.up.zip(end).filter(|_| direction.is_up()).map(|(up, end)| end.0.saturating_sub(up)),
            tally: self.tally.now(),
        }
    }
}
