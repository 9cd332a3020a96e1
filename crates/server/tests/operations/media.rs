//! The media store beside the relay: its rules decide who uploads, it keeps reports, and a kill loses nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::pipe;
use bitcoin::hashes::{Hash as _, sha256};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::Birdhouse;
use crate::relay_client::{ask, connect};

pub(crate) const MEDIA: &str = "--blossom-addr=127.0.0.1:0";

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

fn keys(number: u8) -> Keys {
    Keys::from_secret([number; 32]).unwrap()
}

pub(crate) fn hash_of(body: &[u8]) -> String {
    sha256::Hash::hash(body).to_string()
}

fn signed(key: u8, kind: u16, tags: &[[&str; 2]]) -> String {
    #[expect(clippy::disallowed_methods, reason = "the server's clock decides on the event")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let expiration = (now + 60).to_string();
    let tags = tags.iter().copied().chain([["expiration", &expiration]]);
    let tags = tags.map(|tag| Tag(tag.map(str::to_owned).to_vec())).collect();
    let event = UnsignedEvent { created_at: Timestamp(now), kind: Kind(kind), tags, content: String::new() };
    event.sign(&keys(key)).to_json()
}

fn port(server: &Birdhouse) -> u16 {
    server.port("serving the media store").unwrap()
}

/// Sends the head of a request, and as much of its body as there is.
fn begin(server: &Birdhouse, head: &str, length: usize, body: &[u8]) -> TcpStream {
    let mut socket = pipe::tcp(port(server)).unwrap();
    let length = format!("Host: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all(format!("{head}\r\n{length}").as_bytes()).unwrap();
    socket.write_all(body).unwrap();
    socket
}

fn request(server: &Birdhouse, head: &str, body: &[u8]) -> Answer {
    let mut answer = Vec::new();
    begin(server, head, body.len(), body).read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    Answer { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body: answer[end + 4..].to_vec() }
}

fn upload_head(key: u8, hash: &str) -> String {
    let authorization = BASE64_URL_SAFE_NO_PAD.encode(signed(key, 24_242, &[["t", "upload"], ["x", hash]]));
    format!("PUT /upload HTTP/1.1\r\nAuthorization: Nostr {authorization}\r\nContent-Type: image/png")
}

/// Uploads by a key; returns the status.
pub(crate) fn upload(server: &Birdhouse, key: u8, body: &[u8]) -> u16 {
    request(server, &upload_head(key, &hash_of(body)), body).status
}

/// Reads a file; `None` if it is not there.
pub(crate) fn read(server: &Birdhouse, hash: &str) -> Option<Vec<u8>> {
    let answer = request(server, &format!("GET /{hash} HTTP/1.1"), b"");
    (answer.status == 200).then_some(answer.body)
}

#[test]
fn members_of_the_relay_upload_until_they_are_banned() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[MEDIA, "--relay-members=publish"]);
    let member = keys(1).pubkey().to_string();
    assert_eq!([upload(&server, 1, b"first"), upload(&server, 2, b"other")], [403, 403]);
    server.ctl_json(&["allow", "author", &member]);
    assert_eq!(
        [upload(&server, 1, b"first"), upload(&server, 1, b"first"), upload(&server, 2, b"other")],
        [201, 200, 403]
    );
    server.ctl_json(&["ban", "author", &member, "--reason", "spam"]);
    assert_eq!(upload(&server, 1, b"second"), 403);
    assert_eq!(read(&server, &hash_of(b"first")).unwrap(), b"first", "what was uploaded stays");
    let metrics = server.get("/metrics").body;
    for line in [
        r#"birdhouse_blossom_uploads_total{outcome="stored"} 2"#,
        r#"birdhouse_blossom_uploads_total{outcome="refused"} 4"#,
        "birdhouse_blossom_files 1",
        "birdhouse_blossom_bytes 5",
        "birdhouse_blossom_uploading 0",
    ] {
        assert!(metrics.lines().any(|is| is == line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn anyone_uploads_where_the_operator_wants_it_but_for_the_banned() {
    let arguments =
        [MEDIA, "--blossom-uploads=anyone", "--blossom-types=image/*", "--blossom-url=https://media.example.org"];
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &arguments);
    let answer = request(&server, &upload_head(3, &hash_of(b"open")), b"open");
    let descriptor: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer.status, 201);
    assert_eq!(descriptor["url"], json!(format!("https://media.example.org/{}.png", hash_of(b"open"))));
    let text = upload_head(3, &hash_of(b"text")).replace("image/png", "text/plain");
    assert_eq!(request(&server, &text, b"text").status, 415);
    server.ctl_json(&["ban", "author", &keys(3).pubkey().to_string(), "--reason", "spam"]);
    let banned = request(&server, &upload_head(3, &hash_of(b"banned")), b"banned");
    assert!(banned.status == 403 && banned.head.contains("x-reason: the operator has banned you"), "{}", banned.head);
    assert_eq!(upload(&server, 4, b"banned"), 201);
}

#[test]
fn a_report_of_a_file_is_kept_by_the_relay() {
    let server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[MEDIA, "--blossom-uploads=anyone"]);
    let hash = hash_of(b"reported");
    assert_eq!(upload(&server, 1, b"reported"), 201);
    let report =
        |hash: &str| request(&server, "PUT /report HTTP/1.1", signed(2, 1984, &[["x", hash]]).as_bytes()).status;
    assert_eq!([report(&hash_of(b"unknown")), report(&hash)], [404, 200]);
    let counted = ask(&mut connect(&server), &json!(["COUNT", "a", { "kinds": [1984], "#x": [hash] }]));
    assert_eq!(counted[2]["count"], json!(1));
    server.ctl_json(&["ban", "author", &keys(2).pubkey().to_string(), "--reason", "spam"]);
    assert_eq!(report(&hash), 403);
}

#[test]
fn a_kill_amid_uploads_loses_no_file_and_leaves_none() {
    let arguments = [MEDIA, "--blossom-uploads=anyone"];
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &arguments);
    let body = vec![7; 3_000_000];
    assert_eq!(upload(&server, 1, b"acknowledged"), 201);
    let _sockets: Vec<_> =
        (1..=3).map(|key| begin(&server, &upload_head(key, &hash_of(&body)), body.len(), &body[..2_000_000])).collect();
    let incoming = server.dir().join("blossom/incoming");
    let begun =
        || incoming.read_dir().unwrap().filter(|file| file.as_ref().unwrap().metadata().unwrap().len() > 0).count();
    server.until("has begun three uploads", || (begun() == 3).then_some(()));
    server.signal(Signal::SIGKILL);
    server.wait();
    assert_eq!(begun(), 3);
    let server = Birdhouse::start_relay(server.into_dir(), &arguments);
    assert_eq!(incoming.read_dir().unwrap().count(), 0);
    assert_eq!(read(&server, &hash_of(b"acknowledged")).unwrap(), b"acknowledged");
    assert_eq!(read(&server, &hash_of(&body)), None);
    assert_eq!(upload(&server, 1, &body), 201);
    assert!(read(&server, &hash_of(&body)).unwrap() == body);
}

#[test]
fn a_server_that_ends_lets_an_upload_come_to_its_end() {
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &[MEDIA, "--blossom-uploads=anyone"]);
    let mut socket = begin(&server, &upload_head(1, &hash_of(b"in time")), 7, b"in ");
    let incoming = server.dir().join("blossom/incoming");
    server.until("has begun an upload", || (incoming.read_dir().unwrap().count() == 1).then_some(()));
    server.signal(Signal::SIGTERM);
    socket.write_all(b"time").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(server.wait().0.success());
}

/// Returns true if a data folder has the rules of a relay.
fn has_rules(folder: &Path) -> bool {
    folder.read_dir().unwrap().any(|part| part.unwrap().path().join("rules").exists())
}

#[test]
fn a_backup_beside_the_server_has_the_files_and_their_owners() {
    let arguments = [MEDIA, "--blossom-uploads=anyone"];
    let mut server = Birdhouse::start_relay(tempfile::tempdir().unwrap(), &arguments);
    assert_eq!(
        [upload(&server, 1, b"kept"), upload(&server, 2, b"kept"), upload(&server, 2, b"other")],
        [201, 200, 201]
    );
    server.ctl_json(&["ban", "author", &keys(9).pubkey().to_string(), "--reason", "spam"]);
    let target = server.dir().join("backup");
    let (done, said) = server.run("backup", &[target.to_str().unwrap()]);
    assert!(done && said.contains("media store: backed up, 2 files"), "{said}");
    assert!(has_rules(&target), "the relay has no event yet, and rules");
    let (_, said) = server.run("doctor", &["--relay-addr=127.0.0.1:0", MEDIA]);
    assert!(said.contains("media store") && said.contains("blossom is writable"), "{said}");
    let copy = tempfile::tempdir().unwrap();
    std::fs::rename(&target, copy.path().join("data")).unwrap();
    assert_eq!(upload(&server, 3, b"after"), 201);
    server.signal(Signal::SIGTERM);
    assert!(server.wait().0.success());
    // A second one, without a server.
    let (done, said) = server.run("backup", &[target.to_str().unwrap()]);
    assert!(done && said.contains("media store: backed up, 3 files"), "{said}");
    // A third one, by a server whose media store is off.
    let mut server = Birdhouse::start_relay(server.into_dir(), &[]);
    let third = server.dir().join("third");
    let (done, said) = server.run("backup", &[third.to_str().unwrap()]);
    assert!(done && said.contains("media store: backed up, 3 files"), "{said}");
    // A fourth one, of a media store whose index is damaged.
    server.signal(Signal::SIGTERM);
    assert!(server.wait().0.success());
    let (index, fourth) = (server.dir().join("blossom/blobs.redb"), server.dir().join("fourth"));
    let whole = std::fs::read(&index).unwrap();
    std::fs::write(&index, vec![7; whole.len()]).unwrap();
    let (done, said) = server.run("backup", &[fourth.to_str().unwrap()]);
    assert!(!done && said.contains("blobs.redb") && has_rules(&fourth), "{said}");
    drop(server);
    let restored = tempfile::tempdir_in(copy.path()).unwrap();
    std::fs::remove_dir(restored.path()).unwrap();
    std::fs::rename(copy.path().join("data"), restored.path()).unwrap();
    let server = Birdhouse::start_relay(restored, &arguments);
    assert_eq!(read(&server, &hash_of(b"kept")).unwrap(), b"kept");
    assert_eq!(read(&server, &hash_of(b"after")), None);
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("\nbirdhouse_blossom_files 2\n"), "{metrics}");
}
