//! permessage-deflate (RFC 7692): with the library that most clients in node have, and with what no library would send.

use std::process::{Command, Stdio};
use std::time::Duration;

use birdhouse_events::{Kind, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_relay::{Compression, Limits, Settings};
use birdhouse_testkit::rng::{Rng, number};
use flate2::{Compress, FlushCompress};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::app::{App, event, keys, wire};
use crate::nostr_tools::NOSTR_TOOLS;

const SCRIPT: &str = include_str!("compression.js");
const RANDOM_SCRIPT: &str = include_str!("compressed_random.js");
const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";

/// A WebSocket without any library: what was answered to the request, and the socket.
pub(crate) async fn raw(app: &App, offer: &str) -> (String, TcpStream) {
    asked(app, &format!("Sec-WebSocket-Version: 13\r\n{offer}")).await
}

/// Returns the answer to a request for a WebSocket with more headers, and the socket.
async fn asked(app: &App, headers: &str) -> (String, TcpStream) {
    let mut socket = TcpStream::connect(app.addr).await.unwrap();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap().to_ascii_lowercase(), socket)
}

/// The beginning of a masked frame of a text of this length: the mask is zero.
pub(crate) fn text_frame(first: u8, payload: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![first, 0xff];
    bytes.extend((length as u64).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes
}

/// The first byte and the payload of the next frame of the relay.
pub(crate) async fn frame(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let first = socket.read_u8().await.unwrap();
    let length = match socket.read_u8().await.unwrap() {
        126 => usize::from(socket.read_u16().await.unwrap()),
        length => usize::from(length),
    };
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload).await.unwrap();
    (first, payload)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_compresses_publishes_and_reads_with_fewer_bytes() {
    let Some(packages) = NOSTR_TOOLS.folder() else {
        eprintln!("LEFT OUT: ws is not there; run `scripts/peers nostr-tools`");
        return;
    };
    let app = App::start(Settings::default()).await;
    let large = wire(&event(1, 1, 1, &[&["t", &"a word ".repeat(1000)]]));
    let later = wire(&event(2, 1, 2, &[&["t", &"the words ".repeat(800)]]));
    let (url, first, second) = (app.url(), large.to_string(), later.to_string());
    let length = u64::try_from(first.len() + second.len()).unwrap();
    let run = move || {
        Command::new("node").args(["--eval", SCRIPT]).arg(packages).args([url, first, second]).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(seen["extensions"].as_str().unwrap().contains("permessage-deflate"), "{seen}");
    let heard = seen["heard"].as_array().unwrap();
    assert_eq!(heard[1], json!(["OK", large["id"], true, ""]));
    assert!(heard[2] == json!(["EVENT", "a", large]) && heard[3][0] == "EOSE", "the event comes back as it was");
    // The live event is sent before it is durable, which OK waits for.
    assert!(heard[4..].contains(&json!(["EVENT", "a", later])), "and so does one that comes later");
    assert!(heard[4..].contains(&json!(["OK", later["id"], true, ""])));
    for bytes in ["bytesRead", "bytesWritten"] {
        assert!(seen[bytes].as_u64().unwrap() < length / 4, "{bytes} of {length}: {}", seen[bytes]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_inflates_beyond_the_bound_ends_the_connection_as_a_plain_one_does() {
    let app = App::start(Settings::default()).await;
    let mut compress = Compress::new(flate2::Compression::best(), false);
    let mut bomb = Vec::with_capacity(1 << 20);
    compress.compress_vec(&vec![b'a'; 200 << 20], &mut bomb, FlushCompress::Sync).unwrap();
    bomb.truncate(bomb.len() - 4);
    let (head, mut socket) = raw(&app, OFFER).await;
    assert!(head.contains("sec-websocket-extensions: permessage-deflate"), "{head}");
    assert_eq!(frame(&mut socket).await.0 & 0x0f, 1, "the challenge");
    socket.write_all(&text_frame(0xc1, &bomb, bomb.len())).await.unwrap();
    let (first, payload) = frame(&mut socket).await;
    assert_eq!((first, &payload[..2]), (0x88, &1009_u16.to_be_bytes()[..]));
    app.client().await.store(&event(1, 1, 1, &[])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_offer_it_or_is_not_offered_it_is_not_compressed() {
    let off = Settings { compression: Compression::Off, ..Settings::default() };
    for (settings, offer) in [(Settings::default(), ""), (off, OFFER)] {
        let app = App::start(settings).await;
        app.client().await.store(&event(1, 1, 1, &[&["t", &"a word ".repeat(20)]])).await;
        let (head, mut socket) = raw(&app, offer).await;
        assert!(!head.contains("sec-websocket-extensions"), "{head}");
        assert_eq!(frame(&mut socket).await.0, 0x81);
        let text = br#"["REQ","a",{}]"#;
        socket.write_all(&text_frame(0x81, text, text.len())).await.unwrap();
        let (first, payload) = frame(&mut socket).await;
        assert_eq!(first, 0x81);
        assert!(payload.starts_with(br#"["EVENT","a","#));
        // A compressed message that nobody agreed on.
        socket.write_all(&text_frame(0xc1, text, text.len())).await.unwrap();
        assert_eq!(frame(&mut socket).await.0, 0x81, "EOSE");
        assert_eq!(frame(&mut socket).await.1[..2], 1002_u16.to_be_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_websocket_is_refused_with_the_one_that_is_spoken() {
    let app = App::start(Settings::default()).await;
    for version in ["", "Sec-WebSocket-Version: 8\r\n"] {
        let (head, _) = asked(&app, version).await;
        assert!(head.starts_with("http/1.1 426 ") && head.contains("sec-websocket-version: 13\r\n"), "{head}");
    }
}

/// Events of 100 B to 500 kB: noise that no compressor makes smaller, hexadecimal, words.
fn random_events(count: u64, seed: u64) -> Vec<VerifiedEvent> {
    let mut rng = Rng::new(seed);
    let random_event = |second| {
        let bytes = 100 + rng.index(if second % 5 == 0 { 499_000 } else { 900 });
        let alphabet: Vec<char> = match rng.index(4) {
            0 => ('\u{4e00}'..'\u{9f00}').collect(),
            1 => ('!'..'~').filter(|char| !"\"\\".contains(*char)).collect(),
            2 => "0123456789abcdef".chars().collect(),
            _ => "a word".chars().collect(),
        };
        let mut content = String::new();
        while content.len() < bytes {
            content.push(*rng.pick(&alphabet));
        }
        let created_at = Timestamp(1_700_000_000 + second);
        UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys(1))
    };
    (0..count).map(random_event).collect()
}

/// Returns what `compressed_random.js` computes of the events that a client received.
fn digest(events: &[VerifiedEvent]) -> String {
    let mut events: Vec<&VerifiedEvent> = events.iter().collect();
    events.sort_by_key(|event| event.id.0);
    let hex = |text: String| const_hex::encode(Sha256::digest(text));
    let digests: Vec<String> = events.iter().map(|event| hex(format!("{}{}[]", event.id, event.content))).collect();
    hex(digests.concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_events_come_back_equal_to_every_client_that_compresses() {
    let clients = number("BIRDHOUSE_CLIENTS").map_or(40, |clients| usize::try_from(clients).unwrap());
    let Some(packages) = NOSTR_TOOLS.folder() else {
        eprintln!("LEFT OUT: ws is not there; run `scripts/peers nostr-tools`");
        return;
    };
    // All come from one address.
    let (client_connections, network_connections, client_unsent_bytes) = (None, None, None);
    let content_bytes = 500_000;
    let limits =
        Limits { client_connections, network_connections, client_unsent_bytes, content_bytes, ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let events = random_events(60, 7);
    let (stored, live) = events.split_at(40);
    let mut publisher = app.client().await;
    for event in stored {
        publisher.store(event).await;
    }
    let mut run = tokio::process::Command::new("node")
        .args(["--eval", RANDOM_SCRIPT])
        .arg(packages)
        .args([app.url(), clients.to_string(), stored.len().to_string(), events.len().to_string()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut line = async || timeout(Duration::from_mins(2), lines.next_line()).await.unwrap().unwrap().unwrap();
    assert_eq!(line().await, "stored");
    for event in live {
        publisher.store(event).await;
    }
    let seen: Vec<String> = serde_json::from_str(&line().await).unwrap();
    assert_eq!(seen, vec![digest(&events); clients]);
}
