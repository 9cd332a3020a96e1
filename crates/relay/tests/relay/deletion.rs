//! Deletion and vanish requests (NIP-09, 62), before and after the events that they name, over the wire.

use birdhouse_events::{EventsOptions, RelayUrl, VerifiedEvent};
use birdhouse_relay::Settings;
use serde_json::json;

use crate::app::{App, Client, event, ids, keys};

const REPOST: u16 = 6;
const GIFT_WRAP: u16 = 1059;
const VANISH: u16 = 62;

async fn is_blocked(client: &mut Client, event: &VerifiedEvent) {
    let (is_accepted, why) = client.publish(event).await;
    assert!(!is_accepted && why.starts_with("blocked: "), "{why:?}");
}

fn address(event: &VerifiedEvent, d: &str) -> String {
    format!("{}:{}:{d}", event.kind.0, event.pubkey)
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_up_to_a_deletion_by_address_are_gone_and_newer_ones_live() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let (article, other) = (event(1, 30_023, 5, &[&["d", "x"]]), event(1, 30_023, 5, &[&["d", "y"]]));
    let (profile, list) = (event(1, 0, 5, &[]), event(1, 10_002, 20, &[]));
    for event in [&article, &other, &profile, &list] {
        client.store(event).await;
    }
    let addresses = [address(&article, "x"), address(&profile, ""), address(&list, "")];
    let tags: Vec<[&str; 2]> = addresses.iter().map(|address| ["a", address.as_str()]).collect();
    let deletion = event(1, 5, 10, &tags.iter().map(<[_; 2]>::as_slice).collect::<Vec<_>>());
    client.store(&deletion).await;
    // The list is younger than the deletion; the other article was not meant.
    assert_eq!(client.stored(&[json!({})]).await, ids([&list, &deletion, &other]));
    is_blocked(&mut client, &article).await;
    is_blocked(&mut client, &event(1, 30_023, 10, &[&["d", "x"], &["n", "at its very second"]])).await;
    let newer = event(1, 30_023, 11, &[&["d", "x"]]);
    client.store(&newer).await;
    assert_eq!(client.stored(&[json!({ "kinds": [30_023] })]).await, ids([&newer, &other]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_its_deletion_is_not_taken_and_not_told() {
    let app = App::start(Settings::default()).await;
    let (mut client, mut reader) = (app.client().await, app.client().await);
    let (note, article) = (event(1, 1, 1, &[]), event(1, 30_023, 2, &[&["d", "x"]]));
    let by_id = event(1, 5, 3, &[&["e", &note.id.to_string()]]);
    let by_address = event(1, 5, 4, &[&["a", &address(&article, "x")]]);
    client.store(&by_id).await;
    client.store(&by_address).await;
    reader.say(json!(["REQ", "new", { "limit": 0 }])).await;
    reader.hear_end("new").await;
    is_blocked(&mut client, &note).await;
    is_blocked(&mut client, &article).await;
    let last = event(1, 1, 9, &[]);
    client.store(&last).await;
    assert_eq!(reader.hear().await[2]["id"], last.id.to_string(), "the first that is told");
    assert_eq!(client.count(json!({})).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_cannot_be_deleted_and_go_on_to_hold() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let note = event(1, 1, 1, &[]);
    let first = event(1, 5, 2, &[&["e", &note.id.to_string()]]);
    let second = event(1, 5, 3, &[&["e", &first.id.to_string()]]);
    client.store(&first).await;
    client.store(&second).await;
    assert_eq!(client.stored(&[json!({})]).await, ids([&second, &first]));
    is_blocked(&mut client, &note).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_others_stays_whichever_comes_first() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let (note, article) = (event(2, 1, 1, &[]), event(2, 30_023, 2, &[&["d", "x"]]));
    let own = event(1, 1, 3, &[]);
    client.store(&note).await;
    client.store(&own).await;
    let targets = [note.id.to_string(), article.id.to_string(), address(&article, "x"), own.id.to_string()];
    let foreign = event(1, 5, 9, &[&["e", &targets[0]], &["e", &targets[1]], &["a", &targets[2]], &["e", &targets[3]]]);
    client.store(&foreign).await;
    client.store(&article).await;
    assert_eq!(client.stored(&[json!({})]).await, ids([&foreign, &article, &note]), "its own is gone all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gift_wrap_is_deleted_by_whom_it_is_for_and_by_no_stranger() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let recipient = keys(2).pubkey().to_string();
    let wraps = [1, 2].map(|second| event(9, GIFT_WRAP, second, &[&["p", &recipient]]));
    for wrap in &wraps {
        client.store(wrap).await;
    }
    client.authenticate(2, &app.url()).await;
    let private = json!({ "kinds": [GIFT_WRAP] });
    client.store(&event(3, 5, 5, &[&["e", &wraps[0].id.to_string()]])).await;
    assert_eq!(client.stored(std::slice::from_ref(&private)).await, ids([&wraps[1], &wraps[0]]));
    client.store(&event(2, 5, 6, &[&["e", &wraps[0].id.to_string()]])).await;
    assert_eq!(client.stored(std::slice::from_ref(&private)).await, ids([&wraps[1]]));
    is_blocked(&mut client, &wraps[0]).await;
    // Who vanishes takes along what was for him.
    client.store(&event(2, VANISH, 7, &[&["relay", "ALL_RELAYS"]])).await;
    assert_eq!(client.stored(&[private]).await, ids([]));
    is_blocked(&mut client, &wraps[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_vanish_holds_where_it_names_the_relay_and_takes_deletions_along() {
    let urls = vec![RelayUrl::parse("wss://birds.example").unwrap()];
    let app = App::start_with(Settings::default(), EventsOptions { urls, ..EventsOptions::default() }).await;
    let mut client = app.client().await;
    let (note, deletion) = (event(1, 1, 1, &[]), event(1, 5, 2, &[&["e", &"ab".repeat(32)]]));
    client.store(&note).await;
    client.store(&deletion).await;
    let elsewhere = event(1, VANISH, 8, &[&["relay", "wss://elsewhere.example"]]);
    let (is_accepted, why) = client.publish(&elsewhere).await;
    let expected =
        "invalid: the relay tags of this request to vanish name other relays; its relay-url is wss://birds.example";
    assert!(!is_accepted && why == expected, "{why}");
    assert_eq!(client.count(json!({})).await, 2);
    // Neither the scheme nor the path tells relays apart.
    let request = event(1, VANISH, 9, &[&["relay", "wss://elsewhere.example"], &["relay", "ws://Birds.example/in"]]);
    client.store(&request).await;
    let late = event(1, 1, 10, &[]);
    client.store(&late).await;
    let left = client.stored(&[json!({ "kinds": [1, 5] })]).await;
    assert_eq!(left, ids([&late]));
    is_blocked(&mut client, &note).await;
    is_blocked(&mut client, &deletion).await;
    // It cannot be taken back.
    client.store(&event(1, 5, 11, &[&["e", &request.id.to_string()]])).await;
    assert_eq!(client.stored(&[json!({ "ids": [request.id.to_string()] })]).await, ids([&request]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repost_that_carries_a_protected_event_is_refused() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let carrying = |carried: &VerifiedEvent| {
        let created_at = birdhouse_events::Timestamp(1_700_000_009);
        let content = carried.to_json();
        let unsigned = birdhouse_events::UnsignedEvent {
            created_at,
            kind: birdhouse_events::Kind(REPOST),
            tags: Vec::new(),
            content,
        };
        unsigned.sign(&keys(2))
    };
    client.store(&carrying(&event(1, 1, 1, &[]))).await;
    is_blocked(&mut client, &carrying(&event(1, 1, 1, &[&["-"]]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_event_is_told_though_it_has_expired() {
    let app = App::start(Settings::default()).await;
    let (mut client, mut reader) = (app.client().await, app.client().await);
    reader.say(json!(["REQ", "new", {}])).await;
    reader.hear_end("new").await;
    let old = event(1, 20_001, 1, &[&["expiration", "1700000002"]]);
    client.store(&old).await;
    assert_eq!(reader.hear().await[2]["id"], old.id.to_string());
}
