//! Peers of streams that send what none should: they are left for a while, and nothing of it is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_mirror::{Direction, StreamSettings, StreamState};
use birdhouse_relay::Settings;

use crate::answering::peer;
use crate::app::App;
use crate::streams::{fresh, now, publish, start, status, stream, until};

/// Answers a live subscription with events, and says that there is nothing else.
fn answer(message: &str, events: &[String]) -> Vec<String> {
    let name = message.split('"').nth(3).unwrap_or_default();
    match message {
        message if message.starts_with("[\"REQ\",\"live\"") => {
            let events = events.iter().map(|event| format!("[\"EVENT\",\"live\",{event}]"));
            [r#"["EOSE","live"]"#.to_owned()].into_iter().chain(events).collect()
        }
        message if message.starts_with("[\"REQ\"") => vec![format!("[\"EOSE\",\"{name}\"]")],
        message if message.starts_with("[\"NEG-OPEN\"") => vec![format!("[\"NEG-ERR\",\"{name}\",\"error: unknown\"]")],
        _ => Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_of_forged_events_is_left_and_none_is_stored() {
    let forged = |number: usize| fresh(1, number).to_json().replace("\"content\":\"1 ", "\"content\":\"2 ");
    let events: Vec<String> = (0..2000).map(forged).collect();
    let addr = peer(move |message| answer(message, &events)).await;
    let ours = App::start(Settings::default(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Down, "{}")]);
    until("it is left", || status(&streams).why.is_some_and(|why| why.contains("no valid ones"))).await;
    assert!(ours.ids().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_the_future_are_refused_and_move_no_place_beyond_now() {
    let far = Timestamp(now() + 100_000_000);
    let future = UnsignedEvent { created_at: far, kind: Kind(1), tags: Vec::new(), content: String::new() };
    let future = future.sign(&Keys::from_secret([1; 32]).unwrap()).to_json();
    let good = fresh(1, 1);
    let events = [future, good.to_json()];
    let addr = peer(move |message| answer(message, &events)).await;
    let ours = App::start(Settings::default(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Down, "{}")]);
    until("the good one is stored", || ours.ids().contains(&good.id.to_string())).await;
    until("the other is counted", || status(&streams).tally.refused_here.total() == 1).await;
    assert!(status(&streams).complete_until.unwrap() <= now());
    assert_eq!(ours.ids().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_outside_of_the_filter_and_of_no_subscription_are_not_stored() {
    let (other, unasked) = (fresh(7, 1).to_json(), fresh(1, 2).to_json());
    let addr = peer(move |message| {
        let mut all = answer(message, std::slice::from_ref(&other));
        all.extend((0..200).map(|_| format!("[\"EVENT\",\"x\",{unasked}]")));
        all
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Down, r#"{"kinds":[1]}"#)]);
    until("it is left", || status(&streams).why.is_some_and(|why| why.contains("not asked for"))).await;
    assert!(ours.ids().is_empty());
}

/// A challenge whose proof is never answered holds events back.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_answers_no_proof_gets_no_other_event() {
    let events = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&events);
    let addr = peer(move |message| {
        let event = message.strip_prefix("[\"EVENT\",").and_then(|event| event.split("\"id\":\"").nth(1));
        counting.fetch_add(usize::from(event.is_some()), Ordering::Relaxed);
        let refused = event.map(|event| format!("[\"OK\",\"{}\",false,\"auth-required: who?\"]", &event[..64]));
        refused.into_iter().flat_map(|refused| [r#"["AUTH","challenge"]"#.to_owned(), refused]).collect()
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::from_secret([1; 32]).map(Arc::new);
    let streams = start(&ours, folder.path(), vec![StreamSettings { keys, ..stream(addr, Direction::Up, "{}") }]);
    until("the stream is live", || status(&streams).state == StreamState::Live).await;
    publish(&ours, &fresh(1, 1));
    until("the event is sent", || events.load(Ordering::Relaxed) == 1).await;
    publish(&ours, &fresh(1, 2));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((events.load(Ordering::Relaxed), status(&streams).behind), (1, Some(2)));
}

/// The pauses grow, so a peer that fails at once is asked few times.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_closes_every_subscription_is_asked_seldom() {
    let addr = peer(|message| match message {
        message if message.starts_with("[\"REQ\",\"live\"") => vec![r#"["CLOSED","live","error: no"]"#.to_owned()],
        _ => Vec::new(),
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Down, "{}")]);
    until("it has failed", || status(&streams).failures > 0).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let failures = status(&streams).failures;
    // Pauses of 1, 2, 4, .. seconds at least, one before each failure but the first.
    let pauses = Duration::from_secs((1 << (failures - 1)) - 1);
    assert!(pauses <= began.elapsed(), "{failures} failures");
    assert!(status(&streams).why.unwrap().contains("the subscription is closed: error: no"));
}
