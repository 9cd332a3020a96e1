//! Recipients, with an own relay that stands in for the server's. `tests/deliver` has real relays and clients.
#![expect(clippy::unwrap_used, reason = "tests")]

use futures_util::{SinkExt as _, StreamExt as _};
use nostr::event::Event as OtherEvent;
use nostr::key::{Keys, SecretKey as OtherSecret};
use nostr::nips::nip59::UnwrappedGift;
use secp256k1::SECP256K1;

use super::*;
use crate::channel::tests::{clock, guard, message, why};
use birdhouse_dial::{Refused, RefusedAddress};

const OWN: &str = "wss://birds.example.org";

/// A relay that keeps events in memory.
#[derive(Default)]
struct Memory {
    events: Mutex<Vec<Event>>,
}

impl Memory {
    fn of_kind(&self, kind: u16) -> Vec<Event> {
        self.events.lock().iter().filter(|event| event.kind == kind).cloned().collect()
    }
}

impl OwnRelay for Memory {
    fn urls(&self) -> Vec<String> {
        vec![OWN.into()]
    }

    fn is_named(&self, url: &str) -> bool {
        url == OWN
    }

    fn publish(&self, event: String) -> BoxFuture<'_, Result<(), String>> {
        let event = Event::verified(&event).expect("a valid event");
        let mut events = self.events.lock();
        if events.iter().all(|known| known.id != event.id) {
            events.push(event);
        }
        Box::pin(async { Ok(()) })
    }

    fn newest(&self, kind: u16, author: [u8; 32]) -> BoxFuture<'_, Result<Option<String>, String>> {
        let author = const_hex::encode(author);
        let of_kind = self.of_kind(kind).into_iter().filter(|event| event.pubkey == author);
        let newest = of_kind.max_by_key(|event| event.created_at).map(|event| event.to_json());
        Box::pin(async { Ok(newest) })
    }
}

struct Case {
    own: Arc<Memory>,
    channel: Nostr,
    recipient: Keypair,
    sender: Arc<Sender>,
    folder: tempfile::TempDir,
}

fn case_with(guard: Arc<Guard>, relays: &[String]) -> Case {
    let (folder, own) = (tempfile::tempdir().unwrap(), Arc::new(Memory::default()));
    let recipient = Keypair::from_seckey_slice(SECP256K1, &[9; 32]).unwrap();
    let identity = Identity::new(folder.path().join("watch.nsec"));
    let sender = Arc::new(Sender::new(guard, clock(), identity, Some(Arc::clone(&own) as _)));
    let to = address::write_public(&recipient.x_only_public_key().0);
    let channel = Nostr::new(Arc::clone(&sender), &to, relays, Wording::WithAmounts).unwrap();
    Case { own, channel, recipient, sender, folder }
}

fn case() -> Case {
    case_with(guard(), &[])
}

impl Case {
    /// Publishes where the recipient reads.
    async fn lists(&self, urls: &[&str]) {
        let tags = urls.iter().map(|url| vec!["relay".to_owned(), (*url).to_owned()]).collect();
        let draft = Draft { created_at: 1, kind: INBOX_RELAYS, tags, content: String::new() };
        self.own.publish(draft.sign(&self.recipient).to_json()).await.unwrap();
    }
}

#[tokio::test]
async fn a_recipient_on_the_own_relay_gets_the_message_and_a_repetition_is_the_same_event() {
    let case = case();
    case.lists(&[OWN]).await;
    for _ in 0..2 {
        assert_eq!(case.channel.send(&message()).await, Outcome::Delivered);
    }
    let [wrap] = &case.own.of_kind(1059)[..] else { panic!("one message") };
    let recipient = Keys::new(OtherSecret::from_slice(&case.recipient.secret_bytes()).unwrap());
    let gift = UnwrappedGift::from_gift_wrap(&recipient, &OtherEvent::from_json(wrap.to_json()).unwrap()).unwrap();
    assert_eq!(gift.rumor.content, message().line);
    assert_eq!(gift.sender.to_bytes(), case.sender.identity.keys().unwrap().x_only_public_key().0.serialize());
}

#[tokio::test]
async fn the_server_has_a_profile_and_relays_once_on_its_own_relay() {
    let case = case();
    case.lists(&[OWN]).await;
    for _ in 0..2 {
        case.channel.send(&message()).await;
        *case.sender.is_introduced.lock() = false; // as after a restart
    }
    let own_key = const_hex::encode(case.sender.identity.keys().unwrap().x_only_public_key().0.serialize());
    let [profile] = &case.own.of_kind(PROFILE)[..] else { panic!("one profile") };
    assert_eq!(profile.pubkey, own_key);
    let profile: serde_json::Value = serde_json::from_str(&profile.content).unwrap();
    assert_eq!((&profile["name"], &profile["bot"]), (&json!("Birdhouse"), &json!(true)));
    let lists: Vec<_> = case.own.of_kind(INBOX_RELAYS).into_iter().filter(|list| list.pubkey == own_key).collect();
    assert_eq!(lists.len(), 1);
    assert_eq!(lists[0].values("relay").collect::<Vec<_>>(), [OWN]);
}

#[tokio::test]
async fn a_recipient_without_relays_fails_in_words_and_nothing_is_sent() {
    let case = case();
    let why = why(case.channel.send(&message()).await);
    assert!(why.contains("npub1") && why.contains("kind 10050") && why.contains("own relay"), "{why}");
    assert!(case.own.of_kind(1059).is_empty());
}

#[tokio::test]
async fn a_recipient_whose_relays_are_elsewhere_gets_nothing_on_the_own_one() {
    let refused = Refused::new(vec![RefusedAddress::parse("the node", "127.0.0.1:1").unwrap()]);
    let case = case_with(Arc::new(Guard::new(refused)), &[]);
    case.lists(&["ws://127.0.0.1:1"]).await;
    let why = why(case.channel.send(&message()).await);
    assert!(why.contains("nothing may reach"), "a list cannot lead to the node: {why}");
    assert!(case.own.of_kind(1059).is_empty());
}

/// Accepts no connection until the test ends: one that waits would have been made.
async fn private_relay() -> (tokio::net::TcpListener, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// True if somebody has connected.
async fn was_reached(listener: &tokio::net::TcpListener) -> bool {
    tokio::time::timeout(Duration::from_millis(50), listener.accept()).await.is_ok()
}

#[tokio::test]
async fn a_list_of_a_recipient_leads_into_no_private_network() {
    let (listener, url) = private_relay().await;
    let named = url.replace("127.0.0.1", "localhost");
    for url in [&url, &named] {
        let case = case();
        case.lists(&[url]).await;
        let why = why(case.channel.send(&message()).await);
        assert!(why.contains("private network") && why.contains("`relays`"), "{why}");
        assert!(!was_reached(&listener).await, "{url}");
    }
    for url in ["ws://10.0.0.1", "ws://192.168.1.1:7777", "ws://169.254.169.254", "ws://[fd00::1]", "ws://[::1]:9"] {
        let case = case();
        case.lists(&[url]).await;
        assert!(why(case.channel.send(&message()).await).contains("private network"), "{url}");
    }
}

#[tokio::test]
async fn a_private_relay_of_the_file_and_the_own_one_may_stand_in_a_list() {
    let (listener, url) = private_relay().await;
    let reached = async |case: Case| {
        case.lists(&[&url]).await;
        let message = message();
        // The relay hangs up at once, so the message fails, but after a connection.
        let hangs_up = async { drop(listener.accept().await.unwrap()) };
        let (outcome, ()) = tokio::join!(case.channel.send(&message), hangs_up);
        assert!(!why(outcome).contains("private network"));
    };
    reached(case_with(guard(), std::slice::from_ref(&url))).await;
    let own = Guard::new(Refused::default()).with_own_relay(vec![listener.local_addr().unwrap()]);
    reached(case_with(Arc::new(own), &[])).await;
}

#[tokio::test]
async fn a_dead_relay_beside_the_own_one_is_no_failure_and_rests() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let case = case_with(guard(), std::slice::from_ref(&url));
    case.lists(&[OWN, &url]).await;
    let hangs_up = async {
        drop(listener.accept().await.unwrap());
        listener
    };
    let message = message();
    let (outcome, listener) = tokio::join!(case.channel.send(&message), hangs_up);
    assert_eq!(outcome, Outcome::Delivered);
    drop(listener);
    // It would be refused now: that it is not tried cannot be seen but in the list.
    assert!(case.channel.resting.lock().contains_key(&url));
    assert_eq!(case.channel.send(&message).await, Outcome::Delivered);
}

/// A relay whose disk is full, or whose store is damaged.
struct Broken;

impl OwnRelay for Broken {
    fn urls(&self) -> Vec<String> {
        vec![OWN.into()]
    }

    fn is_named(&self, url: &str) -> bool {
        url == OWN
    }

    fn publish(&self, _: String) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Err("the disk is full".into()) })
    }

    fn newest(&self, _: u16, _: [u8; 32]) -> BoxFuture<'_, Result<Option<String>, String>> {
        Box::pin(async { Err("the store is damaged".into()) })
    }
}

/// Answers every question with this event, and takes every message; returns the messages once it has `count`.
async fn foreign_relay(listener: tokio::net::TcpListener, list: Event, count: usize) -> Vec<Event> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let (socket, _) = listener.accept().await.unwrap();
        let mut talk = tokio_tungstenite::accept_async(socket).await.unwrap();
        while let Some(Ok(frame)) = talk.next().await {
            let Ok(text) = frame.to_text() else { continue };
            let Ok(message) = serde_json::from_str::<serde_json::Value>(text) else { continue };
            let answers = if message[0] == "REQ" {
                vec![json!(["EVENT", message[1], list]), json!(["EOSE", message[1]])]
            } else if message[0] == "EVENT" {
                taken.push(Event::verified(&message[1].to_string()).unwrap());
                vec![json!(["OK", message[1]["id"], true, ""])]
            } else {
                continue;
            };
            for answer in answers {
                talk.send(answer.to_string().into()).await.unwrap();
            }
        }
    }
    taken
}

#[tokio::test]
async fn messages_leave_beside_an_own_relay_that_fails() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let case = case_with(guard(), std::slice::from_ref(&url));
    let tags = vec![vec!["relay".to_owned(), url.clone()]];
    let list = Draft { created_at: 1, kind: INBOX_RELAYS, tags, content: String::new() }.sign(&case.recipient);
    let identity = Identity::new(case.folder.path().join("watch.nsec"));
    let sender = Arc::new(Sender::new(guard(), clock(), identity, Some(Arc::new(Broken))));
    let to = address::write_public(&case.recipient.x_only_public_key().0);
    let channel = Nostr::new(sender, &to, std::slice::from_ref(&url), Wording::WithAmounts).unwrap();
    let relay = tokio::spawn(foreign_relay(listener, list, 1));
    assert_eq!(channel.send(&message()).await, Outcome::Delivered);
    let taken = relay.await.unwrap();
    assert_eq!(taken.iter().map(|event| event.kind).collect::<Vec<_>>(), [1059]);
}

#[test]
fn broken_recipients_and_relays_are_refused() {
    let case = case();
    let open = |to: &str, relays: &[&str]| {
        let relays: Vec<_> = relays.iter().map(|url| (*url).to_owned()).collect();
        Nostr::new(Arc::clone(&case.sender), to, &relays, Wording::WithAmounts).is_ok()
    };
    let to = const_hex::encode([9_u8; 32]);
    let to = if address::public(&to).is_ok() {
        to
    } else {
        const_hex::encode(case.recipient.x_only_public_key().0.serialize())
    };
    assert!(open(&to, &["wss://relay.example.org"]));
    assert!(!open("npub1", &[]));
    assert!(!open(&to, &["https://relay.example.org"]));
    assert!(!open(&to, &["wss://relay.example.org"; RELAYS_MAX + 1]));
}
