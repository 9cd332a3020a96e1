//! Attacks that take what others need: turns of a processor, the writer, places, memory. Each says how far it came, and
//! an honest client is served meanwhile.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use birdhouse_events::{
    Events, EventsOptions, Filter, Kind, Packed, Query, Seq, Tag, Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_net::{Proxy, Reads, Transport};
use birdhouse_relay::{Limits, Relay, Settings};
use birdhouse_store::{SegmentOptions, SegmentStore};
use birdhouse_testkit::hooked_store::{Call, Hook, HookedStore};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::app::{App, Client, PATIENCE, event, keys, wire};
use crate::compression::raw;

const ATTACKER: &str = "198.51.100.1";
const HONEST: &str = "198.51.100.2";
/// Time without any progress of an attacker, after which it is held up.
const STILL: Duration = Duration::from_secs(1);

async fn proxied(limits: Limits) -> App {
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    App::start(Settings { proxies, limits, ..Settings::default() }).await
}

/// Stores events without a connection.
fn fill(app: &App, events: &[VerifiedEvent]) {
    for some in events.chunks(1000) {
        app.events.accept(&some.iter().collect::<Vec<_>>()).unwrap();
    }
}

/// Sends a message again and again, until the relay takes no more of it for a while; returns the bytes it took.
async fn push_until_still(mut socket: TcpStream, part: Arc<[u8]>, most: usize) -> (TcpStream, usize) {
    let mut taken = 0;
    while taken < most {
        let Ok(written) = timeout(STILL, socket.write(&part[taken % part.len()..])).await else { break };
        taken += written.unwrap();
    }
    (socket, taken)
}

/// A masked frame whose mask is zero.
fn frame_of(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first, 0xff];
    bytes.extend((payload.len() as u64).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

fn deletion(author: u8, second: u64, ids: &[String]) -> VerifiedEvent {
    let tags = ids.iter().map(|id| Tag(vec!["e".to_owned(), id.clone()])).collect();
    let (created_at, content) = (Timestamp(1_700_000_000 + second), String::new());
    UnsignedEvent { created_at, kind: Kind::DELETION, tags, content }.sign(&keys(author))
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_that_never_meet_take_a_little_of_each_turn() {
    let app = proxied(Limits::default()).await;
    let events: Vec<VerifiedEvent> = (0..30_000)
        .map(|second| event(1, 1, second, &[[["t", "a"], ["l", "b"]][(second % 2) as usize].as_slice()]))
        .collect();
    fill(&app, &events);
    let never = json!({ "#t": ["a"], "#l": ["b"] });
    let mut attacker = app.client_at(ATTACKER).await.unwrap();
    // The queries of a connection take turns: the one that asks for little is answered first.
    for verb in ["COUNT", "REQ"] {
        for message in [json!([verb, "long", never]), json!(["REQ", "short", { "limit": 1 }])] {
            attacker.socket.feed(Message::text(message.to_string())).await.unwrap();
        }
        attacker.socket.flush().await.unwrap();
        let mut answers = Vec::new();
        while answers.len() < 3 {
            answers.push(attacker.hear().await[1].clone());
        }
        println!("{verb}: {answers:?}");
        assert_eq!(answers, ["short", "short", "long"], "{verb} took one turn");
    }
    let mut attackers = Vec::new();
    for _ in 0..4 {
        let (mut attacker, never) = (app.client_at(ATTACKER).await.unwrap(), never.clone());
        attackers.push(tokio::spawn(async move {
            loop {
                assert_eq!(attacker.count(never.clone()).await, 0);
            }
        }));
    }
    app.until("the attack is under way", || app.relay.overview().counts > 8).await;
    let (mut honest, mut slowest) = (app.client_at(HONEST).await.unwrap(), Duration::ZERO);
    for _ in 0..50 {
        let start = Instant::now();
        assert_eq!(honest.stored(&[json!({ "limit": 1 })]).await.len(), 1);
        slowest = slowest.max(start.elapsed());
    }
    println!("slowest answer of an honest client: {slowest:?}");
    for attacker in attackers {
        attacker.abort();
    }
}

/// Keeps the writer from events until something is sent.
fn hold_writer(app: &App) -> (SyncSender<()>, JoinHandle<()>) {
    let (release, released) = sync_channel::<()>(1);
    let (hold, holds) = sync_channel::<()>(1);
    let events = Arc::clone(&app.events);
    let wait = move |_: &_| {
        hold.send(()).unwrap();
        released.recv().unwrap();
    };
    let held = std::thread::spawn(move || drop(events.accept_and_notify(&[], wait).unwrap()));
    holds.recv().unwrap();
    (release, held)
}

/// Returns the numbers of events in the order in which the writer took them.
fn written(app: &App, filter: &Filter) -> Vec<Seq> {
    let mut numbers = Vec::new();
    let mut add = |number, _: Packed<'_>| {
        numbers.push(number);
        ControlFlow::Continue(())
    };
    app.events.page(Query::of(filter), None, usize::MAX, &mut add).unwrap();
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_an_event_takes_the_writer_is_charged_to_its_client() {
    let limits = Limits { client_work: Some(Duration::from_millis(300)), client_work_percent: 0, ..Limits::default() };
    let app = proxied(limits).await;
    let (mut client, mut honest) = (app.client_at(ATTACKER).await.unwrap(), app.client_at(HONEST).await.unwrap());
    let (release, held) = hold_writer(&app);
    client.say(json!(["EVENT", wire(&event(1, 1, 1, &[]))])).await;
    app.until("the event has come", || app.relay.overview().waiting_event_bytes > 0).await;
    sleep(Duration::from_secs(1)).await;
    release.send(()).unwrap();
    held.join().unwrap();
    assert_eq!(client.hear().await[2], true);
    let (is_accepted, why) = client.publish(&event(1, 1, 2, &[])).await;
    assert!(!is_accepted && why.starts_with("rate-limited: "), "{why}");
    honest.store(&event(3, 1, 1, &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_take_turns_at_the_writer() {
    const REQUESTS: u64 = 64;
    let app = proxied(Limits::default()).await;
    let events: Vec<VerifiedEvent> = (0..2000).map(|second| event(1, 1, second, &[])).collect();
    fill(&app, &events);
    // Another author's events: each is looked up, and none is deleted.
    let ids: Vec<String> = events.iter().map(|event| event.id.to_string()).collect();
    let mut requests = Vec::new();
    for second in 0..REQUESTS {
        requests.push(json!(["EVENT", wire(&deletion(2, second, &ids))]).to_string());
    }
    let mut attacker = app.client_at(ATTACKER).await.unwrap();
    let mut honest = app.client_at(HONEST).await.unwrap();
    let waiting = || app.relay.overview().waiting_event_bytes;
    let (requests_bytes, honest_event) = (requests.iter().map(String::len).sum(), event(3, 1, 1, &[]));
    // All of them wait before the writer takes the first one.
    let (release, held) = hold_writer(&app);
    for request in requests {
        attacker.socket.feed(Message::text(request)).await.unwrap();
    }
    attacker.socket.flush().await.unwrap();
    app.until("the requests wait for the writer", || waiting() >= requests_bytes).await;
    let before = waiting();
    honest.say(json!(["EVENT", wire(&honest_event)])).await;
    app.until("the honest event waits beside them", || waiting() >= before + honest_event.to_json().len()).await;
    // An event has its room before its signature is checked. This waits for no condition that can be seen.
    sleep(Duration::from_millis(300)).await;
    release.send(()).unwrap();
    held.join().unwrap();
    assert_eq!(honest.hear().await[2], true);
    for _ in 0..REQUESTS {
        assert_eq!(attacker.hear().await[2], true);
    }
    let honest_number = written(&app, &Filter { ids: Some(vec![honest_event.id]), ..Filter::default() })[0];
    let requests = written(&app, &Filter { kinds: Some(vec![Kind(5)]), ..Filter::default() });
    let before = requests.iter().filter(|number| **number < honest_number).count() as u64;
    println!("written before the honest event: {before} of {REQUESTS}");
    assert!(before <= REQUESTS / 4, "{before} of {REQUESTS} came first");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_wait_for_the_writer_have_room_by_bytes() {
    const CONNECTIONS: usize = 20;
    let app = proxied(Limits::default()).await;
    let large = {
        let (created_at, content) = (Timestamp(1_700_000_000), "x".repeat(120_000));
        UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys(2))
    };
    let message = json!(["EVENT", wire(&large)]).to_string();
    let (release, held) = hold_writer(&app);
    let part: Arc<[u8]> = frame_of(0x81, message.as_bytes()).into();
    let mut pushing = Vec::new();
    for _ in 0..CONNECTIONS {
        let (_, socket) = raw(&app, &format!("X-Forwarded-For: {ATTACKER}\r\n")).await;
        pushing.push(tokio::spawn(push_until_still(socket, Arc::clone(&part), 64 * part.len())));
    }
    let (mut sockets, mut taken) = (Vec::new(), 0);
    for pushing in pushing {
        let (socket, bytes) = pushing.await.unwrap();
        sockets.push(socket);
        taken += bytes;
    }
    let waiting = app.relay.overview().waiting_event_bytes;
    release.send(()).unwrap();
    held.join().unwrap();
    let all = CONNECTIONS * 64 * part.len();
    println!("while nothing was stored, {taken} bytes of {all} were taken, of which {waiting} by the relay");
    // The others are in the buffers of the system.
    assert!(taken < all && waiting <= 16_000_000, "{taken} {waiting}");
    app.client_at(HONEST).await.unwrap().store(&event(3, 1, 1, &[])).await;
}

/// Opens a socket, sends a part of a request, and keeps it open.
async fn half_open(addr: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(addr).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_that_ask_for_nothing_make_room_for_newcomers() {
    let app =
        App::start(Settings { limits: Limits { connections: 10, ..Limits::default() }, ..Settings::default() }).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(half_open(app.addr).await);
    }
    sleep(Duration::from_millis(200)).await;
    let start = Instant::now();
    let honest = timeout(Duration::from_secs(5), app.client()).await;
    println!("a newcomer got in after {:?}", start.elapsed());
    honest.expect("the newcomer gets in").store(&event(3, 1, 1, &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_make_room_for_newcomers_and_busy_ones_stay() {
    let app = proxied(Limits { connections: 10, ..Limits::default() }).await;
    let mut busy = app.client_at(HONEST).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..9 {
        held.push(app.client_at(ATTACKER).await.unwrap());
    }
    busy.store(&event(3, 1, 1, &[])).await;
    let start = Instant::now();
    for _ in 0..3 {
        let newcomer = timeout(Duration::from_secs(5), app.client_at("203.0.113.7")).await;
        held.push(newcomer.expect("the newcomer gets in").unwrap());
    }
    println!("three newcomers got in after {:?}", start.elapsed());
    busy.store(&event(3, 1, 2, &[])).await;
    let end = timeout(Duration::from_secs(5), held[0].socket.next()).await.expect("the idlest one is sent away");
    assert!(matches!(end, Some(Ok(Message::Close(_)))), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_behind_a_proxy_uses_up_its_own_share_by_connecting() {
    // Nothing comes back. A proxy of this machine may use twenty times as much.
    let limits = Limits { client_work: Some(Duration::from_millis(2)), client_work_percent: 0, ..Limits::default() };
    let app = proxied(limits).await;
    let mut refused = 0;
    // Each counts as a tenth of a millisecond.
    for _ in 0..500 {
        refused += usize::from(app.client_at(ATTACKER).await.is_err());
    }
    println!("{refused} of 500 connections were refused");
    assert!(refused > 400);
    app.client_at(HONEST).await.expect("another client of the proxy gets in");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_never_reads_leaves_when_memory_is_short() {
    const STALLED: usize = 20;
    let app = proxied(Limits { unsent_bytes: 2_000_000, ..Limits::default() }).await;
    let large: Vec<VerifiedEvent> = (0..300)
        .map(|second| {
            let (created_at, content) = (Timestamp(1_700_000_000 + second), "x".repeat(100_000));
            UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys(1))
        })
        .collect();
    fill(&app, &large);
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        let mut client = app.client_at(ATTACKER).await.unwrap();
        client.say(json!(["REQ", "a", {}])).await;
        stalled.push(client);
    }
    // Well before a minute, after which they would have to leave in any case.
    app.until("somebody leaves", || app.relay.overview().connections < STALLED).await;
    // Who reads is served meanwhile.
    let mut honest = app.client_at(HONEST).await.unwrap();
    assert_eq!(honest.stored(&[json!({})]).await.len(), large.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn live_events_that_a_client_does_not_read_have_room_by_bytes() {
    const EVENTS: u64 = 64;
    let app = proxied(Limits::default()).await;
    let mut attacker = app.client_at(ATTACKER).await.unwrap();
    let (mut author, mut honest) = (app.client_at(HONEST).await.unwrap(), app.client_at(HONEST).await.unwrap());
    for client in [&mut attacker, &mut honest] {
        client.say(json!(["REQ", "a", { "kinds": [20_000], "limit": 0 }])).await;
        client.hear_end("a").await;
    }
    // A tag whose name has several letters is found by nobody, so its value has no bound of its own.
    let large = "x".repeat(1_000_000);
    for second in 0..EVENTS {
        author.store(&event(2, 20_000, second, &[&["large", &large]])).await;
        assert_eq!(honest.hear().await[0], "EVENT", "who reads gets every event");
    }
    let mut kept = 0;
    let end = loop {
        match timeout(3 * STILL, attacker.socket.next()).await {
            Ok(Some(Ok(Message::Text(text)))) => kept += text.len(),
            other => break other,
        }
    };
    println!("of {EVENTS} events of 1 MB, {kept} bytes were kept for a client that read nothing; then {end:?}");
    // The buffers of the system hold some, the queue none.
    assert!(kept < 20_000_000, "{kept} bytes");
    let Ok(Some(Ok(Message::Close(Some(frame))))) = end else { panic!("{end:?}") };
    assert_eq!(u16::from(frame.code), 1008);
}

/// Answers of the relay to as many messages, or fewer if it takes its time to read them.
async fn answered(client: Client, message: Message, most: usize) -> usize {
    let (mut sender, mut receiver) = client.socket.split();
    let sending = tokio::spawn(async move {
        for _ in 0..most {
            if sender.send(message.clone()).await.is_err() {
                return;
            }
        }
        // Keeps the socket open.
        std::future::pending::<()>().await;
    });
    let (mut answers, start) = (0, Instant::now());
    while answers < most
        && start.elapsed() < 3 * STILL
        && let Ok(Some(Ok(_))) = timeout(STILL, receiver.next()).await
    {
        answers += 1;
    }
    sending.abort();
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_used_up_its_share_is_not_read() {
    const MESSAGES: usize = 20_000;
    let limits = Limits {
        client_work: Some(Duration::from_millis(50)),
        client_work_percent: 1,
        client_connections: None,
        ..Limits::default()
    };
    let app = proxied(limits).await;
    let auth: Value = json!(["AUTH", wire(&crate::app::proof(1, crate::app::now(), "ws://x", "y"))]);
    let messages = [
        ("pings", Message::Ping(Bytes::new())),
        ("binary frames", Message::Binary(Bytes::from_static(b"x"))),
        ("proofs of identity", Message::text(auth.to_string())),
    ];
    for (number, (name, message)) in messages.into_iter().enumerate() {
        let client = app.client_at(&format!("203.0.113.{number}")).await.unwrap();
        let answers = answered(client, message, MESSAGES).await;
        println!("{name}: {answers} of {MESSAGES} answered");
        assert!(answers < MESSAGES, "{name} cost nothing");
    }
    let mut honest = app.client_at(HONEST).await.unwrap();
    honest.store(&event(3, 1, 1, &[])).await;
}

/// Holds back the reads of a store while it is closed.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opens: Condvar,
    held: AtomicUsize,
}

impl Gate {
    fn close(&self) {
        *self.is_closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.is_closed.lock().unwrap() = false;
        self.opens.notify_all();
    }
}

/// Opens the gate again, also after a failure.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Hook for Gate {
    fn before(&self, call: Call) -> birdhouse_store::Result<()> {
        // The relay's own threads, which look through its store after a start, are not held.
        let is_client = std::thread::current().name().is_some_and(|name| name.starts_with("tokio"));
        if call == Call::Read && is_client {
            self.held.fetch_add(1, Ordering::SeqCst);
            drop(self.opens.wait_while(self.is_closed.lock().unwrap(), |is_closed| *is_closed).unwrap());
            self.held.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Waits for a condition while reads keep threads of the runtime busy: the one that would look for messages and timers
/// may be among them. So no timer of the runtime is waited for, and each task wakes a thread that looks in its stead.
async fn until_among_held(app: &App, what: &str, is_met: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_met() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}: {:?}", app.relay.overview());
        spawn_blocking(|| std::thread::sleep(Duration::from_millis(1))).await.unwrap();
        tokio::spawn(async {}).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn one_client_leaves_processors_to_others_that_ask() {
    let (folder, gate) = (tempfile::tempdir().unwrap(), Arc::<Gate>::default());
    let store = SegmentStore::open(folder.path(), birdhouse_events::TABLES, SegmentOptions::default()).unwrap();
    let store = HookedStore::new(Arc::new(store), Arc::clone(&gate));
    let events = Arc::new(Events::open(Arc::new(store), [1; 16], EventsOptions::default()).unwrap());
    events.accept(&[&event(1, 1, 1, &[])]).unwrap();
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let reads = Arc::new(Reads::new(2, 2, 1));
    let settings = Settings { proxies, reads: Arc::clone(&reads), ..Settings::default() };
    let relay = Relay::new(Arc::clone(&events), settings);
    let app = App::of(relay, events, folder, Transport::Ws, Proxy::Off).await;
    let mut clients = vec![app.client_at(HONEST).await.unwrap()];
    for _ in 0..4 {
        clients.push(app.client_at(ATTACKER).await.unwrap());
    }
    gate.close();
    let opens = Opens(Arc::clone(&gate));
    let held = || gate.held.load(Ordering::SeqCst);
    for (number, client) in clients.iter_mut().enumerate() {
        client.say(json!(["REQ", "one", { "limit": 1 }])).await;
        if number == 0 {
            until_among_held(&app, "the honest client reads", || held() == 1).await;
        }
    }
    let waiting = || reads.processors.waiting().now;
    until_among_held(&app, "all but one of the others wait for a processor", || waiting() == 3).await;
    // Who has a processor reads a moment later.
    until_among_held(&app, "both processors read", || held() >= 2).await;
    assert_eq!((held(), waiting()), (2, 3));
    drop(opens);
    for client in &mut clients {
        assert_eq!(client.hear().await[0], "EVENT");
    }
}
