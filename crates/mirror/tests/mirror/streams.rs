//! Streams between two of our relays, over outages, restarts and changes of their settings. The model is naive: the
//! events that were published on either side.

use std::collections::{BTreeSet, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use birdhouse_dial::{Guard, Refused};
use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_mirror::limits::OUTCOME_TIMEOUT;
use birdhouse_mirror::{
    Cursors, Direction, Job, Purpose, StreamSettings, StreamState, StreamStatus, Streams, WallClock, relay_url,
};
use birdhouse_relay::{Lists, Policy, Settings};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::app::{App, Pass, assert_same, front, ids_of};

/// Longest wait for a condition.
const PATIENCE: Duration = Duration::from_secs(90);

#[expect(clippy::disallowed_methods, reason = "streams are about events of this moment")]
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An event of this moment that differs from those of other numbers.
pub(crate) fn fresh(kind: u16, number: usize) -> VerifiedEvent {
    let tags = vec![Tag(vec!["n".into(), number.to_string()])];
    let keys = Keys::from_secret([1 + u8::try_from(number % 5).unwrap(); 32]).unwrap();
    let content = format!("{kind} {number}");
    UnsignedEvent { created_at: Timestamp(now()), kind: Kind(kind), tags, content }.sign(&keys)
}

pub(crate) fn stream(to: SocketAddr, direction: Direction, filter: &str) -> StreamSettings {
    let job = Job::new(&Settings::default().filter_limits(), Purpose::Transfer(direction), filter).unwrap();
    let targets = vec![relay_url(&format!("ws://{to}")).unwrap()];
    StreamSettings { name: "test".into(), targets, job, keys: None, plugin: None, outcome_timeout: OUTCOME_TIMEOUT }
}

/// Starts the streams of a relay, whose places are in a folder.
pub(crate) fn start(app: &App, folder: &Path, settings: Vec<StreamSettings>) -> Streams {
    start_by(WallClock::system(), app, folder, settings)
}

/// The same by a clock.
pub(crate) fn start_by(clock: WallClock, app: &App, folder: &Path, settings: Vec<StreamSettings>) -> Streams {
    let cursors = Cursors::open(&folder.join("streams")).unwrap();
    let guard = Arc::new(Guard::new(Refused::default()));
    let streams = Streams::start(Arc::clone(&app.relay), guard, cursors, clock);
    streams.set(settings).unwrap();
    streams
}

/// Publishes an event on a relay.
pub(crate) fn publish(app: &App, event: &VerifiedEvent) {
    tokio::task::block_in_place(|| app.relay.store_own(event.clone())).unwrap();
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{what}");
}

pub(crate) fn status(streams: &Streams) -> StreamStatus {
    let mut all = streams.status();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

pub(crate) async fn until_live(streams: &Streams) {
    until("the stream is live", || status(streams).state == StreamState::Live).await;
}

/// Returns the id of the event that a client sends in a message.
pub(crate) fn sent(message: &str) -> Option<String> {
    let event = message.strip_prefix("[\"EVENT\",{")?;
    Some(event.split("\"id\":\"").nth(1)?[..64].to_owned())
}

/// A front that notes the events that the client sends.
async fn noting(relay: SocketAddr, notes: &Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let notes = Arc::clone(notes);
    let pass = move |message: &str, _: usize| {
        notes.lock().extend(sent(message));
        Pass::On
    };
    front(relay, pass).await.0
}

/// No relay stores it, so none would know it again.
#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_event_does_not_go_round_between_two_relays() {
    let (one, other) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let both = |app: &App| vec![stream(app.addr, Direction::Both, "{}")];
    let streams = [start(&one, folders[0].path(), both(&other)), start(&other, folders[1].path(), both(&one))];
    until_live(&streams[0]).await;
    until_live(&streams[1]).await;
    let stored = fresh(1, 1);
    publish(&one, &fresh(20_001, 0));
    publish(&one, &stored);
    until("the other relay has the event that is stored", || other.ids() == ids_of([&stored])).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for streams in &streams {
        let received = status(streams).tally.received;
        assert!(received <= 4, "{received} events came");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_that_stream_to_each_other_send_no_event_back() {
    let (one, other) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let (notes, folders) = ([(); 2].map(|()| Arc::default()), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let to_other = stream(noting(other.addr, &notes[0]).await, Direction::Both, "{}");
    let to_one = stream(noting(one.addr, &notes[1]).await, Direction::Both, "{}");
    let streams = [start(&one, folders[0].path(), vec![to_other]), start(&other, folders[1].path(), vec![to_one])];
    until_live(&streams[0]).await;
    until_live(&streams[1]).await;
    let all: Vec<VerifiedEvent> = (0..300).map(|number| fresh(1, number)).collect();
    for (number, event) in all.iter().enumerate() {
        publish(if number % 2 == 0 { &one } else { &other }, event);
        if number % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let expected = ids_of(&all);
    until("both have all", || one.ids() == expected && other.ids() == expected).await;
    until("nothing waits", || streams.iter().all(|streams| status(streams).behind == Some(0))).await;
    let published = |parity: usize| -> BTreeSet<String> { ids_of(all.iter().skip(parity).step_by(2)) };
    for (side, notes) in notes.iter().enumerate() {
        let sent: BTreeSet<String> = notes.lock().iter().cloned().collect();
        assert_eq!(sent.difference(&published(side)).count(), 0, "sent back by {side}");
        assert_eq!(sent.len(), notes.lock().len(), "sent twice by {side}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_lose_nothing_in_either_direction() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_cut);
    let pass = move |_: &str, _: usize| if cut.load(Ordering::Relaxed) { Pass::Cut } else { Pass::On };
    let (addr, _) = front(peer.addr, pass).await;
    let folder = tempfile::tempdir().unwrap();
    let mut streams = start(&ours, folder.path(), vec![stream(addr, Direction::Both, "{}")]);
    until_live(&streams).await;
    let (mut all, mut number) = (Vec::new(), 0);
    for round in 0..4 {
        for step in 0..120 {
            is_cut.store((40..80).contains(&step), Ordering::Relaxed);
            let event = fresh(1, number);
            publish(if number % 3 == 0 { &ours } else { &peer }, &event);
            all.push(event);
            number += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if round % 2 == 1 {
            // The other end of the outage: this relay begins again where it was.
            streams.end().await;
            streams = start(&ours, folder.path(), vec![stream(addr, Direction::Both, "{}")]);
        }
    }
    let expected = ids_of(&all);
    until("both have all", || ours.ids() == expected && peer.ids() == expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_begins_again_sends_what_is_new_and_nothing_twice() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let (notes, folder) = (Arc::default(), tempfile::tempdir().unwrap());
    let settings = vec![stream(noting(peer.addr, &notes).await, Direction::Up, "{}")];
    publish(&ours, &fresh(1, 1000));
    let streams = start(&ours, folder.path(), settings.clone());
    let all: Vec<VerifiedEvent> = (0..200).map(|number| fresh(1, number)).collect();
    for event in &all[..100] {
        publish(&ours, event);
    }
    until("the peer has them", || peer.ids().len() == 100).await;
    until("all have an outcome", || status(&streams).behind == Some(0)).await;
    streams.end().await;
    for event in &all[100..] {
        publish(&ours, event);
    }
    let streams = start(&ours, folder.path(), settings);
    until("the peer has the others", || peer.ids().len() == 200 && status(&streams).behind == Some(0)).await;
    assert_same(&peer.ids(), &ids_of(&all));
    assert_eq!(notes.lock().len(), 200, "an event went twice");
    assert_eq!(status(&streams).tally.accepted, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_stream_that_is_killed_at_once_keeps_its_place() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    publish(&ours, &fresh(1, 1000));
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream("127.0.0.1:1".parse().unwrap(), Direction::Up, "{}")]);
    let event = fresh(1, 1);
    publish(&ours, &event);
    // Dropped without a last word, as by a kill.
    drop(streams);
    let file = std::fs::read_to_string(folder.path().join("streams")).unwrap();
    let file = file.replace("ws://127.0.0.1:1", &format!("ws://{}", peer.addr));
    std::fs::write(folder.path().join("streams"), file).unwrap();
    let streams = start(&ours, folder.path(), vec![stream(peer.addr, Direction::Up, "{}")]);
    until("the event has gone", || peer.ids().len() == 1 && status(&streams).behind == Some(0)).await;
    assert_same(&peer.ids(), &ids_of([&event]));
}

/// The peer stores events, and the connection ends before their outcomes come.
#[tokio::test(flavor = "multi_thread")]
async fn outcomes_that_were_lost_cost_no_second_transfer() {
    const HIDE: usize = 1;
    const CUT: usize = 2;
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let (mode, notes) = (Arc::new(AtomicUsize::new(HIDE)), Arc::new(Mutex::new(Vec::new())));
    let (of_front, noting) = (Arc::clone(&mode), Arc::clone(&notes));
    let pass = move |message: &str, _: usize| {
        if of_front.compare_exchange(CUT, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Pass::Cut;
        }
        noting.lock().extend(sent(message));
        let is_hidden = message.starts_with("[\"OK\"") && of_front.load(Ordering::Relaxed) == HIDE;
        if is_hidden { Pass::Answered(r#"["NOTICE","hello"]"#.into()) } else { Pass::On }
    };
    let (addr, _) = front(peer.addr, pass).await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Up, "{}")]);
    until_live(&streams).await;
    let all: Vec<VerifiedEvent> = (0..41).map(|number| fresh(1, number)).collect();
    for event in &all[..40] {
        publish(&ours, event);
    }
    until("the peer has them", || peer.ids().len() == 40).await;
    assert_eq!(status(&streams).tally.accepted, 0);
    mode.store(CUT, Ordering::Relaxed);
    publish(&ours, &all[40]);
    until("all have an outcome", || peer.ids().len() == 41 && status(&streams).behind == Some(0)).await;
    let notes = notes.lock();
    assert_eq!((notes.len(), notes.iter().collect::<HashSet<_>>().len()), (41, 41), "an event went twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_settings_replace_the_filter_and_leave_other_streams_alone() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let folder = tempfile::tempdir().unwrap();
    let other = StreamSettings { name: "other".into(), ..stream(peer.addr, Direction::Up, r#"{"kinds":[30]}"#) };
    let of = |kinds: &str| vec![stream(peer.addr, Direction::Up, &format!("{{\"kinds\":[{kinds}]}}")), other.clone()];
    let streams = start(&ours, folder.path(), of("1"));
    let mut expected = Vec::new();
    for number in 0..100 {
        streams.set(of(if number % 2 == 0 { "1,7" } else { "1,8" })).unwrap();
        let event = fresh(1, number);
        publish(&ours, &event);
        expected.push(event);
    }
    until("nothing was lost", || peer.ids().len() == 100).await;
    streams.set(of("7")).unwrap();
    until("the last filter is in effect", || streams.status().iter().all(|one| one.state == StreamState::Live)).await;
    publish(&ours, &fresh(1, 1000));
    publish(&ours, &fresh(8, 1001));
    expected.push(fresh(7, 1002));
    publish(&ours, expected.last().unwrap());
    let is_done = || streams.status().iter().all(|status| status.behind == Some(0));
    until("all are decided", || is_done() && peer.ids().len() >= expected.len()).await;
    let of_other = streams.status().into_iter().find(|status| status.name == "other").unwrap();
    assert_eq!(of_other.failures, 0);
    assert_same(&peer.ids(), &ids_of(&expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_wants_an_identity_gets_it() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let author = Keys::from_secret([1; 32]).unwrap();
    let filter = format!(r#"{{"kinds":[4],"authors":["{}"]}}"#, author.pubkey());
    let folder = tempfile::tempdir().unwrap();
    let without = stream(peer.addr, Direction::Down, &filter);
    let streams = start(&ours, folder.path(), vec![without.clone()]);
    until("it is refused", || status(&streams).why.is_some_and(|why| why.contains("auth-required"))).await;
    streams.set(vec![StreamSettings { keys: Some(Arc::new(author)), ..without }]).unwrap();
    until_live(&streams).await;
    let event = fresh(4, 5);
    publish(&peer, &event);
    publish(&peer, &fresh(4, 6));
    until("it comes", || !ours.ids().is_empty()).await;
    assert_same(&ours.ids(), &ids_of([&event]));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_counted_and_the_others_go_on() {
    let policy = Policy { kinds: Lists { allow: None, deny: vec![7..=7] }, ..Policy::default() };
    let peer = App::start(Settings { policy, ..Settings::default() }, &[]).await;
    let ours = App::start(Settings::default(), &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(peer.addr, Direction::Up, "{}")]);
    for number in 0..20 {
        publish(&ours, &fresh(if number % 2 == 0 { 1 } else { 7 }, number));
    }
    until("all are decided", || status(&streams).behind == Some(0)).await;
    let status = status(&streams);
    assert_eq!((status.tally.accepted, status.tally.refused_there.total(), peer.ids().len()), (10, 10, 10));
    assert!(status.last_refusal.unwrap().starts_with("blocked:"));
}

/// As a relay answers whose disk is full for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_the_peer_cannot_keep_is_sent_again() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let failures = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&failures);
    let pass = move |message: &str, _: usize| match sent(message) {
        Some(id) if counting.fetch_add(1, Ordering::Relaxed) < 3 => {
            Pass::Answered(format!(r#"["OK","{id}",false,"error: the disk is full"]"#))
        }
        _ => Pass::On,
    };
    let (addr, _) = front(peer.addr, pass).await;
    let folder = tempfile::tempdir().unwrap();
    let streams = start(&ours, folder.path(), vec![stream(addr, Direction::Up, "{}")]);
    until_live(&streams).await;
    let all: Vec<VerifiedEvent> = (0..10).map(|number| fresh(1, number)).collect();
    for event in &all {
        publish(&ours, event);
    }
    until("it has all", || peer.ids() == ids_of(&all)).await;
    assert!(failures.load(Ordering::Relaxed) >= 13);
    until("all are decided", || status(&streams).behind == Some(0)).await;
}

/// Serves one connection as a SOCKS5 proxy (RFC 1928) that knows one name. Returns its address.
async fn proxy(name: &'static str, relay: SocketAddr) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = socket.accept().await {
            tokio::spawn(async move {
                // Version 5, and methods of which one is "none".
                let mut head = [0; 2];
                client.read_exact(&mut head).await.unwrap();
                let mut methods = vec![0; head[1].into()];
                client.read_exact(&mut methods).await.unwrap();
                assert!(head[0] == 5 && methods.contains(&0));
                client.write_all(&[5, 0]).await.unwrap();
                // CONNECT to a name, which comes with its length, and a port.
                let mut request = [0; 5];
                client.read_exact(&mut request).await.unwrap();
                assert_eq!(request[..4], [5, 1, 0, 3]);
                let mut host = vec![0; usize::from(request[4]) + 2];
                client.read_exact(&mut host).await.unwrap();
                assert_eq!(host, [name.as_bytes(), &7777_u16.to_be_bytes()].concat());
                client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
                let mut server = TcpStream::connect(relay).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    addr
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_looks_the_name_up() {
    let (ours, peer) = (App::start(Settings::default(), &[]).await, App::start(Settings::default(), &[]).await);
    let addr = proxy("relay.onion", peer.addr).await;
    let target = relay_url("ws://relay.onion:7777").unwrap().through(Some(addr));
    let folder = tempfile::tempdir().unwrap();
    let settings = StreamSettings { targets: vec![target], ..stream(peer.addr, Direction::Both, "{}") };
    let streams = start(&ours, folder.path(), vec![settings]);
    until_live(&streams).await;
    let all = [fresh(1, 1), fresh(1, 2)];
    publish(&ours, &all[0]);
    publish(&peer, &all[1]);
    until("both have both", || ours.ids() == ids_of(&all) && peer.ids() == ids_of(&all)).await;
}
