//! SIGKILL at random moments while clients publish: every event answered with `OK true` is there afterwards, once.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::rng::Rng;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use super::bird::Bird;
use super::{Home, node_with, rounds};

const AUTHORS: u8 = 3;
/// Most unanswered events of an author.
const IN_FLIGHT: usize = 20;
const PATIENCE: Duration = Duration::from_mins(1);
/// Events of a round that are acknowledged before the time of its kill begins, however fast the machine is.
const LEAST: usize = 100;

#[test]
fn killed_relay_keeps_every_acknowledged_event() {
    kill_relays(rounds(12));
}

#[test]
#[ignore = "long: BIRDHOUSE_ROUNDS rounds"]
fn killed_relay_keeps_its_events_for_many_rounds() {
    kill_relays(rounds(200));
}

fn kill_relays(rounds: Range<u64>) {
    let (node, _) = node_with(31, Size::SMALL);
    // Each start takes it again, so it must be none that a connection of another test could take meanwhile.
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let home = Home::new(&node, birdhouse_chain::Profile::Lean).arg(&format!("--relay-addr={addr}"));
    let mut acknowledged = BTreeSet::new();
    let least = LEAST * usize::try_from(rounds.end - rounds.start).unwrap();
    for round in rounds {
        let seed = 0x6576_656e + round;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let bird = home.start("run");
        assert!(connect(addr).is_some(), "the relay does not start: {}", home.log());
        let (delay, published) = (Duration::from_millis(rng.below(400)), AtomicUsize::new(0));
        scope(|scope| {
            let published = &published;
            let authors: Vec<_> =
                (1..=AUTHORS).map(|author| scope.spawn(move || publish(addr, author, round, published))).collect();
            home.wait_until("events are acknowledged", || published.load(Ordering::Relaxed) > LEAST);
            assert_eq!(bird.kill_after(delay), None, "the server ended by itself");
            acknowledged.extend(authors.into_iter().flat_map(|author| author.join().unwrap()));
        });
        let server: Bird = home.start("run");
        let found = all(connect(addr).unwrap_or_else(|| panic!("the relay does not start again: {}", home.log())));
        let unique: BTreeSet<String> = found.iter().cloned().collect();
        assert_eq!(unique.len(), found.len(), "events are there twice");
        let lost: Vec<_> = acknowledged.difference(&unique).collect();
        assert!(lost.is_empty(), "seed {seed}: {} of {} are lost: {lost:?}", lost.len(), acknowledged.len());
        drop(server);
        assert!(!home.log().contains("panicked"), "{}", home.log());
    }
    println!("{} events acknowledged", acknowledged.len());
    assert!(acknowledged.len() > least, "too few to tell");
}

/// Connects to a relay that may be starting; `None` if it does not start.
pub(super) fn connect(addr: SocketAddr) -> Option<WebSocket<TcpStream>> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let socket = TcpStream::connect(addr).ok().and_then(|socket| client(format!("ws://{addr}"), socket).ok());
        if let Some((socket, _)) = socket {
            return Some(socket);
        }
        sleep(Duration::from_millis(20));
    }
    None
}

/// Publishes until the relay is gone; counts acknowledged events, and returns their ids.
fn publish(addr: SocketAddr, author: u8, round: u64, count: &AtomicUsize) -> Vec<String> {
    let keys = Keys::from_secret([author; 32]).unwrap();
    let (mut acknowledged, mut in_flight) = (Vec::new(), 0);
    let Some(mut socket) = connect(addr) else { return acknowledged };
    for number in 0_u64.. {
        let tags = vec![Tag(vec!["r".to_owned(), format!("{round}/{number}")])];
        let created_at = Timestamp(1_700_000_000 + number);
        let event = UnsignedEvent { created_at, kind: Kind(1), tags, content: String::new() }.sign(&keys);
        if socket.send(Message::text(format!("[\"EVENT\",{}]", event.to_json()))).is_err() {
            return acknowledged;
        }
        in_flight += 1;
        while in_flight == IN_FLIGHT {
            let Ok(message) = socket.read() else { return acknowledged };
            let Message::Text(text) = message else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer[0] == "OK" {
                assert_eq!(answer[2], true, "{answer}");
                acknowledged.push(answer[1].as_str().unwrap().to_owned());
                in_flight -= 1;
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    unreachable!("numbers do not end")
}

/// Returns the ids of all events.
fn all(mut socket: WebSocket<TcpStream>) -> Vec<String> {
    socket.send(Message::text(json!(["REQ", "all", {}]).to_string())).unwrap();
    let mut ids = Vec::new();
    loop {
        let Message::Text(text) = socket.read().unwrap() else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        match message[0].as_str().unwrap() {
            "EVENT" => ids.push(message[2]["id"].as_str().unwrap().to_owned()),
            "EOSE" => return ids,
            _ => {}
        }
    }
}
