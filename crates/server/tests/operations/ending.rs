//! Shutdown: in time and clean, whatever clients do.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::{Bitcoind, Options};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::node;
use crate::process::Birdhouse;

/// Time for a shutdown; service managers wait longer before they kill.
const SOON: Duration = Duration::from_secs(5);

/// Sends requests as fast as the server reads, and reads the answers, until the connection ends. Adds the bytes
/// received to `answered`.
fn pipeline(port: u16, request: String, answered: Arc<AtomicU64>) -> JoinHandle<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut reader = socket.try_clone().unwrap();
    std::thread::spawn(move || {
        let ended = Arc::new(AtomicBool::new(false));
        let writing = std::thread::spawn({
            let ended = Arc::clone(&ended);
            move || {
                let requests = request.repeat(100);
                while !ended.load(Ordering::Relaxed) && socket.write_all(requests.as_bytes()).is_ok() {}
            }
        });
        let mut buffer = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = reader.read(&mut buffer) {
            answered.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        ended.store(true, Ordering::Relaxed);
        let _ = reader.shutdown(std::net::Shutdown::Both);
        writing.join().unwrap();
    })
}

#[test]
fn a_signal_stops_it_in_time_under_load() {
    let chain = mix::sample(5, Size::SMALL);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Birdhouse::start(&node);
        let port = server.port("serving the Electrum protocol").unwrap();
        let answered = Arc::new(AtomicU64::new(0));
        let history = json!({ "id": 1, "method": "blockchain.scripthash.get_history", "params": ["ab".repeat(32)] });
        let headers = json!({ "id": 1, "method": "blockchain.block.headers", "params": [0, 2016] });
        let clients: Vec<_> = [history, headers]
            .iter()
            .cycle()
            .take(10)
            .map(|request| pipeline(port, format!("{request}\n"), Arc::clone(&answered)))
            .collect();
        // One that requests much and reads nothing.
        let mut deaf = TcpStream::connect(("127.0.0.1", port)).unwrap();
        deaf.set_nonblocking(true).unwrap();
        let much = json!({ "id": 1, "method": "blockchain.block.headers", "params": [0, 2016] }).to_string() + "\n";
        while deaf.write(much.as_bytes()).is_ok() {}
        let enough = || (answered.load(Ordering::Relaxed) > 1_000_000).then_some(());
        server.until("answers", enough);
        server.signal(signal);
        let (status, took) = server.wait();
        assert!(status.success(), "{signal}: {status}\n{}", server.log());
        assert!(took < SOON, "{signal}: it took {took:?}\n{}", server.log());
        assert!(!server.log().contains("panicked"), "{}", server.log());
        for client in clients {
            client.join().unwrap();
        }
    }
}

#[test]
fn it_stops_in_time_while_the_node_is_unreachable() {
    let mut node = node();
    let mut server = Birdhouse::start(&node);
    node.stop().unwrap();
    server.until("notices that the node is unreachable", || (server.get("/health").status == 503).then_some(()));
    server.signal(Signal::SIGTERM);
    let (status, took) = server.wait();
    assert!(status.success() && took < SOON, "{status} after {took:?}\n{}", server.log());
}
