//! Every transport with a real client, and with hostile and broken ones.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_electrum::{Certificate, Limits, Listener, Proxy, Settings, Transport};
use birdhouse_testkit::pipe::{self, Lines, Pipe};
use birdhouse_testkit::{Bitcoind, ChainBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, WebSocket};

use crate::world::{Server, node_with};

/// A server with one listener for each transport, in this order.
const TCP: usize = 0;
const TLS: usize = 1;
const WS: usize = 2;
const WSS: usize = 3;

struct World {
    chain: ChainBuilder,
    node: Bitcoind,
    server: Server,
    folder: TempDir,
}

impl World {
    fn new(limits: &Limits, proxy: &Proxy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Arc::new(Certificate::self_signed(folder.path(), &[]).unwrap());
        let transports =
            [Transport::Tcp, Transport::Tls(Arc::clone(&certificate)), Transport::Ws, Transport::Wss(certificate)];
        let listener = |transport: Transport| Listener {
            name: transport.name().into(),
            transport,
            proxy: proxy.clone(),
            limits: limits.clone(),
        };
        let mut chain = ChainBuilder::new(22);
        chain.mine(3);
        let node = node_with(&chain);
        let server = Server::listening(&node, Settings::default(), transports.map(listener).into());
        Self { chain, node, server, folder }
    }

    fn limited(limits: &Limits) -> Self {
        Self::new(limits, &Proxy::Off)
    }

    fn socket(&self, transport: usize) -> TcpStream {
        pipe::tcp(self.server.ports[transport]).unwrap()
    }

    fn websocket(&self) -> WebSocket<TcpStream> {
        pipe::ws(self.socket(WS)).unwrap()
    }

    fn pipe(&self, transport: usize) -> Box<dyn Pipe> {
        over(self.socket(transport), transport)
    }
}

/// A client of a transport on a socket.
fn over(socket: TcpStream, transport: usize) -> Box<dyn Pipe> {
    match transport {
        TCP => Box::new(Lines(socket)),
        TLS => Box::new(Lines(pipe::tls(socket).unwrap())),
        WS => Box::new(pipe::ws(socket).unwrap()),
        _ => Box::new(pipe::ws(pipe::tls(socket).unwrap()).unwrap()),
    }
}

/// Returns true if the server closes a connection without a reply.
fn is_closed(mut socket: TcpStream) -> bool {
    let mut said = Vec::new();
    let _ = socket.read_to_end(&mut said);
    said.is_empty()
}

fn ping(pipe: &mut dyn Pipe) {
    assert_eq!(pipe.call("server.ping", &json!([])).unwrap(), Value::Null);
}

#[test]
fn every_transport_answers_and_notifies() {
    let mut world = World::limited(&Limits::default());
    let mut pipes = [TCP, TLS, WS, WSS].map(|transport| world.pipe(transport));
    for pipe in &mut pipes {
        assert_eq!(pipe.call("blockchain.headers.subscribe", &json!([])).unwrap()["height"], 3);
    }
    world.chain.mine(1);
    world.chain.submit_to(&world.node).unwrap();
    world.server.sync();
    for pipe in &mut pipes {
        let notification = pipe.json().unwrap();
        assert_eq!(notification["method"], "blockchain.headers.subscribe");
        assert_eq!(notification["params"][0]["height"], 4);
    }
}

#[test]
fn every_transport_carries_requests_and_replies_of_any_size() {
    let world = World::limited(&Limits::default());
    for transport in [TCP, TLS, WS, WSS] {
        let mut pipe = world.pipe(transport);
        let request = |id: u32| json!({ "id": id, "method": "blockchain.block.header", "params": [0] });
        for size in [1, 2, 100, 2000] {
            let batch: Vec<Value> = (0..size).map(request).collect();
            pipe.send(&json!(batch).to_string()).unwrap();
            assert_eq!(pipe.json().unwrap().as_array().unwrap().len(), batch.len());
        }
    }
}

// === WebSocket ===

#[test]
fn websocket_messages_may_be_binary_fragmented_pretty_and_between_pings() {
    let world = World::limited(&Limits::default());
    let mut client = world.websocket();
    let request = b"{\n  \"id\": 1,\n  \"method\": \"server.ping\"\n}\n";
    client.send(Message::binary(&request[..])).unwrap();
    assert_eq!(client.json().unwrap()["id"], 1);
    let fragment =
        |data, bytes: &'static [u8], is_final| Message::Frame(Frame::message(bytes, OpCode::Data(data), is_final));
    client.send(fragment(Data::Text, &request[..10], false)).unwrap();
    client.send(Message::Ping(Bytes::from_static(b"there?"))).unwrap();
    client.send(fragment(Data::Continue, &request[10..20], false)).unwrap();
    client.send(fragment(Data::Continue, &request[20..], true)).unwrap();
    assert_eq!(client.read().unwrap(), Message::Pong(Bytes::from_static(b"there?")));
    assert_eq!(client.json().unwrap()["id"], 1);
}

/// The server's messages until it closes, and its close code.
fn last_words(client: &mut WebSocket<TcpStream>) -> (Vec<Value>, CloseCode) {
    let mut said = Vec::new();
    loop {
        match client.read().unwrap() {
            Message::Text(text) => said.push(serde_json::from_str(&text).unwrap()),
            Message::Close(Some(CloseFrame { code, .. })) => {
                // Then the connection itself is closed.
                assert!(matches!(client.read(), Err(Error::ConnectionClosed)));
                return (said, code);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_websocket_closes_with_a_code_that_says_why() {
    let mut world = World::limited(&Limits { message_bytes: 100, ..Limits::default() });

    let mut client = world.websocket();
    client.send(Message::text("x".repeat(101))).unwrap();
    let (said, code) = last_words(&mut client);
    assert_eq!((&said[0]["error"]["code"], code), (&json!(-101), CloseCode::Size));

    let mut client = world.websocket();
    client.send(Message::Frame(Frame::message(&b"\xff"[..], OpCode::Data(Data::Text), true))).unwrap();
    assert_eq!(last_words(&mut client).1, CloseCode::Invalid);

    let mut client = world.websocket();
    client.get_mut().write_all(&[0x81, 1, b'x']).unwrap();
    assert_eq!(last_words(&mut client).1, CloseCode::Protocol, "a frame without a mask");

    let mut client = world.websocket();
    client.send(Message::text(r#"{"id":1,"method":"server.version","params":["c","0.5"]}"#)).unwrap();
    let (said, code) = last_words(&mut client);
    assert_eq!((&said[0]["id"], code), (&json!(1), CloseCode::Policy));

    let mut client = world.websocket();
    client.close(Some(CloseFrame { code: CloseCode::Normal, reason: "bye".into() })).unwrap();
    assert_eq!(last_words(&mut client).1, CloseCode::Normal);

    let mut client = world.websocket();
    ping(&mut client);
    world.server.stop();
    assert_eq!(last_words(&mut client).1, CloseCode::Away);
}

#[test]
fn what_is_no_websocket_handshake_is_closed() {
    let world = World::limited(&Limits::default());
    for bytes in
        [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"{\"id\":1,\"method\":\"server.ping\"}\r\n\r\n", &[0; 500]]
    {
        let mut socket = world.socket(WS);
        socket.write_all(bytes).unwrap();
        let mut said = String::new();
        let _ = socket.read_to_string(&mut said);
        assert!(!said.contains(" 101 "), "{said}");
    }
    ping(&mut *world.pipe(WS));
}

#[test]
fn a_page_of_another_site_opens_no_websocket_over_loopback() {
    let world = World::limited(&Limits::default());
    for (host, origin, expected) in [
        ("127.0.0.1:50003", "", " 101 "),
        ("127.0.0.1:50003", "Origin: http://localhost:8080\r\n", " 101 "),
        ("127.0.0.1:50003", "Origin: https://evil.example\r\n", " 403 "),
        ("evil.example:50003", "Origin: http://evil.example:50003\r\n", " 403 "),
    ] {
        let mut socket = world.socket(WS);
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\n{origin}Connection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 64];
        let length = socket.read(&mut head).unwrap();
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        assert!(head.contains(expected), "{host}, {origin:?}: {head}");
    }
}

// === TLS ===

fn replace_pair(folder: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let (chain, secret) = (folder.join("chain.pem"), folder.join("key.pem"));
    std::fs::write(&secret, key.serialize_pem()).unwrap();
    std::fs::write(&chain, certificate.pem()).unwrap();
    (chain, secret)
}

#[test]
fn a_new_certificate_is_shown_to_newcomers_while_open_connections_go_on() {
    let mut chain = ChainBuilder::new(23);
    chain.mine(1);
    let node = node_with(&chain);
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = replace_pair(folder.path());
    let certificate = Arc::new(Certificate::open(&cert, &key).unwrap());
    let listener = Listener {
        name: "tls".into(),
        transport: Transport::Tls(certificate),
        proxy: Proxy::Off,
        limits: Limits::default(),
    };
    let server = Server::listening(&node, Settings::default(), vec![listener]);
    let shown = || pipe::certificate(&pipe::tls(pipe::tcp(server.port).unwrap()).unwrap()).unwrap();
    let mut early = Lines(pipe::tls(pipe::tcp(server.port).unwrap()).unwrap());
    let first = shown();
    replace_pair(folder.path());
    let start = Instant::now();
    while shown() == first {
        assert!(start.elapsed() < Duration::from_mins(1), "the new certificate is never shown");
        std::thread::sleep(Duration::from_millis(200));
    }
    ping(&mut early);
}

#[test]
fn tls_garbage_and_half_open_handshakes_end_and_free_their_places() {
    let limits = Limits { connections: 4, handshake_timeout: Duration::from_millis(300), ..Limits::default() };
    let world = World::limited(&limits);
    let garbage: Vec<u8> = (0..2000u32).map(|index| index.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    for _ in 0..10 {
        // Some send nothing, some stop halfway, some send noise, some connect to the wrong port.
        let sockets = [0, 1, 2, 3].map(|_| world.socket(TLS));
        let [_silent, mut halfway, mut nonsense, mut lost] = sockets.each_ref();
        halfway.write_all(&[22, 3, 1, 1, 0, 1, 0]).unwrap();
        nonsense.write_all(&garbage).unwrap();
        lost.write_all(b"{\"id\":1,\"method\":\"server.ping\"}\n").unwrap();
        for mut socket in sockets {
            let _ = socket.read_to_end(&mut Vec::new());
        }
    }
    // A good handshake may take longer than the limit on a busy machine, too. Without a place none ever succeeds.
    let connect = || pipe::tls(world.socket(TLS)).ok();
    let is_served = |stream| Lines(stream).call("server.ping", &json!([])).is_ok();
    let began = Instant::now();
    while !connect().is_some_and(is_served) {
        assert!(began.elapsed() < Duration::from_mins(1), "no place is free");
    }
}

// === what is charged ===

/// Limits with this work for the clients of this machine, which share twenty times the limits of one, and with
/// nothing forgiven.
fn with_work(work: Duration) -> Limits {
    Limits { client_work: Some(work / 20), client_work_percent: 0, ..Limits::default() }
}

#[test]
fn handshakes_of_tls_are_charged_before_they_are_done() {
    let world = World::limited(&with_work(Duration::from_millis(20)));
    // Each counts as a millisecond and more.
    let opened = (0..40).map(|_| world.socket(TLS)).collect::<Vec<_>>();
    assert!(is_closed(opened.into_iter().last().unwrap()));
    assert!(world.pipe(TCP).call("server.ping", &json!([])).is_err(), "a client that has used up its share");
}

#[test]
fn pings_of_a_websocket_are_charged() {
    let world = World::limited(&with_work(Duration::from_millis(20)));
    let mut client = world.websocket();
    // Each counts as ten microseconds.
    for _ in 0..2500 {
        client.write(Message::Ping(Bytes::new())).unwrap();
    }
    client.flush().unwrap();
    let mut other = world.pipe(TCP);
    let is_refused = (0..40).any(|_| {
        thread::sleep(Duration::from_millis(250));
        other.call("server.ping", &json!([])).is_err()
    });
    assert!(is_refused);
}

// === PROXY ===

fn behind_proxy(networks: &[&str], limits: &Limits) -> World {
    World::new(limits, &Proxy::From(networks.iter().map(|network| network.parse().unwrap()).collect()))
}

fn v2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &length, addresses].concat()
}

/// Opens a connection of the client that the header names.
fn named(world: &World, address: &str) -> TcpStream {
    let version = if address.contains(':') { 6 } else { 4 };
    let mut socket = world.socket(TCP);
    socket.write_all(format!("PROXY TCP{version} {address} {address} 1000 50001\r\n").as_bytes()).unwrap();
    socket
}

#[test]
fn one_network_cannot_take_every_place() {
    let world = behind_proxy(&["127.0.0.0/8"], &Limits { connections: 10, ..Limits::default() });
    let mut early = Lines(named(&world, "192.0.2.1"));
    ping(&mut early);
    // Nine homes of one provider, which are idle.
    let mut idle: Vec<Lines<TcpStream>> =
        (0..9).map(|home| Lines(named(&world, &format!("2001:db8:1:{home}00::1")))).collect();
    for client in &mut idle {
        ping(client);
    }
    ping(&mut early);
    let mut newcomers = [1, 2, 3].map(|number| Lines(named(&world, &format!("198.51.100.{number}"))));
    for newcomer in &mut newcomers {
        ping(newcomer);
    }
    ping(&mut early);
    assert_eq!(world.server.refused_connections().displaced, 3);
}

#[test]
fn a_network_with_as_many_connections_as_it_may_have_gives_a_place_itself() {
    let world = behind_proxy(&["127.0.0.0/8"], &Limits { network_connections: Some(3), ..Limits::default() });
    let mut open: Vec<Lines<TcpStream>> =
        (0..3).map(|home| Lines(named(&world, &format!("2001:db8:1:{home}00::1")))).collect();
    for client in &mut open {
        ping(client);
    }
    // The first one is not as idle as the second any more.
    ping(&mut open[0]);
    let mut newcomer = Lines(named(&world, "2001:db8:1:400::1"));
    ping(&mut newcomer);
    ping(&mut Lines(named(&world, "2001:db8:2:400::1")));
    assert_eq!(world.server.refused_connections().network, 1);
    assert!(open[1].call("server.ping", &json!([])).is_err());
    for client in [0, 2] {
        ping(&mut open[client]);
    }
}

#[test]
fn connections_are_counted_by_the_address_in_the_proxy_header() {
    let world = behind_proxy(&["127.0.0.0/8"], &Limits { client_connections: Some(1), ..Limits::default() });
    let open = |transport: usize, header: &[u8]| {
        let mut socket = world.socket(transport);
        socket.write_all(header).unwrap();
        socket
    };
    for (number, transport) in (1..).zip([TCP, TLS, WS, WSS]) {
        // Clients of their own for each transport: those of the one before may not have left yet.
        let text = |line: &str| line.replace('#', &number.to_string()).into_bytes();
        let clients = [
            text("PROXY TCP4 192.0.2.# 127.0.0.1 1000 50001\r\n"),
            text("PROXY TCP6 2001:db8:#::1 ::1 1000 50001\r\n"),
            text("PROXY TCP6 fc00:dead:beef:4dad::1:# ::1 65535 42\r\n"),
            text("PROXY TCP6 fc00:dead:beef:4dad::2:# ::1 65535 42\r\n"),
            v2(0x21, 0x11, &[192, 0, 3, number, 127, 0, 0, 1, 1, 1, 1, 1]),
            // The proxy speaks for itself. Its address is that of no client, so it counts for none.
            v2(0x20, 0x00, &[]),
            text("PROXY UNKNOWN\r\n"),
        ];
        let mut open_pipes = clients.map(|header| over(open(transport, &header), transport));
        for pipe in &mut open_pipes {
            ping(&mut **pipe);
        }
        // The same clients, with the other form of their addresses.
        let again = [
            text("PROXY TCP6 ::ffff:192.0.2.# ::1 2000 50001\r\n"),
            text("PROXY TCP6 2001:db8:#::2 ::1 1000 50001\r\n"),
            text("PROXY TCP6 fc00:dead:beef:4dad::2:# ::1 65535 42\r\n"),
            v2(0x21, 0x11, &[192, 0, 3, number, 127, 0, 0, 1, 2, 2, 2, 2]),
        ];
        for header in again {
            let mut said = String::new();
            let _ = open(transport, &header).read_to_string(&mut said);
            let is_refused = said.contains("too many connections from one address");
            assert_eq!(is_refused, transport == TCP, "{transport}: {said:?}");
        }
        for pipe in &mut open_pipes {
            ping(&mut **pipe);
        }
    }
}

#[test]
fn without_its_proxy_header_a_connection_is_closed() {
    let world =
        behind_proxy(&["127.0.0.0/8"], &Limits { handshake_timeout: Duration::from_millis(300), ..Limits::default() });
    let long = [b"PROXY TCP4 ".to_vec(), vec![b'1'; 200]].concat();
    let huge = [&v2(0x21, 0x11, &[])[..14], &[0xff, 0xff]].concat();
    let headers: [&[u8]; 8] = [
        b"",
        b"PROXY TCP4 192.0.2.1 127.0",
        b"{\"id\":1,\"method\":\"server.ping\"}\n",
        b"PROXY TCP4 192.0.2.1 127.0.0.1 1000\r\n",
        b"PROXY TCP4 192.0.2.1 127.0.0.1 1000 50001\n",
        &long,
        &v2(0x21, 0x11, &[1, 2, 3]),
        &huge,
    ];
    for header in headers {
        let mut socket = world.socket(TCP);
        socket.write_all(header).unwrap();
        assert!(is_closed(socket), "{:?}", String::from_utf8_lossy(header));
    }
}

#[test]
fn a_proxy_header_from_elsewhere_is_not_believed() {
    let world = behind_proxy(&["192.0.2.0/24", "2001:db8::/32"], &Limits::default());
    let mut socket = world.socket(TCP);
    socket.write_all(b"PROXY TCP4 192.0.2.1 127.0.0.1 1000 50001\r\n{\"id\":1,\"method\":\"server.ping\"}\n").unwrap();
    assert!(is_closed(socket));
}

#[test]
fn a_proxy_header_may_come_with_the_first_request_and_in_pieces() {
    let world = behind_proxy(&["127.0.0.0/8"], &Limits::default());
    let headers: [Vec<u8>; 2] = [
        b"PROXY TCP4 192.0.2.1 127.0.0.1 1000 50001\r\n".to_vec(),
        v2(0x21, 0x21, &[[7; 36].to_vec(), vec![4, 0, 1, 0]].concat()),
    ];
    for header in headers {
        let bytes = [&header[..], b"{\"id\":1,\"method\":\"server.ping\"}\n"].concat();
        for cut in [0, 1, 12, 13, 16, header.len() - 1, header.len()] {
            let mut socket = world.socket(TCP);
            socket.write_all(&bytes[..cut]).unwrap();
            // The pause makes two segments of the bytes; it waits for no condition.
            std::thread::sleep(Duration::from_millis(5));
            socket.write_all(&bytes[cut..]).unwrap();
            assert_eq!(Lines(socket).json().unwrap()["result"], Value::Null, "cut at {cut}");
        }
    }
}

// === time ===

#[test]
fn silent_and_trickling_clients_are_closed() {
    // So long that those which must stay are in time on a busy machine.
    let soon = Duration::from_secs(2);
    let world = World::limited(&Limits { first_message_timeout: soon, message_timeout: soon, ..Limits::default() });
    assert!(is_closed(world.socket(TCP)), "says nothing");
    let start = Instant::now();
    let mut socket = world.socket(TCP);
    while socket.write_all(b"x").is_ok() {
        assert!(start.elapsed() < Duration::from_mins(1), "a line that never ends goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut client = world.websocket();
    client.send(Message::Frame(Frame::message(&b"{"[..], OpCode::Data(Data::Text), false))).unwrap();
    while client.send(Message::Ping(Bytes::new())).is_ok() {
        assert!(start.elapsed() < Duration::from_mins(1), "pings keep half a message alive");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut patient = world.pipe(TCP);
    ping(&mut *patient);
    // Proves that nothing happens: the connection is not closed in this time.
    std::thread::sleep(2 * soon);
    ping(&mut *patient);
}

#[test]
fn a_shutdown_under_load_ends_every_transport_in_time() {
    let mut world = World::limited(&Limits::default());
    let pipes = [TCP, TLS, WS, WSS].map(|transport| world.pipe(transport));
    let (answered, answers) = std::sync::mpsc::sync_channel(4);
    let busy = pipes.map(|mut pipe| {
        let answered = answered.clone();
        std::thread::spawn(move || {
            let request =
                json!({ "id": 1, "method": "blockchain.scripthash.get_history", "params": ["ab".repeat(32)] });
            let batch = json!(vec![request; 500]).to_string();
            let mut rounds = 0;
            while pipe.send(&batch).is_ok() && pipe.receive().is_ok() {
                if rounds == 0 {
                    answered.send(()).unwrap();
                }
                rounds += 1;
            }
            rounds
        })
    });
    // Neither an open handshake nor a client that never reads may delay it.
    let _half_open = [TCP, TLS, WS, WSS].map(|transport| world.socket(transport));
    for _ in &busy {
        answers.recv_timeout(Duration::from_mins(1)).expect("every transport answers");
    }
    let start = Instant::now();
    world.server.stop();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for thread in busy {
        assert!(thread.join().unwrap() > 0, "there was no load");
    }
    drop(world.folder);
}
