//! Tests of the listener for replicas.
#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_net::{Proxy, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// Longest wait for an answer. Nothing is measured by it.
const PATIENCE: Duration = Duration::from_mins(1);
const SECRET: &str = "word";

/// Serves nothing but refusals, with a secret.
async fn serve_with_secret() -> std::net::SocketAddr {
    serve_nothing(Some(sha256::Hash::hash(SECRET.as_bytes()))).await
}

async fn serve_nothing(secret: Option<sha256::Hash>) -> std::net::SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    let listener = Listener { name: "replicas".into(), transport: Transport::Tcp, proxy: Proxy::Off, limits: () };
    serve(Bound { listeners: vec![(socket, listener)], secret }, None, None);
    addr
}

/// Asks by a connection; returns the head of the answer, and `true` if the connection is closed after it.
async fn ask(socket: &mut TcpStream, secret: &str) -> (String, bool) {
    ask_with(socket, &format!("Host: localhost\r\nAuthorization: Bearer {secret}\r\n")).await
}

async fn ask_with(socket: &mut TcpStream, headers: &str) -> (String, bool) {
    let head = format!("GET /v1/none HTTP/1.1\r\n{headers}\r\n");
    timeout(PATIENCE, async {
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") || !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            assert!(socket.read_buf(&mut answer).await.unwrap() > 0, "closed without an answer");
        }
        let answer = String::from_utf8(answer).unwrap();
        let is_closed = answer.contains("connection: close") && socket.read(&mut [0]).await.unwrap() == 0;
        (answer.lines().next().unwrap().to_owned(), is_closed)
    })
    .await
    .expect("an answer")
}

#[tokio::test]
async fn strangers_keep_no_connection_with_the_secret_out_and_end_none() {
    let addr = serve_with_secret().await;
    let mut before = TcpStream::connect(addr).await.unwrap();
    assert_eq!(ask(&mut before, SECRET).await.0, "HTTP/1.1 404 Not Found");

    let mut strangers = Vec::new();
    for number in 0..3 * KNOWN_MAX + STRANGERS_MAX {
        let mut stranger = TcpStream::connect(addr).await.unwrap();
        match number % 3 {
            0 => {}
            1 => stranger.write_all(b"GET /v1/none HT").await.unwrap(),
            _ => assert_eq!(ask(&mut stranger, "guess").await, ("HTTP/1.1 401 Unauthorized".into(), true)),
        }
        strangers.push(stranger);
    }
    let mut after = TcpStream::connect(addr).await.unwrap();
    for known in [&mut before, &mut after] {
        assert_eq!(ask(known, SECRET).await, ("HTTP/1.1 404 Not Found".into(), false));
    }
}

#[tokio::test]
async fn a_connection_beyond_the_places_of_known_ones_is_told_so() {
    let addr = serve_with_secret().await;
    let mut known = Vec::new();
    for _ in 0..KNOWN_MAX {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        assert_eq!(ask(&mut socket, SECRET).await.0, "HTTP/1.1 404 Not Found");
        known.push(socket);
    }
    let mut one_more = TcpStream::connect(addr).await.unwrap();
    assert_eq!(ask(&mut one_more, SECRET).await, ("HTTP/1.1 503 Service Unavailable".into(), true));
    assert_eq!(ask(&mut known[0], SECRET).await.0, "HTTP/1.1 404 Not Found");
}

#[tokio::test]
async fn without_a_secret_web_pages_are_refused() {
    let addr = serve_nothing(None).await;
    for (headers, status) in [
        ("Host: 127.0.0.1:3002\r\n", "404 Not Found"),
        ("Host: evil.example:3002\r\n", "401 Unauthorized"),
        ("Host: 127.0.0.1:3002\r\nOrigin: https://evil.example\r\n", "401 Unauthorized"),
    ] {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        assert_eq!(ask_with(&mut socket, headers).await.0, format!("HTTP/1.1 {status}"), "{headers}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_shows_nothing_is_closed() {
    let addr = serve_with_secret().await;
    let mut stranger = TcpStream::connect(addr).await.unwrap();
    stranger.write_all(b"GET").await.unwrap();
    assert_eq!(timeout(2 * STRANGER_PATIENCE, stranger.read(&mut [0])).await.expect("an end").unwrap_or(0), 0);
}

#[test]
fn a_listener_beyond_loopback_needs_a_secret_and_an_index_of_its_own() {
    let plans = |text: &str| Plans::of(&crate::config::parse_file(text).unwrap());
    assert!(plans("").unwrap().is_none());
    assert!(plans("replicas-addr = '127.0.0.1:3002'").unwrap().is_some());
    for (text, reason) in [
        ("replicas-addr = '0.0.0.0:3002'", "set --replica-secret-file"),
        ("replicas-addr = '127.0.0.1:3002'\nbitcoin = 'off'", "set --store"),
        ("replicas-addr = '127.0.0.1:3002'\nbitcoin = 'off'\nstore = 'cql://h/k'\nrole = 'front'", "without --role"),
        ("replicas-addr = '127.0.0.1:3002'\nfollow = 'http://127.0.0.1:3003'", "remove it"),
    ] {
        assert!(plans(text).err().unwrap().to_string().contains(reason), "{text}");
    }
    assert!(plans("replicas-addr = '127.0.0.1:3002'\nbitcoin = 'off'\nstore = 'cql://h/k'").unwrap().is_some());
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "word\n").unwrap();
    let text = format!("replicas-addr = '0.0.0.0:3002'\nreplica-secret-file = '{}'", secret.path().display());
    assert_eq!(plans(&text).unwrap().unwrap().secret.as_deref(), Some("word"));
}
