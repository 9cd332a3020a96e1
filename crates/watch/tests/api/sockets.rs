//! Streams over a WebSocket, and the cursor of streams that leave blocks out.

use std::net::TcpStream;
use std::time::Duration;

use birdhouse_chain::ScriptHash;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::HandshakeError;
use tokio_tungstenite::tungstenite::http::HeaderName;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

use crate::world::{TOKEN, World, event, shop_script, to_shop};

const PATIENCE: Duration = Duration::from_mins(1);

/// Asks for a WebSocket; or returns the status of the refusal.
fn ask(world: &World, path: &str, headers: &[(&str, &str)]) -> Result<WebSocket<TcpStream>, u16> {
    let port = world.server.port;
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = format!("ws://127.0.0.1:{port}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    match client(request, socket) {
        Ok((socket, _)) => Ok(socket),
        Err(HandshakeError::Failure(Error::Http(refusal))) => Err(refusal.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

fn open(world: &World, path: &str) -> WebSocket<TcpStream> {
    ask(world, path, &[("authorization", &format!("Bearer {TOKEN}"))]).unwrap()
}

/// The next message.
fn next(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// All messages up to the end of a block, which is the last of them.
fn until_tip(socket: &mut WebSocket<TcpStream>) -> Vec<Value> {
    let mut messages = Vec::new();
    loop {
        messages.push(next(socket));
        if messages.last().is_some_and(|last| last.get("id").is_some()) {
            return messages;
        }
    }
}

fn cursor(world: &World) -> String {
    let (height, hash) = world.tip();
    format!("{height}:{hash}")
}

#[test]
fn a_socket_has_the_events_of_the_stream_and_their_cursor() {
    let mut world = World::start(61);
    world.sync();
    let begun = cursor(&world);
    let mut socket = open(&world, "/stream");
    assert_eq!(next(&mut socket), json!({ "id": begun }), "it listens from here on");
    let mut stream = world.server.listen("/stream", None).begun();
    world.live.pay(&[to_shop(0, 70_000)]).unwrap();
    world.live.mine().unwrap();
    let paid = world.live.pay(&[to_shop(1, 20_000)]).unwrap().compute_txid();
    world.live.mine().unwrap();
    world.sync();
    // The stream is the oracle; a tip has its id as a member.
    let mut reported = stream.until("ChainTip");
    let (height, hash) = world.tip();
    assert_eq!(reported.pop(), Some(event("ChainTip", json!([height, hash]))));
    reported.push(json!({ "category": "ChainTip", "params": [height, hash], "id": cursor(&world) }));
    assert!(reported.contains(&event("Transaction", json!([paid, height]))), "{reported:?}");
    assert_eq!(until_tip(&mut socket), reported);

    // A client that comes back misses nothing, and one whose block a reorg has taken learns so before the upgrade.
    for path in [format!("/stream?synced-tip={begun}"), format!("/stream?synced-tip={}", begun.replace(':', "%3A"))] {
        let mut back = open(&world, &path);
        assert_eq!(until_tip(&mut back), reported, "{path}");
    }
    let token = format!("Bearer {TOKEN}");
    let gone = format!("/stream?synced-tip={height}:{}", "00".repeat(32));
    assert_eq!(ask(&world, &gone, &[("authorization", &token)]).err(), Some(410));
    let last = [("authorization", token.as_str()), ("last-event-id", begun.as_str())];
    assert_eq!(until_tip(&mut ask(&world, "/stream", &last).unwrap()), reported);
}

#[test]
fn a_stream_that_leaves_blocks_out_has_a_cursor_all_the_same() {
    let mut world = World::start(62);
    world.sync();
    let first = cursor(&world);
    let script = ScriptHash::of(shop_script(0, 9).as_bytes());
    let paths = ["/stream?category=TxoFunded".to_owned(), format!("/scripthash/{script}/stream")];
    let mut streams: Vec<_> = paths.iter().map(|path| world.server.listen(path, None).begun()).collect();
    let mut sockets: Vec<_> = paths.iter().map(|path| open(&world, path)).collect();
    for stream in &mut streams {
        assert_eq!(stream.position(), first, "where it begins");
    }
    for socket in &mut sockets {
        assert_eq!(next(socket), json!({ "id": first }));
    }
    world.live.mine().unwrap();
    world.sync();
    let second = cursor(&world);
    for stream in &mut streams {
        assert_eq!(stream.position(), second);
    }
    for socket in &mut sockets {
        assert_eq!(next(socket), json!({ "id": second }));
    }
    // Behind the events of its block, also for a client that comes back.
    let paid = world.live.pay(&[to_shop(0, 70_000)]).unwrap().compute_txid();
    world.live.mine().unwrap();
    world.sync();
    let (height, third) = (world.tip().0, cursor(&world));
    let mut back = world.server.listen("/stream?category=TxoFunded", Some(&second)).begun();
    let funded = back.next();
    assert_eq!(funded.data["params"][0], json!(format!("{paid}:0")));
    assert_eq!((funded.data["params"][3].clone(), funded.id), (json!(height), String::new()));
    assert_eq!(back.position(), third);
}

#[test]
fn a_socket_is_for_programs_with_the_token_that_listen() {
    let world = World::start(63);
    world.sync();
    let token = format!("Bearer {TOKEN}");
    let own = format!("http://127.0.0.1:{}", world.server.port);
    assert_eq!(ask(&world, "/stream", &[]).err(), Some(401));
    for origin in ["http://evil.example", "null", "http://127.0.0.1"] {
        let headers = [("authorization", token.as_str()), ("origin", origin)];
        assert_eq!(ask(&world, "/stream", &headers).err(), Some(403), "{origin}");
    }
    assert!(ask(&world, "/stream", &[("authorization", token.as_str()), ("origin", &own)]).is_ok());
    // A path without a stream stays one.
    assert_eq!(ask(&world, "/wallets", &[("authorization", token.as_str())]).err(), Some(200));
    for (sent, code) in [(1, CloseCode::Policy), (5_000, CloseCode::Size)] {
        let mut socket = open(&world, "/invoices/stream");
        socket.send(Message::text("x".repeat(sent))).unwrap();
        let ended = loop {
            match socket.read().unwrap() {
                Message::Close(frame) => break frame.unwrap().code,
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ended, code);
    }
}
