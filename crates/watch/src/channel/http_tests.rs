//! The guard, against receivers that answer as nobody should.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use birdhouse_dial::{ANSWER_BYTES_MAX, Refused, RefusedAddress, Resolver, Scheme, SystemResolver, Trust};
use futures_util::future::BoxFuture;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

use super::*;
use crate::channel::tests::{Receiver, guard, read_request};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn target(url: &str) -> Target {
    Target::parse(url, &[Scheme::Http, Scheme::Https]).unwrap()
}

async fn send(guard: &Guard, target: &Target) -> Result<Answer, String> {
    let body = b"{}".to_vec();
    post(guard, Post { target, content_type: "application/json", headers: Vec::new(), body }).await
}

async fn outcome_of(answer: &str) -> Outcome {
    let receiver = Receiver::start(answer).await;
    let target = target(&receiver.url("/hook"));
    send(&guard(), &target).await.unwrap().outcome(&target)
}

#[tokio::test]
async fn statuses_mean_what_their_specification_says() {
    assert_eq!(outcome_of(OK).await, Outcome::Delivered);
    assert_eq!(outcome_of("HTTP/1.1 204 No Content\r\n\r\n").await, Outcome::Delivered);
    assert!(matches!(outcome_of("HTTP/1.1 410 Gone\r\n\r\n").await, Outcome::Disable { .. }));
    assert!(matches!(outcome_of("HTTP/1.1 413 Too large\r\n\r\n").await, Outcome::Refused { .. }));
    for status in ["400 Bad Request", "422 Unprocessable Content"] {
        let Outcome::Rejected { why } = outcome_of(&format!("HTTP/1.1 {status}\r\n\r\n")).await else {
            panic!("{status}")
        };
        assert!(why.contains(&status[..3]), "{why}");
    }
    for status in ["401 Unauthorized", "404 Not Found", "429 Slowly", "500 Oops", "503 Later"] {
        let Outcome::Retry { why, after: None } = outcome_of(&format!("HTTP/1.1 {status}\r\n\r\n")).await else {
            panic!("{status}")
        };
        assert!(why.contains(&status[..3]), "{why}");
    }
}

#[tokio::test]
async fn a_wait_that_the_receiver_asks_for_is_kept_within_a_day() {
    let after = |answer: Outcome| match answer {
        Outcome::Retry { after, .. } => after,
        other => panic!("{other:?}"),
    };
    let asked = |value: &str| format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: {value}\r\n\r\n");
    assert_eq!(after(outcome_of(&asked("120")).await), Some(Duration::from_mins(2)));
    assert_eq!(after(outcome_of(&asked("999999999")).await), Some(RETRY_MAX));
    assert_eq!(after(outcome_of(&asked("soon")).await), None);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT", now), Some(Duration::from_mins(1)), "the date of RFC 9110");
    assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::ZERO));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Receiver::start(OK).await;
    for status in [301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {status} Moved\r\nlocation: {}\r\n\r\n", elsewhere.url("/"));
        let Outcome::Retry { why, .. } = outcome_of(&answer).await else { panic!("{status}") };
        assert!(why.contains("redirects"), "{why}");
    }
    assert!(elsewhere.received.lock().is_empty());
}

#[tokio::test]
async fn the_request_is_whole() {
    let receiver = Receiver::start(OK).await;
    send(&guard(), &target(&receiver.url("/hook?a=b"))).await.unwrap();
    let received = receiver.only();
    assert_eq!(received.line, "POST /hook?a=b HTTP/1.1");
    assert_eq!(received.header("host"), Some(receiver.address.to_string().as_str()));
    assert_eq!(
        (received.header("content-type"), received.header("content-length")),
        (Some("application/json"), Some("2"))
    );
    assert!(received.header("user-agent").unwrap().starts_with("birdhouse/"));
}

#[tokio::test]
async fn addresses_of_the_node_are_refused_by_number_and_by_name() {
    let receiver = Receiver::start(OK).await;
    let refused = RefusedAddress::of_socket("the port of the node's RPC", receiver.address);
    let guard = Guard::new(Refused::new(vec![refused]));
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.0.0.2", "0.0.0.0"] {
        let target = target(&format!("http://{host}:{}/", receiver.address.port()));
        let why = send(&guard, &target).await.unwrap_err();
        assert!(why.contains("the port of the node's RPC"), "{why}");
    }
    assert!(receiver.received.lock().is_empty());
}

/// A resolver that answers each look-up with the next address.
struct Changing(Vec<IpAddr>, AtomicUsize);

impl Resolver for Changing {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { Ok(vec![self.0[number % self.0.len()]]) })
    }
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    let receiver = Receiver::start(OK).await;
    let port = receiver.address.port();
    // The second answer is the node's: a client that looks a name up again to connect would reach it.
    let node = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    let refused = RefusedAddress::of_socket("the node", node.local_addr().unwrap());
    // Of another machine, as far as the list is concerned: only its own address is refused.
    let resolver = Arc::new(Changing(vec!["127.0.0.1".parse().unwrap(), "127.0.0.2".parse().unwrap()], 0.into()));
    let guard = Guard::with(Arc::clone(&resolver) as _, Refused::default(), Trust::System);
    let named = target(&format!("http://changing.example:{port}/"));
    send(&guard, &named).await.unwrap();
    assert_eq!(resolver.1.load(Ordering::Relaxed), 1, "one look-up an attempt");
    assert_eq!(receiver.received.lock().len(), 1);
    let guard = Guard::with(resolver, Refused::new(vec![refused]), Trust::System);
    assert!(send(&guard, &named).await.unwrap_err().contains("the node"), "the second answer is checked, too");
}

/// All addresses of a name are checked, not the first alone.
#[tokio::test]
async fn one_refused_address_among_others_refuses_the_name() {
    struct Both;
    impl Resolver for Both {
        fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            Box::pin(async { Ok(vec!["192.0.2.1".parse().unwrap(), "127.0.0.1".parse().unwrap()]) })
        }
    }
    let refused = RefusedAddress::parse("the node", "127.0.0.1:8332").unwrap();
    let guard = Guard::with(Arc::new(Both), Refused::new(vec![refused]), Trust::System);
    assert!(send(&guard, &target("http://a.example:8332/")).await.unwrap_err().contains("the node"));
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let many = format!("HTTP/1.1 200 OK\r\n{}", "x-header: 0123456789\r\n".repeat(2000));
    assert!(send(&guard(), &target(&Receiver::start(many).await.url("/"))).await.is_err());
    let long = format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(HEAD_BYTES_MAX + 1));
    assert!(send(&guard(), &target(&Receiver::start(long).await.url("/"))).await.is_err());
    // Informational answers may repeat.
    let informational = "HTTP/1.1 102 Processing\r\n\r\n".repeat(ANSWER_BYTES_MAX / 20);
    assert!(send(&guard(), &target(&Receiver::start(informational).await.url("/"))).await.is_err());
}

#[tokio::test]
async fn a_body_is_not_read() {
    let huge = format!("HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n{}", "a".repeat(100_000));
    assert_eq!(outcome_of(&huge).await, Outcome::Delivered);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_does_not_answer_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = target(&format!("http://{}/", listener.local_addr().unwrap()));
    let why = send(&guard(), &target).await.unwrap_err();
    assert!(why.contains("has not answered in 20 s"), "{why}");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_or_of_another_name_is_refused() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = signing_key.serialize_der().try_into().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let Ok(mut socket) = acceptor.accept(socket).await else { continue };
            if read_request(&mut socket).await.is_some() {
                socket.write_all(OK.as_bytes()).await.unwrap();
            }
        }
    });
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let trusting = Guard::with(Arc::new(SystemResolver), Refused::default(), Trust::Roots(Arc::new(roots)));
    let here = target(&format!("https://localhost:{port}/"));
    assert!(send(&trusting, &here).await.is_ok());
    assert!(send(&trusting, &target(&format!("https://127.0.0.1:{port}/"))).await.unwrap_err().contains("TLS"));
    let empty = Trust::Roots(Arc::new(RootCertStore::empty()));
    let distrusting = Guard::with(Arc::new(SystemResolver), Refused::default(), empty);
    assert!(send(&distrusting, &here).await.unwrap_err().contains("TLS"));
}
