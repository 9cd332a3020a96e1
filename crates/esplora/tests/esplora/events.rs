//! `/events`: events for a client that listens, and for one that comes back.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use birdhouse_esplora::Limits;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::{Address, Network};
use serde_json::{Value, json};

use crate::world::{Rest, SMALL, World};

const PATIENCE: Duration = Duration::from_mins(1);

/// A client that listens.
struct Listener {
    lines: BufReader<TcpStream>,
}

/// One event.
#[derive(Debug, PartialEq)]
struct Event {
    id: String,
    name: String,
    data: Value,
}

impl Listener {
    fn new(rest: &Rest, query: &str, last: Option<&str>) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", rest.port)).unwrap();
        Self::on(socket, query, last)
    }

    /// A client at an address that a proxy names.
    fn from(rest: &Rest, address: &str, query: &str) -> Self {
        let mut socket = TcpStream::connect(("127.0.0.1", rest.proxied_port)).unwrap();
        write!(socket, "PROXY TCP4 {address} 127.0.0.1 1 1\r\n").unwrap();
        Self::on(socket, query, None)
    }

    fn on(mut socket: TcpStream, query: &str, last: Option<&str>) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        write!(socket, "GET /api/events?{query} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n{last}\r\n").unwrap();
        let mut lines = BufReader::new(socket);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            lines.read_line(&mut head).unwrap();
        }
        let head = head.to_lowercase();
        assert!(head.starts_with("http/1.1 200 ok") && head.contains("content-type: text/event-stream"), "{head}");
        assert!(head.contains("cache-control: no-store") && !head.contains("content-encoding"), "{head}");
        Self { lines }
    }

    /// The next event. Lines of chunks and comments are no fields of events.
    fn next(&mut self) -> Event {
        let mut event = Event { id: String::new(), name: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the stream has ended");
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                None if line.trim_end().is_empty() && !event.name.is_empty() => return event,
                _ => {}
            }
        }
    }

    fn named(&mut self, name: &str) -> Event {
        let event = self.next();
        assert_eq!(event.name, name, "{event:?}");
        event
    }
}

fn tip(world: &World) -> (u32, String) {
    let ledger = world.live.ledger();
    (ledger.height(), ledger.chain().last().unwrap().hash.to_string())
}

#[test]
fn a_listener_gets_events_of_blocks_its_address_and_its_transaction() {
    let mut world = World::small(121);
    let lock = Lock::new(Form::P2wpkh, 444);
    let address = Address::from_script(&world.live.wallet().script_pubkey(lock), Network::Regtest).unwrap().to_string();
    let (height, hash) = tip(&world);
    let mut listener = Listener::new(&world.rest, &format!("blocks&address={address}"), None);
    let first = listener.named("tip");
    assert_eq!((first.id, &first.data["id"]), (format!("{height}-{hash}"), &json!(hash)));

    let paid = world.live.pay(&[Payment::to_lock(lock, 55_000)]).unwrap();
    world.sync();
    let event = listener.named("address");
    assert_eq!(event.data, world.rest.json(&format!("/address/{address}")));
    assert_eq!(event.data["mempool_stats"]["funded_txo_sum"], 55_000);

    let mut of_transaction = Listener::new(&world.rest, &format!("tx={}", paid.compute_txid()), None);
    of_transaction.named("tip");
    world.live.mine().unwrap();
    world.sync();
    let block = listener.named("block");
    let (height, hash) = tip(&world);
    assert_eq!((&block.data["height"], &block.data["id"]), (&json!(height), &json!(hash)));
    let event = listener.named("address");
    assert_eq!((event.id, &event.data["chain_stats"]["funded_txo_sum"]), (format!("{height}-{hash}"), &json!(55_000)));
    assert_eq!(block.id, "", "who is cut off here gets the address with the block again");
    let event = of_transaction.named("tx").data;
    assert_eq!((&event["status"]["block_hash"], &event["known"]), (&json!(hash), &json!(true)));
}

#[test]
fn a_listener_that_comes_back_gets_what_it_missed() {
    let mut world = World::small(122);
    let lock = Lock::new(Form::P2tr, 445);
    let address = Address::from_script(&world.live.wallet().script_pubkey(lock), Network::Regtest).unwrap().to_string();
    let query = format!("blocks&address={address}");
    let last = Listener::new(&world.rest, &query, None).named("tip").id;
    world.live.pay(&[Payment::to_lock(lock, 66_000)]).unwrap();
    world.live.mine().unwrap();
    world.live.mine_empty(2).unwrap();
    world.sync();
    let mut back = Listener::new(&world.rest, &query, Some(&last));
    let (height, _) = tip(&world);
    for missed in height - 2..=height {
        assert_eq!(back.named("block").data["height"], missed);
    }
    let event = back.named("address");
    assert_eq!(event.data["chain_stats"]["funded_txo_sum"], 66_000);
    // A payment that comes without a block is no less missed, nor is its end. The query may name the id.
    let paid = world.live.pay(&[Payment::to_lock(lock, 77_000)]).unwrap();
    world.sync();
    let both = format!("{query}&tx={}&lastEventId={}", paid.compute_txid(), event.id);
    let mut current = Listener::new(&world.rest, &both, None);
    current.named("tip");
    assert_eq!(current.named("address").data["mempool_stats"]["funded_txo_sum"], 77_000);
    let last = current.named("tx");
    assert_eq!((&last.data["known"], &last.id), (&json!(true), &event.id));
    let unknown = "11".repeat(32);
    let mut current = Listener::new(&world.rest, &format!("blocks&tx={unknown}"), Some(&event.id));
    current.named("tip");
    assert_eq!(current.named("tx").data, json!({ "txid": unknown, "known": false, "status": { "confirmed": false } }));
    // The block of the last id has left the chain.
    world.live.branch(height - 1, vec![Vec::new(), Vec::new()]).unwrap();
    world.sync();
    assert_eq!(current.named("reorg").data["height"], height);
    assert_eq!(current.named("block").data["height"], height + 1);
    let mut back = Listener::new(&world.rest, "blocks", Some(&event.id));
    assert_eq!(back.named("reorg").data["height"], height);
    assert_eq!(back.named("block").data["height"], height + 1);
}

#[test]
fn nothing_to_watch_and_too_much_are_refused() {
    let world = World::small(123);
    let too_many: String = (0..301).map(|number| format!("&tx={number:064x}")).collect::<Vec<_>>().concat();
    for (query, text) in [
        ("", "Nothing to watch: use ?blocks, ?address= or ?tx="),
        ("?address=x", "Invalid Bitcoin address"),
        ("?tx=x", "Invalid hex string"),
        ("?scripthash=00", "Invalid scripthash"),
    ] {
        assert_eq!(world.rest.refusal(&format!("/api/events{query}")), (400, text.into()));
    }
    let refusal = world.rest.get(&format!("/api/events?{too_many}"));
    assert!(refusal.status == 400 || refusal.status == 431, "{}", refusal.status);
}

/// The start of what the server answers to one more stream of a client.
fn answer(rest: &Rest, address: &str, query: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", rest.proxied_port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(socket, "PROXY TCP4 {address} 127.0.0.1 1 1\r\nGET /events?{query} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    line
}

/// A query of several transactions.
fn transactions(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| format!("tx={number:064x}")).collect::<Vec<_>>().join("&")
}

#[test]
fn what_streams_and_websockets_track_is_one_count_of_their_client_and_of_all() {
    let world = World::of(124, SMALL, Limits { client_tracked: Some(4), tracked: 6, ..Limits::default() });
    let first = Listener::from(&world.rest, "203.0.113.1", &transactions(0..3));
    assert!(answer(&world.rest, "203.0.113.1", &transactions(0..2)).starts_with("HTTP/1.1 429"));
    let second = Listener::from(&world.rest, "203.0.113.1", &transactions(0..1));
    // Of the six places of all clients, two are left.
    assert!(answer(&world.rest, "203.0.113.2", &transactions(0..3)).starts_with("HTTP/1.1 429"));
    let third = Listener::from(&world.rest, "203.0.113.2", &transactions(0..2));
    // A stream that only listens to blocks tracks nothing.
    assert!(answer(&world.rest, "203.0.113.3", "blocks").starts_with("HTTP/1.1 200"));
    assert!(answer(&world.rest, "203.0.113.3", &transactions(0..1)).starts_with("HTTP/1.1 429"));
    drop((first, second, third));
    // The server learns that they are gone when it reads from their sockets.
    let began = Instant::now();
    while !answer(&world.rest, "203.0.113.3", &transactions(0..4)).starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < PATIENCE, "the places are never free");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_stream_of_a_client_that_has_used_its_share_ends_and_no_other_one() {
    // Nothing comes back. More than a busy machine adds to the work of a client that asks for nothing.
    let limits = Limits { client_work: Some(Duration::from_millis(200)), client_work_percent: 0, ..Limits::default() };
    let mut world = World::of(125, SMALL, limits);
    let (mut one, mut other) =
        ["203.0.113.1", "203.0.113.2"].map(|address| Listener::from(&world.rest, address, "blocks")).into();
    for listener in [&mut one, &mut other] {
        listener.named("tip");
    }
    // Requests on other connections, each of which is charged 20 us at least, until one of them is refused.
    let requests = "GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\n\r\n".repeat(63)
        + "GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let (began, mut is_refused) = (Instant::now(), false);
    while !is_refused {
        assert!(began.elapsed() < 5 * PATIENCE, "the client never uses up its share");
        let mut socket = TcpStream::connect(("127.0.0.1", world.rest.proxied_port)).unwrap();
        write!(socket, "PROXY TCP4 203.0.113.1 127.0.0.1 1 1\r\n{requests}").unwrap();
        is_refused = std::io::read_to_string(socket).unwrap().contains("HTTP/1.1 429");
    }
    world.live.mine_empty(1).unwrap();
    world.sync();
    other.named("block");
    let mut rest = String::new();
    // The last chunk of the body.
    while !rest.ends_with("\r\n0\r\n") {
        assert!(one.lines.read_line(&mut rest).unwrap() > 0, "{rest}");
    }
    assert!(!rest.contains("event: block"), "{rest}");
}
