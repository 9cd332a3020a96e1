//! Other relays take in the same events as Birdhouse, and are asked what clients ask.
//!
//! Those take part that `TEST_PEERS` names; `scripts/peers rnostr`, `scripts/peers nostr-rs-relay` and `$STRFRY`
//! install them. Their differences are listed, and fail nothing.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::net::TcpStream;
use std::path::Path;

use birdhouse_testkit::corpus::{Corpus, Plan, generate};
use birdhouse_testkit::peers::{Home, part};
use birdhouse_testkit::pipe;
use birdhouse_testkit::relays::{Kind, Relay};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

const BIRDHOUSE: &str = env!("CARGO_BIN_EXE_birdhouse");
const EVENTS: u64 = 3000;
/// The other relays, by their names in `TEST_PEERS`.
const PEERS: [(&str, Kind); 3] =
    [("rnostr", Kind::Rnostr), ("nostr-rs-relay", Kind::NostrRsRelay), ("strfry", Kind::Strfry)];
/// Filters that all relays answer alike. (Some relays truncate long answers, choose other events of the same second, or
/// return deleted events.)
const SHAPES: [&str; 5] = ["e-76", "thread", "hashtag", "by-ids", "conversation"];

fn corpus(file: &Path) -> Corpus {
    generate(Plan { seed: 7, events: EVENTS }, &mut BufWriter::new(File::create(file).unwrap())).unwrap()
}

/// Returns the ids of a filter's events.
fn ask(socket: &mut WebSocket<TcpStream>, filter: &Value) -> BTreeSet<String> {
    socket.send(Message::text(json!(["REQ", "q", filter]).to_string())).unwrap();
    let mut ids = BTreeSet::new();
    loop {
        let Message::Text(text) = socket.read().unwrap() else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        match message[0].as_str().unwrap() {
            "EVENT" => assert!(ids.insert(message[2]["id"].as_str().unwrap().to_owned()), "twice: {filter}"),
            "AUTH" => {}
            "EOSE" => break,
            _ => panic!("{message}"),
        }
    }
    socket.send(Message::text(json!(["CLOSE", "q"]).to_string())).unwrap();
    ids
}

/// Returns a relay's answers to all filters, after it has stored the events.
fn answers(relay: &Relay, events: &Path, questions: &[&Value]) -> Vec<BTreeSet<String>> {
    let loaded = relay.load(events).unwrap();
    assert!(!loaded.wall.is_zero() && loaded.usage.resident_bytes_max > 0, "{loaded:?}");
    let running = relay.start().unwrap();
    let mut socket = pipe::ws(pipe::tcp(running.port()).unwrap()).unwrap();
    let answers = questions.iter().map(|filter| ask(&mut socket, filter)).collect();
    running.stop().unwrap();
    answers
}

#[test]
fn relays_with_the_same_events_are_asked_alike() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events.jsonl");
    let corpus = corpus(&events);
    let asked = corpus.queries.iter().filter(|query| SHAPES.contains(&query.shape));
    let questions: Vec<&Value> = asked.map(|query| &query.filter).collect();
    let ours = Relay::new(Kind::Birdhouse, Path::new(BIRDHOUSE), Home::Temporary).unwrap();
    let ours = answers(&ours, &events, &questions);
    assert!(ours.iter().map(BTreeSet::len).sum::<usize>() > 1000);
    for (name, kind) in PEERS {
        let Some(relay) = part::start_if_asked(name, || Relay::new(kind, Path::new(BIRDHOUSE), Home::Temporary)) else {
            continue;
        };
        let Ok(theirs) = std::panic::catch_unwind(|| answers(&relay, &events, &questions)) else {
            part::fault(name, &"it failed; the output of the test says how");
            continue;
        };
        for ((question, ours), theirs) in questions.iter().zip(&ours).zip(theirs) {
            if *ours != theirs {
                part::fault(name, &format!("{} events instead of {}: {question}", theirs.len(), ours.len()));
            }
        }
    }
}
