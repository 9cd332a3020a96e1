//! Layers under the WebSocket: TLS with a certificate that changes, and reverse proxies that send a PROXY header.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_events::EventsOptions;
use birdhouse_net::{Certificate, Proxy, Transport, WebPages};
use birdhouse_relay::{Limits, Settings};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::app::{App, PATIENCE, event, wire};

/// Writes a new pair for `localhost` and returns the paths of certificate and key.
fn write_pair(folder: &Path) -> [std::path::PathBuf; 2] {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
    let [chain, secret] = ["chain.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&secret, key.serialize_pem()).unwrap();
    std::fs::write(&chain, certificate.pem()).unwrap();
    [chain, secret]
}

/// Connects by TLS, trusting the certificate in this file alone.
async fn tls(app: &App, certificate: &Path) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let socket = TcpStream::connect(app.addr).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), socket).await
}

/// Becomes a WebSocket, publishes an event and asks for it; else the status that the relay answers.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, app: &App, author: u8) -> Result<impl Sized, u16> {
    let mut socket = match tokio_tungstenite::client_async(app.url(), stream).await {
        Ok((socket, _)) => socket,
        Err(Error::Http(answer)) => return Err(answer.status().as_u16()),
        Err(_) => return Err(0),
    };
    // Larger than a TLS record, than a write, and than what is compressed at once.
    let event = event(author, 1, 1, &[&["padding", &"a word ".repeat(30_000)]]);
    let asked = [format!("[\"EVENT\",{}]", event.to_json()), format!("[\"REQ\",\"a\",{{\"ids\":[\"{}\"]}}]", event.id)];
    let mut heard: Vec<serde_json::Value> = Vec::new();
    // The challenge and OK; the event and EOSE.
    for (text, answers) in asked.iter().zip([2, 4]) {
        socket.send(Message::text(text)).await.unwrap();
        while heard.len() < answers {
            let message = timeout(PATIENCE, socket.next()).await.expect("an answer").expect("a connection").unwrap();
            heard.push(serde_json::from_str(message.to_text().unwrap()).unwrap());
        }
    }
    assert_eq!(
        (&heard[0][0], &heard[1][0], &heard[1][2], &heard[3][0]),
        (&json!("AUTH"), &json!("OK"), &json!(true), &json!("EOSE"))
    );
    assert!(heard[2][2] == wire(&event), "the event comes back as it was");
    Ok(socket)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_in_tls_serves_and_shows_a_new_certificate_to_newcomers() {
    let folder = tempfile::tempdir().unwrap();
    let [chain, key] = write_pair(folder.path());
    let first = folder.path().join("first.pem");
    std::fs::copy(&chain, &first).unwrap();
    let transport = Transport::Wss(Arc::new(Certificate::open(&chain, &key).unwrap()));
    let app = App::listening(Settings::default(), EventsOptions::default(), transport, Proxy::Off).await;
    let stays = converse(tls(&app, &first).await.unwrap(), &app, 1).await.unwrap();
    // Who speaks no TLS is closed, and others are served.
    let mut plain = TcpStream::connect(app.addr).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut said)).await.expect("the relay closes");
    assert!(!said.starts_with(b"HTTP"), "{said:?}");

    write_pair(folder.path());
    let start = Instant::now();
    let new = loop {
        if let Ok(stream) = tls(&app, &chain).await {
            break stream;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "the new certificate is never shown");
        sleep(Duration::from_millis(200)).await;
    };
    converse(new, &app, 2).await.unwrap();
    assert!(tls(&app, &first).await.is_err(), "the old one is gone");
    assert_eq!(app.relay.overview().clients, 1);
    drop(stays);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_proxy_are_counted_by_the_address_in_its_header() {
    let limits = Limits { client_connections: Some(1), ..Limits::default() };
    let proxy = Proxy::From(vec!["127.0.0.0/8".parse().unwrap()]);
    let settings = Settings { limits, ..Settings::default() };
    let app = App::listening(settings, EventsOptions::default(), Transport::Ws, proxy).await;
    let open = async |header: &[u8]| {
        let mut socket = TcpStream::connect(app.addr).await.unwrap();
        socket.write_all(header).await.unwrap();
        converse(socket, &app, 1).await
    };
    let v2 = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[192, 0, 3, 1, 127, 0, 0, 1, 1, 1, 1, 1]].concat();
    let clients = [
        &b"PROXY TCP4 192.0.2.1 127.0.0.1 1000 80\r\n"[..],
        b"PROXY TCP6 2001:db8:1::1 ::1 1000 80\r\n",
        b"PROXY TCP6 fc00:dead:beef:4dad::1:1 ::1 65535 42\r\n", // a Tor circuit
        b"PROXY TCP6 fc00:dead:beef:4dad::2:1 ::1 65535 42\r\n", // and another one
        &v2,
    ];
    let mut connections = Vec::new();
    for header in clients {
        // The event is published by the first, and a duplicate after that.
        connections.push(open(header).await.unwrap());
    }
    assert_eq!((app.relay.overview().connections, app.relay.overview().clients), (5, 5));
    let again = [
        &b"PROXY TCP6 ::ffff:192.0.2.1 ::1 2000 80\r\n"[..],
        b"PROXY TCP6 2001:db8:1::2 ::1 1000 80\r\n",
        b"PROXY TCP6 fc00:dead:beef:4dad::2:1 ::1 65535 42\r\n",
        &v2,
    ];
    for header in again {
        assert_eq!(open(header).await.err(), Some(429), "{}", String::from_utf8_lossy(header));
    }
    for header in [&b""[..], b"PROXY TCP4 192.0.2.9\r\n"] {
        assert_eq!(open(header).await.err(), Some(0), "no header");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_counts_only_from_a_proxy_that_may_send_it() {
    let proxy = Proxy::From(vec!["192.0.2.0/24".parse().unwrap()]);
    let app = App::listening(Settings::default(), EventsOptions::default(), Transport::Ws, proxy).await;
    let mut socket = TcpStream::connect(app.addr).await.unwrap();
    socket.write_all(b"PROXY TCP4 198.51.100.1 127.0.0.1 1000 80\r\n").await.unwrap();
    assert_eq!(converse(socket, &app, 1).await.err(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_opens_no_websocket_over_loopback() {
    let pages = WebPages::new(vec!["relay.example".into()], vec!["https://client.example".into()]);
    let app = App::start(Settings { pages, ..Settings::default() }).await;
    for (host, origin, expected) in [
        ("127.0.0.1:7777", None, " 101 "),
        ("127.0.0.1:7777", Some("http://localhost:8080"), " 101 "),
        ("127.0.0.1:7777", Some("https://client.example"), " 101 "),
        ("127.0.0.1:7777", Some("https://evil.example"), " 403 "),
        ("evil.example:7777", Some("http://evil.example:7777"), " 403 "),
        ("relay.example", Some("https://any.example"), " 101 "),
    ] {
        let mut socket = TcpStream::connect(app.addr).await.unwrap();
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\n{origin}Connection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 64];
        let length = timeout(PATIENCE, socket.read(&mut head)).await.expect("an answer").unwrap();
        let head = String::from_utf8_lossy(&head[..length]).into_owned();
        assert!(head.contains(expected), "{host}, {origin:?}: {head}");
    }
}
