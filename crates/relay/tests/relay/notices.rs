//! Notices of watches as direct messages: the server's own relay stores them without a connection, and nostr-tools
//! (npm), the library of most clients on the web, reads them.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use birdhouse_events::{Event, Kind, Pubkey};
use birdhouse_relay::{Relay, Settings};
use birdhouse_watch::channel::{Channel, Channels, Clock, Message, Outcome, OwnRelay, Priority, Refused, Surroundings};
use birdhouse_watch::{ChannelKind, ChannelName, ChannelSettings};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::app::App;
use crate::nostr_tools::NOSTR_TOOLS;

const CLIENT: &str = include_str!("notices.js");

/// A client that reads its direct messages.
struct Client {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// Its public key in hexadecimal.
    key: String,
}

impl Client {
    /// Connects, publishes that it reads direct messages on these relays if there are some, and subscribes.
    fn start(relay: &str, reads: &[&str]) -> Option<Self> {
        let Some(packages) = NOSTR_TOOLS.folder() else {
            eprintln!("LEFT OUT: nostr-tools is not there; see scripts/peers");
            return None;
        };
        let mut command = Command::new("node");
        command.args(["--eval", CLIENT]).arg(packages).arg(relay).arg(json!(reads).to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let key = lines.next().unwrap().unwrap();
        Some(Self { child, input, lines, key })
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Asks for the newest event of a kind and an author.
    fn ask(&mut self, kind: u16, author: &str) -> Value {
        writeln!(self.input, "{}", json!({ "kinds": [kind], "authors": [author], "limit": 1 })).unwrap();
        self.next()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A served relay as the server's own one: like the server's implementation, less its threads.
struct Own {
    relay: Arc<Relay>,
    url: String,
}

impl OwnRelay for Own {
    fn urls(&self) -> Vec<String> {
        vec![self.url.clone()]
    }

    fn is_named(&self, url: &str) -> bool {
        self.url == url
    }

    fn publish(&self, event: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.relay.store_own(Event::from_json(&event).unwrap().verify().unwrap()) })
    }

    fn newest(&self, kind: u16, author: [u8; 32]) -> BoxFuture<'_, Result<Option<String>, String>> {
        let newest = self.relay.newest(Kind(kind), Pubkey(author));
        Box::pin(async move { Ok(newest?.map(|event| event.to_json())) })
    }
}

/// A message of a payment, of now.
fn message() -> Message {
    Message {
        id: "00112233445566778899aabbccddeeff".into(),
        created: Clock::system().now().as_secs(),
        title: "Savings".into(),
        line: "Savings: received 0.00150000 BTC, unconfirmed, txid aa11 — ü".into(),
        line_without_amounts: "Savings: received, unconfirmed, txid aa11 — ü".into(),
        priority: Priority::Usual,
        click: None,
        body: json!({}),
    }
}

/// Opens a channel of a server, with its own relay or without.
fn open(folder: &Path, own: Option<&App>, to: &str, relays: &[&str]) -> Arc<dyn Channel> {
    let own = own.map(|app| Arc::new(Own { relay: Arc::clone(&app.relay), url: app.url() }) as Arc<dyn OwnRelay>);
    let (refused, key_file) = (Refused::default(), folder.join("watch.nsec"));
    let (relay_sockets, clock) = (Vec::new(), Clock::system());
    let channels = Channels::new(Surroundings { refused, key_file, relay: own, relay_sockets, clock });
    let relays = relays.iter().map(|url| (*url).to_owned()).collect();
    let kind = ChannelKind::Nostr { to: to.to_owned(), relays };
    channels.open(&ChannelSettings { name: ChannelName::new("me"), kind, amounts: true }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_tools_reads_a_notice_from_the_servers_own_relay() {
    let (folder, own) = (tempfile::tempdir().unwrap(), App::start(Settings::default()).await);
    let Some(mut client) = Client::start(&own.url(), &[&own.url()]) else { return };
    let channel = open(folder.path(), Some(&own), &client.key, &[]);
    let (message, before) = (message(), Clock::system().now().as_secs());
    for _ in 0..2 {
        assert_eq!(channel.send(&message).await, Outcome::Delivered);
    }
    let rumor = client.next();
    assert_eq!((&rumor["content"], &rumor["kind"]), (&json!(message.line), &json!(14)));
    assert_eq!(rumor["tags"], json!([["p", client.key], ["notice", message.id]]));
    assert!(rumor["created_at"].as_u64().unwrap() <= before);
    let sender = rumor["pubkey"].as_str().unwrap().to_owned();
    // The second attempt was the same event: the next line is the answer to the question.
    let profile = client.ask(0, &sender);
    let profile: Value = serde_json::from_str(profile["content"].as_str().unwrap()).unwrap();
    assert_eq!(profile["name"], "Birdhouse");
    assert_eq!(client.ask(10_050, &sender)["tags"], json!([["relay", own.url()]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_tools_reads_a_notice_from_another_relay_that_its_list_names() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (App::start(Settings::default()).await, App::start(Settings::default()).await);
    let Some(mut client) = Client::start(&other.url(), &[&other.url()]) else { return };
    let channel = open(folder.path(), Some(&own), &client.key, &[&other.url()]);
    assert_eq!(channel.send(&message()).await, Outcome::Delivered);
    assert_eq!(client.next()["content"], json!(message().line));
    assert_eq!(own.events.live_events(), 2, "the server's profile and its relays: the recipient reads elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipient_without_relays_for_direct_messages_fails_in_words() {
    let (folder, other) = (tempfile::tempdir().unwrap(), App::start(Settings::default()).await);
    let Some(client) = Client::start(&other.url(), &[]) else { return };
    let channel = open(folder.path(), None, &client.key, &[&other.url()]);
    let Outcome::Retry { why, .. } = channel.send(&message()).await else { panic!("it has no relays") };
    assert!(why.contains("kind 10050") && why.contains("the relays in the file"), "{why}");
}
