//! Negentropy (NIP-77) over real sockets: with raw messages, and as nostr-sdk does it.

use std::collections::BTreeSet;
use std::time::Duration;

use birdhouse_events::{EventId, VerifiedEvent, hex};
use birdhouse_relay::{Limits, Settings};
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use nostr_sdk::prelude::{
    Client as Sdk, Event as SdkEvent, Filter as SdkFilter, JsonUtil as _, Keys as SdkKeys, MemoryDatabase,
    MemoryDatabaseOptions, NostrDatabase as _, SyncDirection, SyncOptions,
};
use serde_json::{Value, json};

use crate::app::{App, Client, event, now, wire};

/// Events that both have, and of which each side lacks some.
const EVENTS: u64 = 4000;

type Found = BTreeSet<EventId>;

fn bytes(digits: &str) -> Vec<u8> {
    hex::read(digits.as_bytes()).unwrap().collect()
}

/// Returns the first message of a client that has these events.
pub(crate) fn initiator<'a>(
    events: impl Iterator<Item = &'a VerifiedEvent>,
) -> (Negentropy<'static, NegentropyStorageVector>, Vec<u8>) {
    let mut own = NegentropyStorageVector::new();
    events.for_each(|event| own.insert(event.created_at.0, Id::from_byte_array(event.id.0)).unwrap());
    own.seal().unwrap();
    let mut negentropy = Negentropy::owned(own, 4096).unwrap();
    let first = negentropy.initiate().unwrap();
    (negentropy, first)
}

/// Returns the ids that only the client has and those that only the relay has, by their own messages.
pub(crate) async fn compare<'a>(
    client: &mut Client,
    filter: &Value,
    own: impl Iterator<Item = &'a VerifiedEvent>,
) -> (Found, Found) {
    let (mut negentropy, first) = initiator(own);
    let (mut have, mut need) = (Vec::new(), Vec::new());
    client.say(json!(["NEG-OPEN", "s", filter, hex::string(&first)])).await;
    loop {
        let answer = client.hear().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("NEG-MSG"), &json!("s")), "{answer}");
        let answer = bytes(answer[2].as_str().unwrap());
        let Some(next) = negentropy.reconcile_with_ids(&answer, &mut have, &mut need).unwrap() else { break };
        client.say(json!(["NEG-MSG", "s", hex::string(&next)])).await;
    }
    client.say(json!(["NEG-CLOSE", "s"])).await;
    let set = |ids: Vec<Id>| ids.into_iter().map(|id| EventId(id.to_bytes())).collect();
    (set(have), set(need))
}

fn ids<'a>(events: impl Iterator<Item = &'a VerifiedEvent>) -> Found {
    events.map(|event| event.id).collect()
}

/// Takes events in without a socket.
fn keep<'a>(app: &App, events: impl Iterator<Item = &'a VerifiedEvent>) {
    app.events.accept(&events.collect::<Vec<_>>()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_learn_exactly_what_they_lack() {
    let app = App::start(Settings::default()).await;
    let all: Vec<VerifiedEvent> = (0..EVENTS)
        .map(|n| {
            event(1 + u8::try_from(n % 5).unwrap(), [1, 7][usize::from(n % 3 == 0)], n / 7, &[&["n", &n.to_string()]])
        })
        .collect();
    let of_relay = |n: usize| !n.is_multiple_of(11);
    let of_client = |n: usize| !n.is_multiple_of(13);
    let having = |has: fn(usize) -> bool| all.iter().enumerate().filter(move |(n, _)| has(*n)).map(|(_, event)| event);
    keep(&app, having(of_relay));
    let mut client = app.client().await;
    for (filter, matches) in [
        (json!({}), Box::new(|_: &VerifiedEvent| true) as Box<dyn Fn(&VerifiedEvent) -> bool>),
        (json!({ "kinds": [7] }), Box::new(|event| event.kind.0 == 7)),
        (
            json!({ "since": 1_700_000_100, "until": 1_700_000_200 }),
            Box::new(|event| (1_700_000_100..=1_700_000_200).contains(&event.created_at.0)),
        ),
        (json!({ "kinds": [9] }), Box::new(|_| false)),
    ] {
        let relay = ids(having(of_relay).filter(|event| matches(event)));
        let own = ids(having(of_client).filter(|event| matches(event)));
        let (have, need) = compare(&mut client, &filter, having(of_client).filter(|event| matches(event))).await;
        assert_eq!(have, &own - &relay, "{filter}");
        assert_eq!(need, &relay - &own, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_expired_deleted_or_for_others_has_no_id_in_a_session() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let person = crate::app::keys(2).pubkey().to_string();
    let expires_at = now() + 1;
    let (past, future) = (expires_at.to_string(), (expires_at + 1000).to_string());
    let deleted = event(1, 1, 1, &[]);
    let deletion = event(1, 5, 2, &[&["e", &deleted.id.to_string()]]);
    let expired = event(1, 1, 3, &[&["expiration", &past]]);
    let lasting = event(1, 1, 4, &[&["expiration", &future]]);
    let letter = event(1, 4, 5, &[&["p", &person]]);
    keep(&app, [&deleted, &deletion, &expired, &lasting, &letter].into_iter());
    // The clock is the condition: expiration counts whole seconds.
    while now() <= expires_at {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let none = || std::iter::empty();
    let public = Found::from([deletion.id, lasting.id]);
    assert_eq!(compare(&mut client, &json!({}), none()).await, (Found::new(), public.clone()));
    client.say(json!(["NEG-OPEN", "s", { "kinds": [4] }, "6100"])).await;
    let answer = client.hear().await;
    assert_eq!((&answer[0], &answer[1]), (&json!("NEG-ERR"), &json!("s")));
    assert!(answer[2].as_str().unwrap().starts_with("auth-required: "), "{answer}");
    client.authenticate(2, &app.url()).await;
    let mut own = public;
    own.insert(letter.id);
    assert_eq!(compare(&mut client, &json!({}), none()).await, (Found::new(), own));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_of_filters_is_compared_as_their_union() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let notes: Vec<VerifiedEvent> =
        (0..30).zip([1, 7, 9].into_iter().cycle()).map(|(n, kind)| event(1, kind, n, &[])).collect();
    keep(&app, notes.iter());
    let of = |kinds: &[u16]| -> Found {
        notes.iter().filter(|note| kinds.contains(&note.kind.0)).map(|note| note.id).collect()
    };
    let none = || std::iter::empty();
    let union = json!([{ "kinds": [1, 7] }, { "kinds": [7, 9] }]);
    assert_eq!(compare(&mut client, &union, none()).await, (Found::new(), of(&[1, 7, 9])), "each once");
    assert_eq!(compare(&mut client, &json!([{ "kinds": [7] }]), none()).await, (Found::new(), of(&[7])));
    // One that is refused refuses all.
    client.say(json!(["NEG-OPEN", "s", [{ "kinds": [1] }, { "search": "owl" }], "6100"])).await;
    assert_eq!(client.hear().await[0], "NEG-ERR");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_cut_inside_a_number_is_an_error() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    for (cut, what) in [("6186", "a time"), ("610080", "a length"), ("61000080", "a mode"), ("6100000280", "ids")] {
        client.say(json!(["NEG-OPEN", "s", {}, cut])).await;
        let answer = client.hear().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("NEG-ERR"), &json!("s")), "{what}: {answer}");
        assert!(answer[2].as_str().unwrap().starts_with("invalid: "), "{what}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_of_one_moment_and_apart_from_subscriptions() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let (before, after) = (event(1, 1, 1, &[]), event(1, 1, 2, &[]));
    client.store(&before).await;
    client.say(json!(["REQ", "s", { "limit": 0 }])).await;
    assert_eq!(client.hear().await[0], "EOSE");
    let (mut negentropy, first) = initiator(std::iter::empty());
    client.say(json!(["NEG-OPEN", "s", {}, hex::string(&first)])).await;
    let answer = client.hear().await;
    // A subscription of the same name goes on.
    client.say(json!(["EVENT", wire(&after)])).await;
    let said = [client.hear().await, client.hear().await];
    assert!(said.contains(&json!(["EVENT", "s", wire(&after)])), "{said:?}");
    // Asked the same again, the session answers the same.
    client.say(json!(["NEG-MSG", "s", hex::string(&first)])).await;
    assert_eq!(client.hear().await, answer);
    let (mut have, mut need) = (Vec::new(), Vec::new());
    negentropy.reconcile_with_ids(&bytes(answer[2].as_str().unwrap()), &mut have, &mut need).unwrap();
    assert_eq!(need, [Id::from_byte_array(before.id.0)]);
    // Opened again under its name, it is another.
    client.say(json!(["NEG-OPEN", "s", {}, hex::string(&first)])).await;
    assert_ne!(client.hear().await, answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_sessions_are_kept_and_said() {
    let limits = Limits { sync_sessions: 2, sync_ids: 10, sync_ids_all: 12, ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let notes: Vec<VerifiedEvent> = (0..11).map(|n| event(1, if n < 7 { 1 } else { 7 }, n, &[])).collect();
    keep(&app, notes.iter());
    let (mut client, mut other) = (app.client().await, app.client().await);
    let first = hex::string(&initiator(std::iter::empty()).1);
    client.say(json!(["NEG-OPEN", "a", {}, first])).await;
    assert_eq!(client.hear().await, json!(["NEG-ERR", "a", "blocked: the filter has more than 10 events", 10]));
    client.say(json!(["NEG-OPEN", "a", { "kinds": [1] }, first])).await;
    assert_eq!(client.hear().await[0], "NEG-MSG");
    // Seven of the twelve ids that all connections have room for are taken.
    let refusal = async |client: &mut Client, id: &str, kinds: u16| {
        client.say(json!(["NEG-OPEN", id, { "kinds": [kinds] }, first])).await;
        let answer = client.hear().await;
        (answer[0] == "NEG-ERR").then(|| answer[2].as_str().unwrap().to_owned())
    };
    assert!(refusal(&mut other, "a", 1).await.unwrap().starts_with("blocked: "));
    assert_eq!(refusal(&mut other, "b", 7).await, None);
    other.say(json!(["NEG-CLOSE", "b"])).await;
    client.say(json!(["NEG-CLOSE", "a"])).await;
    client.say(json!(["NEG-MSG", "a", first])).await;
    assert_eq!(client.hear().await, json!(["NEG-ERR", "a", "closed: no such session"]));
    assert_eq!(refusal(&mut other, "a", 1).await, None, "closed sessions leave room");
    for id in ["x", "y"] {
        assert_eq!(refusal(&mut client, id, 9).await, None);
    }
    assert!(refusal(&mut client, "z", 9).await.unwrap().starts_with("blocked: "), "a third one");
    assert_eq!(refusal(&mut client, "y", 9).await, None, "one of the same name takes its place");
    client.say(json!(["NEG-MSG", "y", "62"])).await;
    assert_eq!(client.hear().await, json!(["NEG-MSG", "y", "61"]), "the version that the relay speaks");
    client.say(json!(["NEG-MSG", "y", "6100ff"])).await;
    let answer = client.hear().await;
    assert!(answer[2].as_str().unwrap().starts_with("invalid: "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_room_among_the_ids_until_it_is_answered() {
    let limits = Limits { sync_ids_all: 100, ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let mut client = app.client().await;
    let (first, long) = (hex::string(&initiator(std::iter::empty()).1), "00".repeat(4001));
    client.say(json!(["NEG-OPEN", "a", {}, long])).await;
    let answer = client.hear().await;
    assert!(answer[0] == "NEG-ERR" && answer[2].as_str().unwrap().starts_with("blocked: "), "{answer}");
    client.say(json!(["NEG-OPEN", "a", {}, first])).await;
    assert_eq!(client.hear().await[0], "NEG-MSG");
    for _ in 0..200 {
        client.say(json!(["NEG-MSG", "a", first])).await;
        assert_eq!(client.hear().await[0], "NEG-MSG", "what was answered leaves room");
    }
    client.say(json!(["NEG-MSG", "a", long])).await;
    let answer = client.hear().await;
    assert!(answer[0] == "NEG-ERR" && answer[2].as_str().unwrap().starts_with("blocked: "), "{answer}");
    client.say(json!(["NEG-MSG", "a", first])).await;
    assert_eq!(client.hear().await, json!(["NEG-ERR", "a", "closed: no such session"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_client_says_nothing() {
    let limits = Limits { sync_idle_timeout: Duration::from_millis(300), ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let mut client = app.client().await;
    client.say(json!(["NEG-OPEN", "a", {}, hex::string(&initiator(std::iter::empty()).1)])).await;
    assert_eq!(client.hear().await[0], "NEG-MSG");
    assert_eq!(client.hear().await, json!(["NEG-ERR", "a", "closed: you took too long to answer"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_sdk_syncs_both_ways() {
    let app = App::start(Settings::default()).await;
    let all: Vec<VerifiedEvent> = (0..1000).map(|n| event(1, 1, n / 3, &[&["n", &n.to_string()]])).collect();
    let (of_relay, of_client) = (&all[..800], &all[300..]);
    keep(&app, of_relay.iter());
    let database = MemoryDatabase::with_opts(MemoryDatabaseOptions { events: true, max_events: None });
    for event in of_client {
        database.save_event(&SdkEvent::from_json(event.to_json()).unwrap()).await.unwrap();
    }
    let client = Sdk::builder().signer(SdkKeys::generate()).database(database).build();
    client.add_relay(app.url()).await.unwrap();
    client.connect().await;
    client.wait_for_connection(Duration::from_secs(20)).await;
    let output = client.sync(SdkFilter::new(), &SyncOptions::new().direction(SyncDirection::Both)).await.unwrap();
    assert!(output.failed.is_empty(), "{:?}", output.failed);
    assert_eq!((output.remote.len(), output.local.len()), (300, 200));
    assert_eq!((output.received.len(), output.sent.len()), (300, 200));
    assert_eq!(app.events.live_events(), 1000);
    assert_eq!(client.database().count(SdkFilter::new()).await.unwrap(), 1000);
}
