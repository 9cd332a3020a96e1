//! A wall clock that jumps: no connection ends by it, and nothing is delayed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use birdhouse_mirror::{Direction, Purpose, WallClock};
use birdhouse_relay::Settings;

use crate::app::{App, Pass, assert_same, event, front, ids_of};
use crate::old_peer::without_negentropy;
use crate::streams::{fresh, now, publish, sent, start_by, status, stream, until, until_live};

const DAY_S: u64 = 24 * 3600;

/// A clock that stands at a time, which a test sets.
fn settable() -> (WallClock, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(now()));
    let of_clock = Arc::clone(&time);
    (WallClock::new(move || of_clock.load(Ordering::Relaxed)), time)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_forward_ends_no_stream() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let ((clock, time), folder) = (settable(), tempfile::tempdir().unwrap());
    let streams = start_by(clock, &ours, folder.path(), vec![stream(peer.addr, Direction::Both, "{}")]);
    until_live(&streams).await;
    for _ in 0..3 {
        time.fetch_add(DAY_S, Ordering::Relaxed);
        // A stream checks its times every second.
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
    let (own, theirs) = (fresh(1, 1), fresh(1, 2));
    publish(&ours, &own);
    publish(&peer, &theirs);
    let both = ids_of([&own, &theirs]);
    until("both have both", || ours.ids() == both && peer.ids() == both).await;
    assert_eq!(status(&streams).failures, 0, "{:?}", status(&streams).why);
}

/// The peer cannot keep the event at first, and gets it again seconds later.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_delays_no_second_attempt() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let ((clock, time), folder) = (settable(), tempfile::tempdir().unwrap());
    let has_failed = Arc::new(AtomicBool::new(false));
    let failing = Arc::clone(&has_failed);
    let fails_once = move |message: &str, _: usize| match sent(message) {
        Some(id) if !failing.swap(true, Ordering::Relaxed) => {
            Pass::Answered(format!(r#"["OK","{id}",false,"error: the disk is full"]"#))
        }
        _ => Pass::On,
    };
    let (addr, _) = front(peer.addr, fails_once).await;
    let streams = start_by(clock, &ours, folder.path(), vec![stream(addr, Direction::Up, "{}")]);
    until_live(&streams).await;
    let event = fresh(1, 1);
    publish(&ours, &event);
    until("the peer has failed", || status(&streams).last_refusal.is_some()).await;
    time.fetch_sub(DAY_S, Ordering::Relaxed);
    until("the event has gone", || status(&streams).behind == Some(0)).await;
    assert_same(&peer.ids(), &ids_of([&event]));
    assert_eq!(status(&streams).failures, 0);
}

/// Each look at the clock finds it a day later, or earlier.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_ends_no_synchronization() {
    let (own, theirs) = (event(1, 1, 1, &[]), event(2, 1, 2, &[]));
    for jump in [DAY_S.cast_signed(), -DAY_S.cast_signed()] {
        let ours = App::start(Settings::default(), &[&own]).await;
        let peer = App::start(Settings::default(), &[&theirs]).await;
        let (addr, _) = front(peer.addr, without_negentropy).await;
        let time = AtomicU64::new(now());
        let clock = WallClock::new(move || time.fetch_add(jump.cast_unsigned(), Ordering::Relaxed));
        let outcome = ours.sync_by(addr, Purpose::Transfer(Direction::Both), "{}", None, clock).await;
        assert_eq!(outcome.ended, Ok(()));
        let both = ids_of([&own, &theirs]);
        assert_same(&ours.ids(), &both);
        assert_same(&peer.ids(), &both);
    }
}

/// The clock was a year ahead while the stream was complete, and is right again after an outage.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_of_a_clock_that_was_ahead_leaves_nothing_out() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let ((clock, time), folder) = (settable(), tempfile::tempdir().unwrap());
    let settings = || vec![stream(peer.addr, Direction::Down, "{}")];
    time.fetch_add(365 * DAY_S, Ordering::Relaxed);
    let streams = start_by(clock.clone(), &ours, folder.path(), settings());
    until_live(&streams).await;
    streams.end().await;
    time.fetch_sub(365 * DAY_S, Ordering::Relaxed);
    let event = fresh(1, 1);
    publish(&peer, &event);
    let streams = start_by(clock, &ours, folder.path(), settings());
    until("the event has come", || ours.ids() == ids_of([&event])).await;
    until("the place is right", || status(&streams).complete_until.is_some_and(|until| until <= now())).await;
}
