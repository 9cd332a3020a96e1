//! The relay on a disk that becomes full: a small private file system, where mounting is allowed.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::small_disk::{SmallDisk, can_mount, command_on};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::WebSocket;

use crate::process::Birdhouse;
use crate::relay_client::{ask, connect};

/// Size of the disk, mebibytes.
const DISK_MIB: u64 = 32;
const MIB: u64 = 1 << 20;

/// A relay on a disk of its own.
struct SmallRelay {
    server: Birdhouse,
    disk: SmallDisk,
}

// === impl SmallRelay ===

impl SmallRelay {
    /// Starts a relay with these limits; `None`, and a word about it, where nothing can be mounted.
    fn start(limits: &str) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let dir = tempfile::Builder::new().prefix("birdhouse-full-").tempdir().unwrap();
        let (relay, config) = (dir.path().join("relay"), dir.path().join("birdhouse.toml"));
        fs::create_dir(&relay).unwrap();
        fs::write(&config, format!("[limits.relay]\n{limits}\n")).unwrap();
        let alone = command_on(&relay, DISK_MIB);
        let server = Birdhouse::start_relay_apart(&alone, dir, &[&format!("--config={}", config.display())]);
        let disk = SmallDisk::of(server.id(), &relay).unwrap();
        Some(Self { server, disk })
    }

    fn health(&self) -> (u16, Value) {
        let answer = self.server.get("/health");
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }
}

fn keys() -> Keys {
    Keys::from_secret([7; 32]).unwrap()
}

fn signed(kind: u16, number: u64, tags: Vec<Tag>) -> Value {
    let content = "a note of some length ".repeat(100);
    let event = UnsignedEvent { created_at: Timestamp(1_700_000_000 + number), kind: Kind(kind), tags, content };
    serde_json::from_str(&event.sign(&keys()).to_json()).unwrap()
}

/// Publishes an event; returns the reason of a refusal.
fn publish(socket: &mut WebSocket<TcpStream>, event: &Value) -> Result<(), String> {
    let answer = ask(socket, &json!(["EVENT", event]));
    assert_eq!((&answer[0], &answer[1]), (&json!("OK"), &event["id"]));
    if answer[2] == true { Ok(()) } else { Err(answer[3].as_str().unwrap().to_owned()) }
}

fn count(socket: &mut WebSocket<TcpStream>) -> u64 {
    ask(socket, &json!(["COUNT", "a", {}]))[2]["count"].as_u64().unwrap()
}

#[test]
fn events_are_refused_below_the_floor_of_free_disk_and_stored_with_room() {
    let Some(small) = SmallRelay::start("disk-free-bytes = 8000000") else { return };
    let mut socket = connect(&small.server);
    let first = signed(1, 0, Vec::new());
    assert_eq!(publish(&mut socket, &first), Ok(()));
    assert_eq!(small.health().0, 200);

    small.disk.fill_up_to(6_000_000).unwrap();
    let note = signed(1, 1, Vec::new());
    let refused = publish(&mut socket, &note).unwrap_err();
    assert!(refused.starts_with("error: ") && refused.contains("disk is nearly full"), "{refused}");
    let (status, body) = small.health();
    assert_eq!((status, &body["relay"]["status"]), (503, &json!("refuses events")), "{body}");
    assert!(body["relay"]["reason"].as_str().unwrap().contains("8 MB must stay free"), "{body}");
    assert_eq!(count(&mut socket), 1, "queries are answered");
    // A deletion request makes room.
    let id = first["id"].as_str().unwrap().to_owned();
    assert_eq!(publish(&mut socket, &signed(5, 2, vec![Tag(vec!["e".to_owned(), id])])), Ok(()));
    small.disk.fill_up_to(3_000_000).unwrap();
    assert!(publish(&mut socket, &signed(5, 3, Vec::new())).is_err(), "no more than half of the floor is for them");

    small.disk.make_room().unwrap();
    assert_eq!(publish(&mut socket, &note), Ok(()));
    assert_eq!(small.health().0, 200);
    let log = small.server.log();
    for words in ["refusing events: the disk is nearly full", "storing events again: the disk has room"] {
        assert_eq!(log.matches(words).count(), 1, "{words}:\n{log}");
    }
}

#[test]
fn a_really_full_disk_loses_no_acknowledged_event_and_events_are_stored_with_room() {
    let Some(mut small) = SmallRelay::start("disk-free-bytes = \"none\"") else { return };
    let mut socket = connect(&small.server);
    let (mut number, mut acknowledged) = (0, Vec::new());
    let mut publish_next = |socket: &mut WebSocket<TcpStream>| {
        number += 1;
        let event = signed(1, number, Vec::new());
        publish(socket, &event).map(|()| acknowledged.push(event["id"].as_str().unwrap().to_owned()))
    };
    for _ in 0..20 {
        publish_next(&mut socket).unwrap();
    }
    small.disk.fill_up_to(MIB / 2).unwrap();
    let refused = loop {
        if let Err(refused) = publish_next(&mut socket) {
            break refused;
        }
    };
    assert_eq!(refused, "error: the relay cannot keep events now");
    assert!(small.server.log().contains("No space left on device"), "{}", small.server.log());
    let (status, body) = small.health();
    assert_eq!((status, &body["relay"]["status"]), (503, &json!("cannot store events")), "{body}");
    let stored = count(&mut socket);

    small.disk.make_room().unwrap();
    small.server.until("stores events again", || publish_next(&mut socket).ok());
    for _ in 0..20 {
        publish_next(&mut socket).unwrap();
    }
    assert_eq!(count(&mut socket), stored + 21);
    assert_eq!(acknowledged.len() as u64, stored + 21);
    small.server.signal(Signal::SIGKILL);
    small.server.wait();

    // What the disk has then is what another start finds.
    let (folder, dir) = (small.disk.folder(), small.server.into_dir());
    copy(&folder, &dir.path().join("relay"));
    let server = Birdhouse::start_relay(dir, &[]);
    let mut socket = connect(&server);
    for id in &acknowledged {
        assert_eq!(ask(&mut socket, &json!(["COUNT", "a", { "ids": [id] }]))[2]["count"], 1, "{id} is lost");
    }
    assert_eq!(count(&mut socket), acknowledged.len() as u64);
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(copied.success());
}
