//! `birdhouse sync`, `import` and `export`, beside running servers and on a data folder without one.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::Birdhouse;
use crate::relay_client::{ask, connect};

/// An event that differs from those of other numbers.
fn note(kind: u16, number: u64) -> String {
    let (created_at, kind, content) = (Timestamp(1_700_000_000 + number), Kind(kind), number.to_string());
    let event = UnsignedEvent { created_at, kind, tags: Vec::new(), content };
    event.sign(&Keys::from_secret([7; 32]).unwrap()).to_json()
}

fn id(event: &str) -> String {
    serde_json::from_str::<Value>(event).unwrap()["id"].as_str().unwrap().to_owned()
}

fn publish(server: &Birdhouse, events: &[String]) {
    let mut socket = connect(server);
    for event in events {
        let event: Value = serde_json::from_str(event).unwrap();
        assert_eq!(ask(&mut socket, &json!(["EVENT", event]))[2], json!(true));
    }
}

fn exported(server: &Birdhouse) -> BTreeSet<String> {
    let (done, lines) = server.run("export", &["-"]);
    assert!(done, "{lines}");
    lines.lines().filter(|line| line.starts_with("{\"")).map(id).collect()
}

fn url(server: &Birdhouse) -> String {
    format!("ws://127.0.0.1:{}", server.port("serving the relay").unwrap())
}

#[test]
fn running_servers_exchange_events_and_so_does_a_folder_without_a_server() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut ours = Birdhouse::start_relay(ours, &[]);
    let theirs = Birdhouse::start_relay(theirs, &["--relay-deny-kinds=7"]);
    let events: Vec<String> = (0..30).map(|number| note(1, number)).collect();
    publish(&ours, &events[..20]);
    publish(&ours, &[note(7, 99)]);
    publish(&theirs, &events[10..]);

    let (done, said) = ours.run("sync", &[&url(&theirs), "--print-missing", "--filter", r#"{"kinds":[1]}"#]);
    assert!(done, "{said}");
    let listed = |side: &str| -> BTreeSet<String> {
        said.lines().filter_map(|line| line.strip_prefix(side)).map(str::to_owned).collect()
    };
    assert_eq!(listed("have,"), events[..10].iter().map(|event| id(event)).collect());
    assert_eq!(listed("need,"), events[20..].iter().map(|event| id(event)).collect());

    // A refusal is shown with its reason, and fails the command.
    let (done, said) = ours.run("sync", &[&url(&theirs)]);
    assert!(!done && said.contains("refused there, 1 times: blocked: events of this kind"), "{said}");
    let all: BTreeSet<String> = events.iter().map(|event| id(event)).collect();
    assert_eq!(exported(&theirs), all);
    assert_eq!(exported(&ours).len(), 31);
    let (done, said) = ours.run("sync", &[&url(&theirs), "--filter", r#"{"kinds":[1]}"#]);
    assert!(done && said.contains("sent 0 events"), "{said}");

    ours.signal(Signal::SIGTERM);
    assert!(ours.wait().0.success());
    publish(&theirs, &[note(1, 50)]);
    let (done, said) = ours.run("sync", &[&url(&theirs), "--dir", "down"]);
    assert!(done && said.contains("received 1 events: 1 stored"), "{said}");
    assert_eq!(exported(&ours).len(), 32);

    let (done, said) = ours.run("sync", &["ws://127.0.0.1:1"]);
    assert!(!done && said.contains("failed to connect"), "{said}");
    let (done, said) = ours.run("sync", &["https://127.0.0.1"]);
    assert!(!done && said.contains("must begin with wss:// or ws://"), "{said}");
}

fn read(mut stream: &TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Serves one connection as a SOCKS5 proxy (RFC 1928), whatever name it is asked for, and returns that name. Its
/// address comes first.
fn proxy_to(relay: u16) -> (SocketAddr, thread::JoinHandle<Vec<u8>>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let mut client = socket.accept().unwrap().0;
        // Version 5, and the methods of which one is "none".
        let methods = read(&client, 2)[1];
        read(&client, methods.into());
        client.write_all(&[5, 0]).unwrap();
        // CONNECT to a name, which comes with its length, and a port.
        let request = read(&client, 5);
        assert_eq!(request[..4], [5, 1, 0, 3]);
        let name = read(&client, request[4].into());
        read(&client, 2);
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
        let server = TcpStream::connect(("127.0.0.1", relay)).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let up = thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            // Else the relay would hold the connection until it is idle for too long.
            let _ = to.shutdown(Shutdown::Both);
        });
        let _ = std::io::copy(&mut &server, &mut &client);
        let _ = client.shutdown(Shutdown::Both);
        let _ = up.join();
        name
    });
    (addr, serving)
}

#[test]
fn a_relay_with_an_onion_address_is_reached_through_a_proxy() {
    let ours = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    let theirs = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[]);
    publish(&theirs, &[note(1, 1)]);
    let (proxy, name) = proxy_to(theirs.port("serving the relay").unwrap());
    let (done, said) = ours.run("sync", &["ws://relay.onion", "--dir", "down", "--proxy", &proxy.to_string()]);
    assert!(done && said.contains("received 1 events: 1 stored"), "{said}");
    assert_eq!(name.join().unwrap(), b"relay.onion");
    assert_eq!(exported(&ours), BTreeSet::from([id(&note(1, 1))]));
}

#[test]
fn a_running_server_imports_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &["--relay-deny-kinds=7"]);
    let events: Vec<String> = (0..3000).map(|number| note(1, number)).collect();
    let lines = [&events[..], &[String::new(), note(7, 1), "{}".to_owned(), events[0].clone()]].concat();
    fs::write(&file, lines.join("\n")).unwrap();
    let path = file.to_str().unwrap();

    let (done, said) = server.run("import", &[path]);
    assert!(done && said.contains("3000 events stored; skipped 1 duplicates"), "{said}");
    assert!(said.contains("refused 1: blocked: events of this kind are not wanted here"), "{said}");
    assert!(said.contains("the relay has 3000 events now"), "{said}");
    assert!(!server.run("import", &["--strict", path]).0, "an invalid line");
    assert_eq!(exported(&server), events.iter().map(|event| id(event)).collect());

    let copy = folder.path().join("copy.jsonl");
    assert!(server.run("export", &[copy.to_str().unwrap()]).0);
    let newest_first: Vec<String> = events.into_iter().rev().collect();
    assert_eq!(fs::read_to_string(&copy).unwrap().lines().collect::<Vec<_>>(), newest_first);
}
