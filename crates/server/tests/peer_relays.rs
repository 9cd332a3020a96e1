//! Other relays take in the same events as Birdhouse, and are asked what clients ask.
//!
//! Those take part that `TEST_PEERS` names; `scripts/peers rnostr`, `scripts/peers nostr-rs-relay` and `$STRFRY`
//! install them. Their differences are listed, and fail nothing.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::net::TcpStream;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_testkit::corpus::{Corpus, Plan, generate};
use birdhouse_testkit::peers::{Home, part};
use birdhouse_testkit::pipe;
use birdhouse_testkit::relays::{Kind as RelayKind, Relay};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

const BIRDHOUSE: &str = env!("CARGO_BIN_EXE_birdhouse");
const EVENTS: u64 = 3000;
/// The other relays, by their names in `TEST_PEERS`.
const PEERS: [(&str, RelayKind); 3] =
    [("rnostr", RelayKind::Rnostr), ("nostr-rs-relay", RelayKind::NostrRsRelay), ("strfry", RelayKind::Strfry)];
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
    let ours = Relay::new(RelayKind::Birdhouse, Path::new(BIRDHOUSE), Home::Temporary).unwrap();
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

/// Lines of a file of which the number passes, in a file of their own.
fn some_lines(lines: &[String], file: &Path, passes: impl Fn(usize) -> bool) {
    let some: Vec<&str> = lines.iter().enumerate().filter(|(n, _)| passes(*n)).map(|(_, line)| line.as_str()).collect();
    std::fs::write(file, some.join("\n")).unwrap();
}

/// Runs a command of Birdhouse on a data folder without a server; returns what it says.
fn run(data: &Path, words: &[&str]) -> String {
    let mut command = Command::new(BIRDHOUSE);
    command.args(words).args(["--bitcoin=off", "--data-dir"]).arg(data);
    let output = command.output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Plain notes, which no relay replaces or deletes.
fn notes(count: u64) -> Vec<String> {
    let note = |number: u64| {
        let (created_at, content) = (Timestamp(1_750_000_000 + number * 100), number.to_string());
        let keys = Keys::from_secret([1 + u8::try_from(number % 7).unwrap(); 32]).unwrap();
        UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys).to_json()
    };
    (0..count).map(note).collect()
}

#[test]
fn relays_are_synchronized_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let lines = notes(EVENTS);
    let (ours, theirs) = (folder.path().join("ours.jsonl"), folder.path().join("theirs.jsonl"));
    some_lines(&lines, &ours, |n| !n.is_multiple_of(7));
    some_lines(&lines, &theirs, |n| !n.is_multiple_of(11) || n.is_multiple_of(7));
    let birdhouse = [("birdhouse", RelayKind::Birdhouse)];
    for (name, kind) in birdhouse.into_iter().chain(PEERS) {
        let make = || Relay::new(kind, Path::new(BIRDHOUSE), Home::Temporary);
        let relay = if name == "birdhouse" { Some(make().unwrap()) } else { part::start_if_asked(name, make) };
        let Some(relay) = relay else { continue };
        let data = folder.path().join(name);
        assert!(run(&data, &["import", ours.to_str().unwrap()]).contains("events stored"));
        relay.load(&theirs).unwrap();
        let running = relay.start().unwrap();
        let url = format!("ws://127.0.0.1:{}", running.port());
        let first = run(&data, &["sync", &url]);
        let second = run(&data, &["sync", &url]);
        let exported = run(&data, &["export", "-"]);
        let has = exported.lines().filter(|line| line.starts_with("{\"")).count() as u64;
        let is_complete = has == EVENTS && second.contains("sent 0 events") && second.contains(": 0 stored");
        if name == "birdhouse" {
            assert!(is_complete, "{first}\n{second}");
        } else if !is_complete {
            part::fault(name, &format!("{has} of {EVENTS} events are here: {first}; then {second}"));
        }
        running.stop().unwrap();
    }
}

/// A running server with these settings, whose log is in its folder.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(folder: &Path, settings: &str) -> Self {
        std::fs::create_dir(folder).unwrap();
        let (config, log) = (folder.join("birdhouse.toml"), folder.join("log"));
        std::fs::write(&config, settings).unwrap();
        let mut command = Command::new(BIRDHOUSE);
        command.args(["run", "--bitcoin=off", "--relay-addr=127.0.0.1:0", "--data-dir"]).arg(folder);
        command.arg("--config").arg(&config).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let port = until(|| {
            let log = std::fs::read_to_string(&log).unwrap();
            let (_, after) = log.split_once("serving the relay addr=127.0.0.1:")?;
            after.split_whitespace().next()?.parse().ok()
        });
        Self { child, port: port.unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until there is an answer; `None` after a minute.
fn until<T>(mut question: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + Duration::from_mins(1);
    while Instant::now() < end {
        if let Some(answer) = question() {
            return Some(answer);
        }
        sleep(Duration::from_millis(50));
    }
    None
}

/// Publishes notes of this moment on a relay; returns their ids.
#[expect(clippy::disallowed_methods, reason = "streams are about events of this moment")]
fn publish_notes(port: u16, numbers: Range<u64>) -> BTreeSet<String> {
    let mut socket = pipe::ws(pipe::tcp(port).unwrap()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let publish = |number: u64| {
        let (created_at, content) = (Timestamp(now), format!("stream {number}"));
        let note = UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content };
        let note = note.sign(&Keys::from_secret([9; 32]).unwrap());
        socket.send(Message::text(format!("[\"EVENT\",{}]", note.to_json()))).unwrap();
        while !matches!(socket.read().unwrap(), Message::Text(text) if text.starts_with("[\"OK\"")) {}
        note.id.to_string()
    };
    numbers.map(publish).collect()
}

fn notes_of(port: u16) -> BTreeSet<String> {
    ask(&mut pipe::ws(pipe::tcp(port).unwrap()).unwrap(), &json!({ "kinds": [1] }))
}

#[test]
fn a_stream_passes_events_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let birdhouse = [("birdhouse", RelayKind::Birdhouse)];
    for (name, kind) in birdhouse.into_iter().chain(PEERS) {
        let make = || Relay::new(kind, Path::new(BIRDHOUSE), Home::Temporary);
        let relay = if name == "birdhouse" { Some(make().unwrap()) } else { part::start_if_asked(name, make) };
        let Some(relay) = relay else { continue };
        let running = relay.start().unwrap();
        // What is there before the stream begins comes, and what is here before does not go.
        let mut expected = publish_notes(running.port(), 0..20);
        let url = format!("ws://127.0.0.1:{}", running.port());
        let settings = format!("[[stream]]\nname = 'peer'\nurls = '{url}'\ndir = 'both'\n");
        let ours = Server::start(&folder.path().join(name), &settings);
        let complete = |expected: &BTreeSet<String>| {
            until(|| (notes_of(ours.port) == *expected && notes_of(running.port()) == *expected).then_some(()))
        };
        let before = complete(&expected);
        expected.extend(publish_notes(running.port(), 100..120));
        expected.extend(publish_notes(ours.port, 200..220));
        let after = complete(&expected);
        if name == "birdhouse" {
            assert!(before.is_some() && after.is_some());
        } else if before.is_none() || after.is_none() {
            let found = (notes_of(ours.port).len(), notes_of(running.port()).len());
            part::fault(name, &format!("{found:?} of {} events are here and there", expected.len()));
        }
        drop(ours);
        running.stop().unwrap();
    }
}
