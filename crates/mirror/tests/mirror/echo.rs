//! Events that came from a peer are not sent back to it: after a crash of this relay, by peers that answer late or know
//! no NIP-77, over several streams of one URL, and while much waits to be read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use birdhouse_events::VerifiedEvent;
use birdhouse_mirror::limits::{CAME_IDS_MAX, DRAINED_MAX, UPLOADS_IN_FLIGHT};
use birdhouse_mirror::{Direction, StreamSettings, StreamState};
use birdhouse_relay::Settings;
use parking_lot::Mutex;

use crate::answering::{HANGS_UP, peer};
use crate::app::{App, Pass, front, ids_of};
use crate::streams::{fresh, publish, sent, start, status, stream, until, until_live};

/// Ids of the events that a peer gets, in their order.
type Notes = Arc<Mutex<Vec<String>>>;

/// Starts a front of a peer that notes the events of the client.
async fn noting(
    peer: &App,
    notes: &Notes,
    decide: impl Fn(&str) -> Option<Pass> + Clone + Send + 'static,
) -> SocketAddr {
    let notes = Arc::clone(notes);
    let pass = move |message: &str, _: usize| {
        notes.lock().extend(sent(message));
        decide(message).unwrap_or(Pass::On)
    };
    front(peer.addr, pass).await.0
}

/// True for the first message of a question which of the next events the peer has.
fn asks(message: &str) -> bool {
    message.starts_with("[\"NEG-OPEN\",\"c")
}

fn notice(text: &str) -> Pass {
    Pass::Answered(format!("[\"NOTICE\",\"{text}\"]"))
}

/// Has events come from a peer, and crashes before the place is written; then the peer reacts in another way.
async fn nothing_goes_back_after_a_crash(reaction: impl Fn(&str) -> Option<Pass> + Clone + Send + 'static) {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let (notes, is_after) = (Notes::default(), Arc::new(AtomicBool::new(false)));
    let reacts = Arc::clone(&is_after);
    let decide = move |message: &str| reacts.load(Ordering::Relaxed).then(|| reaction(message)).flatten();
    let settings = vec![stream(noting(&peer, &notes, decide).await, Direction::Both, "{}")];
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), settings.clone());
    let file: PathBuf = folder.path().join("streams");
    let places = std::fs::read(&file).unwrap();
    until_live(&streams).await;
    let theirs: Vec<VerifiedEvent> = (0..5).map(|number| fresh(1, number)).collect();
    for event in &theirs {
        publish(&peer, event);
    }
    until("they come", || ours.ids() == ids_of(&theirs)).await;
    streams.end().await;
    assert_eq!(*notes.lock(), Vec::<String>::new());
    std::fs::write(&file, places).unwrap();
    is_after.store(true, Ordering::Relaxed);
    let own = fresh(1, 5);
    publish(&ours, &own);
    let streams = start(&ours, folder.path(), settings);
    until("the new one has gone", || status(&streams).behind == Some(0) && peer.ids().len() == 6).await;
    assert_eq!(*notes.lock(), [own.id.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_slow_to_answer_a_question_gets_nothing_back() {
    nothing_goes_back_after_a_crash(|message| asks(message).then(|| notice("hello"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_negentropy_gets_nothing_back() {
    nothing_goes_back_after_a_crash(|message| {
        message.starts_with("[\"NEG-").then(|| notice("ERROR: bad msg: unknown cmd"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_refuses_a_question_gets_nothing_back() {
    nothing_goes_back_after_a_crash(|message| {
        let name = message.strip_prefix("[\"NEG-OPEN\",\"").and_then(|rest| rest.split('"').next());
        let name = name.filter(|_| asks(message))?;
        Some(Pass::Answered(format!("[\"NEG-ERR\",\"{name}\",\"blocked: too many comparisons\"]")))
    })
    .await;
}

/// The event lies on its way to the stream down, and comes from elsewhere meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_on_its_way_on_a_stream_is_not_sent_back_by_another_one() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let (notes, folder) = (Notes::default(), tempfile::tempdir().unwrap());
    let withheld = |message: &str| message.starts_with("[\"EVENT\",\"live\"").then(|| notice("hello"));
    let addr = noting(&peer, &notes, withheld).await;
    let named = |name: &str, direction| StreamSettings { name: name.into(), ..stream(addr, direction, "{}") };
    let settings = vec![named("up", Direction::Up), named("down", Direction::Down)];
    let streams = start(&ours, folder.path(), settings);
    let are_live = || streams.status().iter().all(|status| status.state == StreamState::Live);
    until("both are live", are_live).await;
    let (first, theirs, last) = (fresh(1, 0), fresh(1, 1), fresh(1, 2));
    // The stream up has come to the end of the log.
    publish(&ours, &first);
    until("the first has gone", || peer.ids().len() == 1).await;
    publish(&peer, &theirs);
    publish(&ours, &theirs);
    publish(&ours, &last);
    until("the last has gone", || peer.ids().len() == 3).await;
    let behind = || streams.status().iter().find_map(|status| status.behind);
    until("nothing waits", || behind() == Some(0)).await;
    assert_eq!(*notes.lock(), [&first, &last].map(|event| event.id.to_string()));
}

/// The answers of a peer that has nothing, and no negentropy.
fn has_nothing(message: &str) -> Vec<String> {
    let name = message.split('"').nth(3).unwrap_or_default();
    match message {
        message if message.starts_with("[\"REQ\"") => vec![format!("[\"EOSE\",\"{name}\"]")],
        message if message.starts_with("[\"NEG-OPEN\"") => vec![format!("[\"NEG-ERR\",\"{name}\",\"error: unknown\"]")],
        _ => Vec::new(),
    }
}

fn ok(id: &str) -> String {
    format!("[\"OK\",\"{id}\",true,\"\"]")
}

fn live(event: &str) -> String {
    format!("[\"EVENT\",\"live\",{event}]")
}

/// The other relay gets the event from elsewhere while it asks for a pause.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_while_it_waits_is_not_sent_back() {
    let ours = App::start(Settings::default(), &[]).await;
    let (all, notes) = ([fresh(1, 1), fresh(1, 2)], Notes::default());
    let (of_peer, noting) = (all[0].to_json(), Arc::clone(&notes));
    let addr = peer(move |message| {
        let Some(id) = sent(message) else { return has_nothing(message) };
        let notes = &mut *noting.lock();
        notes.push(id.clone());
        let refused = format!("[\"OK\",\"{id}\",false,\"rate-limited: slow down\"]");
        // Written together, so that the event is there before the pause is over.
        if notes.len() == 1 { vec![refused, live(&of_peer)] } else { vec![ok(&id)] }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Both, "{}")]);
    until_live(&streams).await;
    publish(&ours, &all[0]);
    until("the event has come", || status(&streams).tally.received == 1).await;
    publish(&ours, &all[1]);
    until("nothing waits", || status(&streams).behind == Some(0)).await;
    assert_eq!(*notes.lock(), all.map(|event| event.id.to_string()));
}

/// The outcomes for which it waits lie before many other messages, and the event itself behind them.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_lies_behind_many_messages_is_not_sent_back() {
    let ours = App::start(Settings::default(), &[]).await;
    let all: Vec<VerifiedEvent> = (0..=UPLOADS_IN_FLIGHT).map(|number| fresh(1, number)).collect();
    for event in &all {
        publish(&ours, event);
    }
    let (last, notes) = (all.last().unwrap().clone(), Notes::default());
    let noting = Arc::clone(&notes);
    let addr = peer(move |message| {
        let Some(id) = sent(message) else { return has_nothing(message) };
        let notes = &mut *noting.lock();
        notes.push(id.clone());
        if notes.len() < UPLOADS_IN_FLIGHT {
            return Vec::new();
        }
        if notes.len() > UPLOADS_IN_FLIGHT {
            return vec![ok(&id)];
        }
        let others = std::iter::repeat_n(r#"["NOTICE","hello"]"#.to_owned(), 2 * DRAINED_MAX);
        notes.iter().map(|id| ok(id)).chain(others).chain([live(&last.to_json())]).collect()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Both, r#"{"since":1}"#)]);
    until("nothing waits", || status(&streams).behind == Some(0)).await;
    assert_eq!(*notes.lock(), all[..UPLOADS_IN_FLIGHT].iter().map(|event| event.id.to_string()).collect::<Vec<_>>());
}

/// More ids come afterwards than are remembered.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_waits_for_long_after_it_came_is_not_sent_back() {
    let ours = App::start(Settings::default(), &[]).await;
    let (event, notes) = (fresh(1, 0), Notes::default());
    let (of_peer, noting) = (event.clone(), Arc::clone(&notes));
    // Of no interest to a relay, so that none is stored.
    let other = |number: usize| {
        let rest = r#""kind":20001,"created_at":1700000000,"tags":[],"content":"""#;
        let pubkey = of_peer.pubkey.to_string();
        live(&format!(r#"{{"id":"{number:064x}","pubkey":"{pubkey}","sig":"{:0128x}",{rest}}}"#, 1))
    };
    let others: Vec<String> = (0..=CAME_IDS_MAX).map(other).collect();
    let addr = peer(move |message| {
        let Some(id) = sent(message) else { return has_nothing(message) };
        let notes = &mut *noting.lock();
        notes.push(id.clone());
        if notes.len() > 1 {
            return vec![ok(&id)];
        }
        let refused = format!("[\"OK\",\"{id}\",false,\"error: the disk is full\"]");
        [refused, live(&of_peer.to_json())].into_iter().chain(others.iter().cloned()).collect()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Both, "{}")]);
    until_live(&streams).await;
    publish(&ours, &event);
    let came = u64::try_from(CAME_IDS_MAX).unwrap() + 2;
    until("all has come", || status(&streams).tally.received >= came).await;
    until("nothing waits", || status(&streams).behind == Some(0)).await;
    assert_eq!(*notes.lock(), [event.id.to_string()]);
}

/// It sends the event to its subscriptions before it is durable, as some relays do, and is killed then.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_the_peer_sent_back_and_lost_is_sent_again() {
    let ours = App::start(Settings::default(), &[]).await;
    let (event, notes) = (fresh(1, 0), Notes::default());
    let (of_peer, noting) = (event.to_json(), Arc::clone(&notes));
    let addr = peer(move |message| {
        let Some(id) = sent(message) else { return has_nothing(message) };
        let notes = &mut *noting.lock();
        notes.push(id.clone());
        if notes.len() == 1 { vec![live(&of_peer), HANGS_UP.to_owned()] } else { vec![ok(&id)] }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Both, "{}")]);
    until_live(&streams).await;
    publish(&ours, &event);
    until("it was lost", || status(&streams).failures == 1).await;
    until("nothing waits", || status(&streams).behind == Some(0)).await;
    assert_eq!(*notes.lock(), [event.id.to_string(), event.id.to_string()]);
}
