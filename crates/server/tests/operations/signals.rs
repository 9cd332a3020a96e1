//! Signals that change a running server, and the limit of open files.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};
use birdhouse_testkit::pipe;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::process::{Birdhouse, PATIENCE};
use crate::{chain_and_node, node};

/// Publishes an event of this kind; returns the answer.
fn publish(server: &Birdhouse, kind: u16) -> Value {
    let port = server.port("serving the relay").unwrap();
    let mut socket = pipe::ws(pipe::tcp(port).unwrap()).unwrap();
    let content = format!("{:?}", Instant::now());
    let event = UnsignedEvent { created_at: Timestamp(1), kind: Kind(kind), tags: Vec::new(), content };
    let event = event.sign(&Keys::from_secret([7; 32]).unwrap()).to_json();
    socket.send(Message::text(format!("[\"EVENT\",{event}]"))).unwrap();
    loop {
        if let Message::Text(text) = socket.read().unwrap()
            && text.starts_with("[\"OK\"")
        {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

#[test]
fn sighup_reads_lists_rules_and_log_level_again_and_keeps_them_if_the_file_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("birdhouse.toml");
    fs::write(&file, "relay-deny-kinds = 7\n").unwrap();
    let server = Birdhouse::start_relay(dir, &[&format!("--config={}", file.display())]);
    assert_eq!((publish(&server, 1)[2].clone(), publish(&server, 7)[2].clone()), (json!(true), json!(false)));
    assert_eq!(publish(&server, 3)[2], json!(true));
    fs::write(&file, "relay-deny-kinds = 1\nlog = 'debug'\n[[relay-retention]]\nkinds = [3]\ntime = '1 d'\n").unwrap();
    server.signal(Signal::SIGHUP);
    server.until("takes the new lists", || server.log().contains("read certificates, log level").then_some(()));
    assert_eq!((publish(&server, 1)[2].clone(), publish(&server, 7)[2].clone()), (json!(false), json!(true)));
    assert!(publish(&server, 3)[3].as_str().unwrap().starts_with("blocked: it is older"));
    assert!(server.log().contains("DEBUG"), "{}", server.log());
    fs::write(&file, "relay-deny-kinds = 'seven'\n").unwrap();
    server.signal(Signal::SIGHUP);
    server.until("refuses the file", || server.log().contains("kept the settings").then_some(()));
    assert_eq!(publish(&server, 1)[2], json!(false));
}

/// The settings come from a pipe, so the server waits for them until the test writes.
#[test]
fn sighup_before_the_server_serves_ends_nothing_and_is_handled_once_it_serves() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("birdhouse.toml");
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let server = Birdhouse::start_relay_early(":", dir, &[&format!("--config={}", file.display())]);
    // Opened once the server reads.
    let mut settings = OpenOptions::new().write(true).open(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, "relay-deny-kinds = 7\n").unwrap();
    server.signal(Signal::SIGHUP);
    settings.write_all(b"relay-deny-kinds = 1\n").unwrap();
    drop(settings);
    server.until("serves the relay", || server.port("serving the relay"));
    server.until("reads the settings again", || server.log().contains("read certificates, log level").then_some(()));
    assert_eq!((publish(&server, 1)[2].clone(), publish(&server, 7)[2].clone()), (json!(true), json!(false)));
}

#[test]
fn sigusr1_asks_the_node_for_news_and_ends_nothing() {
    let node = node();
    let server = Birdhouse::start(&node);
    server.signal(Signal::SIGUSR1);
    server.until("asks the node", || server.log().contains("asked the node for news").then_some(()));
    assert_eq!(server.client().call("server.ping", json!([])).unwrap(), Value::Null);
}

#[test]
fn a_server_that_polls_takes_all_blocks_at_sigusr1_and_notifies_once_of_the_last() {
    let (mut chain, node) = chain_and_node();
    // Longer than the test.
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_RPC_POLL_SECS", "600"), ("BIRDHOUSE_LOG", "debug")]);
    let sleeps = || server.log().contains("sleeping until the next look at the node").then_some(());
    server.until("has looked at the node", sleeps);
    let mut client = server.client();
    let subscribe = "blockchain.headers.subscribe";
    assert_eq!(client.call(subscribe, json!([])).unwrap()["height"], json!(10));
    chain.mine(101);
    chain.submit_to(&node).unwrap();
    assert_eq!(client.notification(Duration::from_millis(300)).unwrap(), None, "nobody looks at the node");
    server.signal(Signal::SIGUSR1);
    let first = client.notification(PATIENCE).unwrap().unwrap();
    assert_eq!((first.method.as_str(), &first.params[0]["height"]), (subscribe, &json!(111)));
    assert_eq!(client.notification(Duration::from_millis(300)).unwrap(), None);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("birdhouse.toml");
    fs::write(&file, "[limits.server]\nshutdown-timeout = '60 s'\n").unwrap();
    let node = node();
    let mut server = Birdhouse::start_with(&node, &[("BIRDHOUSE_CONFIG", file.to_str().unwrap())]);
    // A request that the node answers only after the shutdown timeout would do, too; a client that never reads is
    // simpler.
    let port = server.port("serving the Electrum protocol").unwrap();
    let mut deaf = TcpStream::connect(("127.0.0.1", port)).unwrap();
    deaf.set_nonblocking(true).unwrap();
    let much = json!({ "id": 1, "method": "blockchain.block.headers", "params": [0, 2016] }).to_string() + "\n";
    // Once the server has taken nothing for a while, it waits for this client.
    let (mut taken, mut at) = (Instant::now(), 0);
    while taken.elapsed() < Duration::from_secs(1) {
        match deaf.write(&much.as_bytes()[at..]) {
            Ok(count) => (taken, at) = (Instant::now(), (at + count) % much.len()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                sleep(Duration::from_millis(10));
            }
        }
    }
    server.signal(Signal::SIGTERM);
    server.until("is stopping", || server.log().contains("shutting down").then_some(()));
    server.signal(Signal::SIGTERM);
    let (status, took) = server.wait();
    assert!(took < Duration::from_secs(30), "{status} after {took:?}\n{}", server.log());
    assert_eq!(status.code(), Some(1), "{}", server.log());
    assert!(server.log().contains("ended at once by a second signal"), "{}", server.log());
}

#[test]
fn connections_are_fitted_to_the_limit_of_open_files() {
    let node = node();
    let server = Birdhouse::start_after("ulimit -n 700", &node, &[]);
    assert!(server.log().contains("fitted the bounds on connections"), "{}", server.log());
    assert!(server.log().contains("files_max=700 connections=350"), "{}", server.log());
    let port = server.port("serving the Electrum protocol").unwrap();
    let idle: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    // The server has files left for itself: the operator's tools still answer.
    assert_eq!(server.get("/health").status, 200);
    drop(idle);
    server.until("serves wallets again", || {
        let mut client = birdhouse_testkit::client::Client::greet(port).ok()?;
        client.call("server.ping", json!([])).ok()
    });
    assert!(!server.log().contains("failed to accept"), "{}", server.log());
}
