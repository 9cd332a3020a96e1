//! Streams to relays that do not answer an event, or end the connection at it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use birdhouse_events::VerifiedEvent;
use birdhouse_mirror::{Direction, StreamSettings, Streams};
use birdhouse_relay::Settings;
use parking_lot::Mutex;

use crate::app::{App, Pass, assert_same, front, ids_of};
use crate::streams::{fresh, publish, sent, start, status, stream, until, until_live};

/// Interval between events that are published meanwhile.
const PACE: Duration = Duration::from_millis(100);
/// Most of them: two minutes, for the waits between connections double.
const TRIES: usize = 1200;

/// Reaction of the other relay to a message.
type Reaction = dyn Fn(&str) -> Option<Pass> + Send + Sync;

/// A relay that has a stream up to another one, which reacts to some messages in its own way.
struct World {
    ours: App,
    peer: App,
    folder: tempfile::TempDir,
    settings: StreamSettings,
    streams: Streams,
    published: Vec<VerifiedEvent>,
    /// Ids of the events that came to the peer, in their order.
    came: Arc<Mutex<Vec<String>>>,
}

impl World {
    async fn start(outcome_timeout: Duration, reaction: Arc<Reaction>) -> Self {
        let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
        let came = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&came);
        let pass = move |message: &str, _: usize| {
            notes.lock().extend(sent(message));
            reaction(message).unwrap_or(Pass::On)
        };
        let (addr, _) = front(peer.addr, pass).await;
        let settings = StreamSettings { outcome_timeout, ..stream(addr, Direction::Up, "{}") };
        let folder = tempfile::tempdir().unwrap();
        let streams = start(&ours, folder.path(), vec![settings.clone()]);
        until_live(&streams).await;
        Self { ours, peer, folder, settings, streams, published: Vec::new(), came }
    }

    fn publish(&mut self, kind: u16) {
        let event = fresh(kind, self.published.len());
        publish(&self.ours, &event);
        self.published.push(event);
    }

    /// Publishes notes until a condition holds.
    async fn publish_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..TRIES {
            if is_so(self) {
                return;
            }
            self.publish(1);
            tokio::time::sleep(PACE).await;
        }
        panic!("{what}: {:?}", status(&self.streams));
    }

    /// Ids of the events of a kind.
    fn of_kind(&self, kind: u16) -> BTreeSet<String> {
        ids_of(self.published.iter().filter(|event| event.kind.0 == kind))
    }

    /// Ids of the events that were set aside.
    fn set_aside(&self) -> BTreeSet<String> {
        status(&self.streams).set_aside.into_iter().map(|one| one.id).collect()
    }

    /// Proves that the peer has all notes, that events of kind 7 alone were set aside, and that it stays so after a
    /// restart.
    async fn assert_others_went_on(mut self, expected_in_why: &str) {
        until("nothing waits", || status(&self.streams).behind == Some(0)).await;
        assert_same(&self.peer.ids(), &self.of_kind(1));
        assert_eq!(self.set_aside(), self.of_kind(7));
        let now = status(&self.streams);
        assert_eq!(now.tally.set_aside, self.of_kind(7).len() as u64);
        for one in &now.set_aside {
            assert!(one.why.contains(expected_in_why), "{one:?}");
        }
        self.streams.end().await;
        let came = self.came.lock().len();
        self.streams = restart(&self.ours, self.folder.path(), &self.settings);
        until_live(&self.streams).await;
        self.publish(1);
        until("the next one has gone", || self.peer.ids().len() == self.of_kind(1).len()).await;
        assert_eq!((self.came.lock().len(), self.set_aside()), (came + 1, self.of_kind(7)));
    }
}

fn restart(ours: &App, folder: &Path, settings: &StreamSettings) -> Streams {
    start(ours, folder, vec![settings.clone()])
}

fn is_of_kind_7(message: &str) -> bool {
    message.starts_with("[\"EVENT\"") && message.contains("\"kind\":7,")
}

/// As a relay does at a message that is too long for it.
#[tokio::test(flavor = "multi_thread")]
async fn events_at_which_the_peer_hangs_up_are_set_aside_and_the_others_go_on() {
    let hangs_up: Arc<Reaction> = Arc::new(|message| is_of_kind_7(message).then_some(Pass::Cut));
    let mut world = World::start(Duration::from_mins(1), hangs_up).await;
    for number in 0..100 {
        world.publish(if [30, 60].contains(&number) { 7 } else { 1 });
    }
    world.publish_until("both are set aside", |world| world.set_aside().len() == 2).await;
    world.assert_others_went_on("").await;
}

/// Where it were the first one of each connection, none would show that the peer takes others.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_ended_a_connection_is_sent_again_behind_another_one() {
    let (is_away, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (of_peer, counting) = (Arc::clone(&is_away), Arc::clone(&cuts));
    let hangs_up: Arc<Reaction> = Arc::new(move |message| {
        of_peer.fetch_or(is_of_kind_7(message), Ordering::Relaxed);
        let is_cut = of_peer.load(Ordering::Relaxed);
        counting.fetch_add(usize::from(is_cut), Ordering::Relaxed);
        is_cut.then_some(Pass::Cut)
    });
    let mut world = World::start(Duration::from_mins(1), hangs_up).await;
    world.publish(7);
    until("the peer has hung up", || cuts.load(Ordering::Relaxed) == 1).await;
    world.publish(1);
    // The pauses between connections, of 1, 2 and 4 seconds, are longer than that of the event.
    until("the peer was away", || cuts.load(Ordering::Relaxed) >= 3).await;
    is_away.store(false, Ordering::Relaxed);
    let [first, other] = [0, 1].map(|number| world.published[number].id.to_string());
    let attempts = || world.came.lock().iter().filter(|id| **id == first).count();
    until("the event was sent again", || attempts() == 2).await;
    assert_eq!(*world.came.lock(), [first.clone(), other, first]);
}

/// As a relay does that drops what it does not want.
#[tokio::test(flavor = "multi_thread")]
async fn events_that_the_peer_passes_over_are_set_aside_and_the_others_go_on() {
    let drops: Arc<Reaction> =
        Arc::new(|message| is_of_kind_7(message).then(|| Pass::Answered(r#"["NOTICE","no"]"#.into())));
    // Longer than others wait for one that is sent alone, and enough for the peer on a busy machine.
    let mut world = World::start(Duration::from_secs(6), drops).await;
    for number in 0..100 {
        world.publish(if number % 20 == 0 { 7 } else { 1 });
    }
    world.publish_until("all of them are set aside", |world| world.set_aside().len() == 5).await;
    let failures = status(&world.streams).failures;
    assert_eq!(failures, 0, "the connection went on");
    world.assert_others_went_on("does not come").await;
}

/// A peer that is out of order is no fault of an event.
#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_set_aside_while_the_peer_takes_none() {
    let (is_broken, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (of_peer, counting) = (Arc::clone(&is_broken), Arc::clone(&cuts));
    let hangs_up: Arc<Reaction> = Arc::new(move |message| {
        let is_cut = of_peer.load(Ordering::Relaxed) && message.starts_with("[\"EVENT\"");
        counting.fetch_add(usize::from(is_cut), Ordering::Relaxed);
        is_cut.then_some(Pass::Cut)
    });
    let mut world = World::start(Duration::from_mins(1), hangs_up).await;
    for _ in 0..10 {
        world.publish(1);
    }
    until("it has taken some", || world.peer.ids().len() == 10).await;
    is_broken.store(true, Ordering::Relaxed);
    world.publish(1);
    until("it has failed twice", || cuts.load(Ordering::Relaxed) >= 2).await;
    for _ in 0..20 {
        world.publish(1);
    }
    until("it has failed four times", || cuts.load(Ordering::Relaxed) >= 4).await;
    is_broken.store(false, Ordering::Relaxed);
    until("all have gone", || world.peer.ids().len() == 31 && status(&world.streams).behind == Some(0)).await;
    assert_eq!((world.set_aside().len(), status(&world.streams).tally.set_aside), (0, 0));
}
