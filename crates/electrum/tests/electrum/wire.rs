//! The connection itself: transcripts of exact lines, framing, bounds, and the end.
//!
//! A transcript is a text that a person could type: `> ` sends a line, `< ` is the exact line that answers, `close`
//! means that the server ends the connection, `new` opens another one, `#` begins a comment.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_electrum::{Limits, Settings};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, mix};
use serde_json::{Value, json};

use crate::world::{Server, node_with, tcp};

fn world(settings: Settings) -> (Bitcoind, Server) {
    world_with(settings, Limits::default())
}

fn limited(limits: Limits) -> (Bitcoind, Server) {
    world_with(Settings::default(), limits)
}

fn world_with(settings: Settings, limits: Limits) -> (Bitcoind, Server) {
    let mut chain = ChainBuilder::new(21);
    chain.mine(10);
    let node = node_with(&chain);
    let server = Server::listening(&node, settings, vec![tcp(limits)]);
    (node, server)
}

fn read_line(socket: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    socket.get_ref().set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    socket.read_line(&mut line).unwrap();
    line.trim_end_matches('\n').to_owned()
}

fn play(server: &Server, name: &str, transcript: &str) {
    let mut socket = BufReader::new(server.socket());
    for (number, line) in (1..).zip(transcript.lines()) {
        match line.split_once(' ').unwrap_or((line, "")) {
            (">", request) => {
                socket.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
            }
            ("<", reply) => assert_eq!(read_line(&mut socket), reply, "{name}:{number}"),
            ("close", _) => assert_eq!(socket.read(&mut [0]).unwrap(), 0, "{name}:{number}"),
            ("new", _) => socket = BufReader::new(server.socket()),
            ("#" | "", _) => {}
            other => panic!("{name}:{number}: {other:?}"),
        }
    }
}

#[test]
fn transcripts_are_answered_to_the_letter() {
    let settings = Settings { server_version: "Birdhouse (test)".into(), ..Settings::default() };
    let (_node, server) = world(settings);
    play(&server, "version", include_str!("transcripts/version.txt"));
    play(&server, "framing", include_str!("transcripts/framing.txt"));
    play(&server, "parameters", include_str!("transcripts/parameters.txt"));
    play(&server, "newest", include_str!("transcripts/newest.txt"));
}

#[test]
fn pipelined_requests_are_all_answered_and_a_half_closed_client_gets_its_replies() {
    let (_node, server) = world(Settings::default());
    let mut socket = server.socket();
    let reader = socket.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let lines = BufReader::new(reader).lines();
        let id = |line: std::io::Result<String>| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["id"].clone();
        let mut ids: Vec<u64> = lines.map(|line| id(line).as_u64().unwrap()).collect();
        ids.sort_unstable();
        ids
    });
    let request = |id: u64| {
        let method = ["server.ping", "blockchain.scripthash.get_balance", "blockchain.estimatefee"];
        let params = [json!([]), json!(["ab".repeat(32)]), json!([2])];
        let kind = usize::try_from(id % 3).unwrap();
        format!("{}\n", json!({ "id": id, "method": method[kind], "params": params[kind] }))
    };
    let requests: String = (0..3000).map(request).collect();
    socket.write_all(requests.as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reading.join().unwrap(), (0..3000).collect::<Vec<_>>());
}

#[test]
fn a_batch_is_answered_in_one_line_in_order_however_large() {
    let limits = Limits { requests_in_flight: 10, ..Limits::default() };
    let (_node, server) = limited(limits);
    let mut socket = BufReader::new(server.socket());
    let request =
        |id: u64| json!({ "id": id, "method": "blockchain.scripthash.get_balance", "params": ["ab".repeat(32)] });
    let batch: Vec<Value> = (0..2000).map(request).collect();
    writeln!(socket.get_mut(), "{}", json!(batch)).unwrap();
    let replies: Vec<Value> = serde_json::from_str(&read_line(&mut socket)).unwrap();
    let ids: Vec<u64> = replies.iter().map(|reply| reply["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..2000).collect::<Vec<_>>());
}

#[test]
fn a_line_beyond_its_bound_is_refused_and_the_client_sent_away() {
    let (_node, server) = limited(Limits { message_bytes: 100, ..Limits::default() });
    let mut socket = server.socket();
    socket.write_all(&vec![b'x'; 50_000]).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    let message = "excessive resource usage: a line may have at most 100 bytes";
    assert_eq!(
        reply,
        format!("{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":-101,\"message\":\"{message}\"}}}}\n")
    );
}

#[test]
fn a_reply_beyond_its_bound_is_an_error_and_in_a_batch_spares_the_others() {
    let (_node, server) = limited(Limits { reply_bytes: 1000, ..Limits::default() });
    let mut client = server.client();
    let headers = |count: u32| ("blockchain.block.headers", json!([0, count]));
    let error = client.batch(&[headers(9)]).unwrap().remove(0).unwrap_err();
    assert_eq!(error["code"], json!(10_001));
    let replies = client.batch(&vec![headers(3); 3]).unwrap();
    let refused = replies.iter().filter(|reply| matches!(reply, Err(error) if error["code"] == json!(-101)));
    assert_eq!(refused.count(), 2);
}

#[test]
fn one_client_that_does_not_read_holds_up_no_other_and_is_held_up_itself() {
    let (_node, server) = limited(Limits { outgoing_bytes: 10_000, ..Limits::default() });
    let mut slow = server.socket();
    slow.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let request = format!("{}\n", json!({ "id": 1, "method": "blockchain.block.headers", "params": [0, 11] }));
    let requests = request.repeat(1000);
    // The system's buffers take some megabytes; then writing stops because the server has stopped reading.
    let mut writes = 0..1000;
    assert!(writes.any(|_| slow.write_all(requests.as_bytes()).is_err()), "the server reads on and on");
    assert_eq!(server.client().call("server.ping", json!([])).unwrap(), Value::Null);
    assert_eq!(server.client().call("blockchain.scripthash.subscribe", json!(["ab".repeat(32)])).unwrap(), Value::Null);
}

/// Returns the most bytes of unread replies that the server holds in two seconds.
fn most_unsent(server: &Server) -> usize {
    let samples = (0..200).map(|_| {
        thread::sleep(Duration::from_millis(10));
        server.unsent_bytes()
    });
    samples.max().unwrap()
}

#[test]
fn pings_that_ask_for_megabytes_are_answered_as_they_are_read() {
    const DIGITS: usize = 1_000_000;
    // However slow this machine is, all pings are one job.
    let settings = Settings { collect_time_max: Duration::MAX, ..Settings::default() };
    let (_node, server) = world_with(settings, Limits { outgoing_bytes: 1_000_000, ..Limits::default() });
    let mut socket = server.socket();
    let hello = json!({ "id": 0, "method": "server.version", "params": ["test", ["1.4", "1.7"]] });
    let ping = json!({ "id": 1, "method": "server.ping", "params": [DIGITS] });
    socket.write_all(format!("{hello}\n{}", format!("{ping}\n").repeat(64)).as_bytes()).unwrap();
    let most = most_unsent(&server);
    assert!(most < 5 * DIGITS, "{most} bytes");
    let mut socket = BufReader::new(socket);
    read_line(&mut socket);
    for _ in 0..64 {
        assert!(read_line(&mut socket).len() > DIGITS);
    }
}

#[test]
fn a_client_that_takes_too_long_to_read_the_replies_to_one_message_is_closed() {
    let (reply_timeout, write_timeout) = (Duration::from_millis(500), Duration::from_secs(8));
    let limits = Limits { outgoing_bytes: 100_000, reply_timeout, write_timeout, ..Limits::default() };
    let (_node, server) = limited(limits);
    let mut socket = server.socket();
    let ping = json!({ "id": 1, "method": "server.ping", "params": [1_000_000] });
    let hello = json!({ "id": 0, "method": "server.version", "params": ["test", ["1.4", "1.7"]] });
    socket.write_all(format!("{hello}\n{}", format!("{ping}\n").repeat(64)).as_bytes()).unwrap();
    // Answers are waited for also when no further request will come.
    socket.shutdown(Shutdown::Write).unwrap();
    // It takes some at any time, so it is no client that reads nothing.
    let (began, mut piece) = (Instant::now(), vec![0; 100_000]);
    let mut is_closed = false;
    while !is_closed && began.elapsed() < Duration::from_secs(40) {
        thread::sleep(Duration::from_millis(100));
        is_closed = !socket.read(&mut piece).is_ok_and(|bytes| bytes > 0);
    }
    assert!(is_closed);
}

#[test]
fn calls_of_the_node_wait_while_their_client_does_not_read() {
    let mut chain = ChainBuilder::new(29);
    mix::mature(&mut chain);
    let payment = Payment::to_lock(Lock::new(Form::P2tr, 7), 1000);
    let txid = chain.pay(&vec![payment; 2000]);
    chain.mine_block();
    let node = node_with(&chain);
    let limits = Limits { outgoing_bytes: 100_000, ..Limits::default() };
    let server = Server::listening(&node, Settings::default(), vec![tcp(limits)]);
    let mut socket = server.socket();
    let request = json!({ "id": 1, "method": "blockchain.transaction.get", "params": [txid.to_string(), true] });
    let reply = server.client().call("blockchain.transaction.get", json!([txid.to_string(), true])).unwrap();
    let bytes = reply.to_string().len();
    socket.write_all(format!("{request}\n").repeat(60).as_bytes()).unwrap();
    // One client has at most half of the eight calls; each may answer when there was room before.
    let most = most_unsent(&server);
    assert!(most < 6 * bytes, "{most} bytes of replies of {bytes}");
    let mut socket = BufReader::new(socket);
    for _ in 0..60 {
        assert!(read_line(&mut socket).len() > bytes);
    }
}

#[test]
fn transactions_that_wait_for_the_node_have_room_by_bytes() {
    // The clients of this machine share twenty times the limits of one.
    let (node, server) = limited(Limits { client_unsent_bytes: Some(10_000), ..Limits::default() });
    let mut socket = server.socket();
    node.pause().unwrap();
    let raw = "00".repeat(50_000);
    let request = json!({ "id": 1, "method": "blockchain.transaction.broadcast", "params": [raw] });
    socket.write_all(format!("{request}\n").repeat(10).as_bytes()).unwrap();
    // Three begin before 200 000 bytes are exceeded.
    let mut socket = BufReader::new(socket);
    let replies = [(); 7].map(|()| serde_json::from_str::<Value>(&read_line(&mut socket)).unwrap());
    node.resume().unwrap();
    for reply in replies {
        assert_eq!(reply["error"]["code"], -101, "{reply}");
    }
}

#[test]
fn the_idlest_client_makes_room_for_a_newcomer() {
    let (_node, server) = limited(Limits { connections: 2, ..Limits::default() });
    let [mut first, mut second, mut third] = [(); 3].map(|()| {
        let mut client = server.client();
        assert_eq!(client.call("server.ping", json!([])).unwrap(), Value::Null);
        client
    });
    assert!(first.closed_within(Duration::from_secs(30)));
    for client in [&mut second, &mut third] {
        assert_eq!(client.call("server.ping", json!([])).unwrap(), Value::Null);
    }
}

#[test]
fn subscriptions_beyond_their_bound_are_refused() {
    let (_node, server) = limited(Limits { subscriptions: 2, ..Limits::default() });
    let mut client = server.client();
    let mut subscribe = |byte: &str| {
        let request = ("blockchain.scripthash.subscribe", json!([byte.repeat(32)]));
        client.batch(&[request]).unwrap().remove(0)
    };
    assert_eq!(subscribe("aa"), Ok(Value::Null));
    assert_eq!(subscribe("bb"), Ok(Value::Null));
    assert_eq!(subscribe("cc").unwrap_err()["code"], json!(-101));
    assert_eq!(subscribe("aa"), Ok(Value::Null));
}

#[test]
fn a_silent_client_is_closed_after_its_time() {
    let (_node, server) = limited(Limits { first_message_timeout: Duration::from_millis(50), ..Limits::default() });
    assert_eq!(server.socket().read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_shutdown_answers_what_is_in_flight_and_closes() {
    let (_node, mut server) = world(Settings::default());
    let mut idle = server.socket();
    let mut client = server.client();
    assert_eq!(client.call("server.ping", json!([])).unwrap(), Value::Null);
    server.stop();
    assert!(client.closed_within(Duration::from_secs(30)));
    assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
    assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err());
}
