//! HTTP around the answers: CORS, validators, compression, bodies, and a server that is not ready.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use birdhouse_esplora::Limits;
use birdhouse_testkit::{Bitcoind, Options};
use serde_json::json;

use crate::world::{Rest, SMALL, World};

/// Sends bytes and returns everything that comes until the server closes.
fn exchange(rest: &Rest, request: &str) -> String {
    exchange_at(rest.port, request)
}

fn exchange_at(port: u16, request: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_answer_before_the_end_of_a_request_says_that_the_connection_ends() {
    let world = World::small(44);
    let begun = "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n";
    let answer = exchange(&world.rest, begun);
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("connection: close\r\n"), "{answer}");
    let whole = "POST /tx HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nzz";
    let last = "GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers = exchange(&world.rest, &format!("{whole}{last}"));
    let count = |text| answers.matches(text).count();
    assert_eq!((count("HTTP/1.1 "), count("connection: close")), (2, 1), "{answers}");
}

#[test]
fn a_path_with_empty_parts_is_served_as_one_without() {
    let world = World::small(57);
    let height = |path: &str| {
        let answer = exchange(&world.rest, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let expected = world.live.ledger().height().to_string();
    assert_eq!(height("//blocks/tip/height"), expected);
    assert_eq!(height("/api//blocks//tip/height"), expected);
}

#[test]
fn requests_that_name_nothing_use_up_the_share_of_their_client() {
    let limits = Limits { client_work: Some(Duration::from_millis(2)), client_work_percent: 1, ..Limits::default() };
    let world = World::of(45, SMALL, limits);
    let began = Instant::now();
    let wrong = "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".repeat(199);
    let last = "GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answers =
        exchange_at(world.rest.proxied_port, &format!("PROXY TCP4 203.0.113.5 127.0.0.1 1 1\r\n{wrong}{last}"));
    assert_eq!(answers.matches("HTTP/1.1 404").count(), 200);
    // A hundred take what may be used at once, and each one after them 20 us, which come back at a hundredth.
    assert!(began.elapsed() > Duration::from_millis(150), "{:?}", began.elapsed());
}

#[test]
fn an_overdrawn_client_is_told_when_to_ask_again_and_no_other_one() {
    // Nothing comes back.
    let limits = Limits { client_work: Some(Duration::from_millis(2)), client_work_percent: 0, ..Limits::default() };
    let world = World::of(46, SMALL, limits);
    let wrong = "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".repeat(110);
    let last = "GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let proxied = |address, requests: &str| {
        exchange_at(world.rest.proxied_port, &format!("PROXY TCP4 {address} 127.0.0.1 1 1\r\n{requests}{last}"))
    };
    let refused = proxied("203.0.113.6", &wrong);
    let (_, refused) = refused.split_once("HTTP/1.1 429").expect("a refusal");
    assert!(refused.contains("retry-after: 1\r\n"), "{refused}");
    assert!(proxied("203.0.113.7", "").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_download_that_is_not_read_ends_in_time() {
    let world = World::of(49, SMALL, Limits { download_timeout: Duration::from_millis(500), ..Limits::default() });
    let tip = world.rest.text("/blocks/tip/hash");
    let txid = world.rest.json(&format!("/block/{tip}/txids"))[0].clone();
    // Some 10 MB, more than the buffers of the system hold.
    let body = json!(vec![txid; 14_000]).to_string();
    let request = format!("POST /internal/txs HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let mut socket = TcpStream::connect(("127.0.0.1", world.rest.private_port)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let (began, mut error) = (Instant::now(), None);
    while error.is_none() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
        // Fails when the server has closed.
        error = socket.write(b"x").err().map(|error| error.kind()).filter(|kind| *kind != ErrorKind::WouldBlock);
    }
    assert!(matches!(error, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)), "{error:?}");
}

#[test]
fn one_network_cannot_take_every_place() {
    let world = World::of(48, SMALL, Limits { connections: 10, ..Limits::default() });
    let open = |address: &str| {
        let version = if address.contains(':') { 6 } else { 4 };
        let mut socket = TcpStream::connect(("127.0.0.1", world.rest.proxied_port)).unwrap();
        socket.write_all(format!("PROXY TCP{version} {address} {address} 1 1\r\n").as_bytes()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let ask = |socket: &mut TcpStream| {
        socket.write_all(b"HEAD /blocks/tip/height HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    };
    let mut early = open("192.0.2.1");
    ask(&mut early);
    // Nine homes of one provider, which are idle.
    let mut idle: Vec<TcpStream> = (0..9).map(|home| open(&format!("2001:db8:1:{home}00::1"))).collect();
    for client in &mut idle {
        ask(client);
    }
    let mut newcomers = [1, 2, 3].map(|number| open(&format!("198.51.100.{number}")));
    for newcomer in &mut newcomers {
        ask(newcomer);
    }
    ask(&mut early);
}

#[test]
fn bodies_that_do_not_end_hold_no_more_memory_than_their_client_may() {
    let limits = Limits { client_unsent_bytes: Some(200_000), ..Limits::default() };
    let world = World::of(47, SMALL, limits);
    let begin = |address: &str| {
        let mut socket = TcpStream::connect(("127.0.0.1", world.rest.proxied_port)).unwrap();
        let head = format!("PROXY TCP4 {address} 127.0.0.1 1 1\r\nPOST /tx HTTP/1.1\r\nContent-Length: 150000\r\n\r\n");
        socket.write_all((head + &"0".repeat(149_999)).as_bytes()).unwrap();
        socket
    };
    // All but the first two or three are answered before they end, and well before their time is over.
    let mut sockets = [(); 6].map(|()| begin("203.0.113.8"));
    let last = begin("203.0.113.9");
    let answers = sockets.each_mut().map(|socket| {
        let mut answer = [0; 12];
        socket.set_read_timeout(Some(Duration::from_secs(4))).unwrap();
        socket.read_exact(&mut answer).map(|()| answer)
    });
    let refused = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|answer| answer == b"HTTP/1.1 503")).count();
    assert!((1..6).contains(&refused), "{refused}");
    let mut last = last;
    last.write_all(b"0").unwrap();
    let mut answer = [0; 12];
    last.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400", "another client's body is read to its end");
}

#[test]
fn answers_have_the_headers_that_browsers_and_caches_need() {
    let world = World::small(41);
    let rest = &world.rest;
    let hash = world.live.ledger().chain()[3].hash;
    // CORS, for answers, refusals and preflights.
    for path in ["/blocks/tip/height", "/nothing", "/tx/zz"] {
        assert_eq!(rest.get(path).header("access-control-allow-origin"), "*", "{path}");
    }
    let preflight = exchange(
        rest,
        "OPTIONS /tx HTTP/1.1\r\nHost: x\r\nOrigin: https://wallet.example\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: content-type\r\nConnection: close\r\n\r\n",
    );
    assert!(preflight.starts_with("HTTP/1.1 204 No Content\r\n"), "{preflight}");
    for header in ["access-control-allow-origin: *", "access-control-allow-headers: *", "POST, OPTIONS"] {
        assert!(preflight.contains(header), "{header}: {preflight}");
    }
    // Validators.
    for path in [format!("/block/{hash}"), format!("/block/{hash}/raw"), "/blocks/tip/hash".into()] {
        let got = rest.get(&path);
        let etag = got.header("etag");
        assert!(!etag.is_empty(), "{path}");
        let again = rest.get_with(&path, &[("if-none-match", etag)]);
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, etag), "{path}");
        assert_eq!(rest.get_with(&path, &[("if-none-match", "\"other\"")]).status, 200, "{path}");
    }
    let modified = rest.get(&format!("/block/{hash}/header")).header("last-modified").to_owned();
    assert!(modified.ends_with(" GMT"), "{modified}");
    // Compression, only where it was asked for and pays.
    let plain = rest.get("/blocks");
    assert_eq!(plain.header("content-encoding"), "");
    let packed = rest.get_with("/blocks", &[("accept-encoding", "gzip")]);
    assert_eq!((packed.header("content-encoding"), &packed.body[..2]), ("gzip", &[0x1f, 0x8b][..]));
    assert!(packed.body.len() < plain.body.len() / 2);
    assert_eq!(rest.get_with("/blocks/tip/hash", &[("accept-encoding", "gzip")]).header("content-encoding"), "");
    // The same under /api, and by HEAD.
    assert_eq!(rest.get("/api/blocks").body, plain.body);
    let head = exchange(rest, "HEAD /blocks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn every_path_of_the_openapi_document_is_served() {
    let world = World::small(43);
    let document = world.rest.json("/api/openapi.json");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 40, "{}", paths.len());
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let path = path.replace(['{', '}'], "x");
            if let Some(server) = operation["servers"][0]["url"].as_str() {
                let got = world.rest.get(&path);
                assert!(server == "/" && !got.text().contains("endpoint does not exist"), "{method} {path}");
                assert_eq!(world.rest.get(&format!("/api{path}")).status, 404, "{method} {path}");
                continue;
            }
            let path = format!("/api{path}");
            let got = if method == "get" { world.rest.get(&path) } else { world.rest.post(&path, "[]") };
            let is_served = !got.text().contains("endpoint does not exist");
            assert_eq!(is_served, !path.starts_with("/api/internal"), "{method} {path}");
            let url = format!("http://127.0.0.1:{}{path}", world.rest.private_port);
            let got = if method == "get" { world.rest.get_at(&url) } else { world.rest.post_at(&url, "[]") };
            assert!(!got.text().contains("endpoint does not exist"), "{method} {path}");
        }
    }
}

#[test]
fn bodies_are_bounded_in_size_and_time() {
    let limits = Limits { body_timeout: std::time::Duration::from_millis(300), ..Limits::default() };
    let world = World::of(42, SMALL, limits);
    let patient = Rest::start(world.live.node(), Limits::default());
    let large = patient.post("/tx", &"0".repeat(1_000_001));
    assert_eq!((large.status, large.text()), (413, "Request body too large".into()));
    let slow =
        exchange(&world.rest, "POST /tx HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nConnection: close\r\n\r\n00");
    assert!(slow.starts_with("HTTP/1.1 408 Request Timeout\r\n") && slow.ends_with("Request timeout"), "{slow}");
    let head = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    let refused = exchange(&patient, &head);
    assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
}

#[test]
fn an_index_that_is_not_built_answers_that_it_is_syncing() {
    let node = Bitcoind::start(Options::default()).unwrap();
    let rest = Rest::start(&node, Limits::default());
    assert_eq!(rest.refusal("/blocks/tip/height"), (503, "indexing, 0 %".into()));
    rest.build();
    assert_eq!(rest.text("/blocks/tip/height"), "0");
}
