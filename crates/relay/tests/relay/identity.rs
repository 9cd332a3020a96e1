//! Authentication of clients, and the rights that it gives them (NIP-42, 70), over the wire.

use birdhouse_events::{EventsOptions, RelayUrl};
use birdhouse_relay::Settings;
use serde_json::json;

use crate::app::{App, Client, event, ids, now, proof};

async fn is_refused(client: &mut Client, verb: &str, event: &birdhouse_events::VerifiedEvent, prefix: &str) {
    let (is_accepted, why) = client.offer(verb, event).await;
    assert!(!is_accepted && why.starts_with(prefix), "{why:?} is not {prefix}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_is_asked_another_challenge_and_only_its_answer_is_taken() {
    let app = App::start(Settings::default()).await;
    let (mut client, other) = (app.client().await, app.client().await);
    assert_ne!(client.challenge, other.challenge);
    let challenge = client.challenge.clone();
    for wrong in [
        proof(1, now(), &app.url(), &other.challenge),
        proof(1, now(), "ws://elsewhere", &challenge),
        proof(1, now() - 700, &app.url(), &challenge),
        event(1, 1, 1, &[&["relay", &app.url()], &["challenge", &challenge]]),
    ] {
        is_refused(&mut client, "AUTH", &wrong, "invalid: ").await;
    }
    client.authenticate(1, &app.url()).await;
    client.say(json!(["AUTH", "challenge"])).await;
    assert_eq!(client.hear().await[0], "NOTICE");
}

#[tokio::test(flavor = "multi_thread")]
async fn proofs_of_identity_are_not_kept_and_not_told() {
    let app = App::start(Settings::default()).await;
    let (mut client, mut watcher) = (app.client().await, app.client().await);
    watcher.say(json!(["REQ", "all", {}])).await;
    watcher.hear_end("all").await;
    client.authenticate(1, &app.url()).await;
    let published = proof(1, now(), &app.url(), &client.challenge);
    is_refused(&mut client, "EVENT", &published, "invalid: ").await;
    let note = event(1, 1, 1, &[]);
    client.store(&note).await;
    assert_eq!(watcher.hear().await[2]["id"], note.id.to_string(), "the first that is told");
    assert_eq!(client.stored(&[json!({})]).await, ids([&note]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_has_urls_is_at_these_and_at_no_other() {
    let urls = vec![RelayUrl::parse("wss://birds.example").unwrap()];
    let app = App::start_with(Settings::default(), EventsOptions { urls, ..EventsOptions::default() }).await;
    let mut client = app.client().await;
    let astray = proof(1, now(), &app.url(), &client.challenge);
    let why = "invalid: the relay tag does not name this relay; its relay-url is wss://birds.example";
    is_refused(&mut client, "AUTH", &astray, why).await;
    client.authenticate(1, "wss://Birds.example/").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_events_are_taken_from_their_author_alone() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let (own, foreign) = (event(1, 1, 1, &[&["-"]]), event(2, 1, 2, &[&["-"]]));
    is_refused(&mut client, "EVENT", &own, "auth-required: ").await;
    client.authenticate(1, &app.url()).await;
    client.store(&own).await;
    is_refused(&mut client, "EVENT", &foreign, "restricted: ").await;
    // A connection can be of several authors.
    client.authenticate(2, &app.url()).await;
    client.store(&foreign).await;
    client.store(&event(1, 1, 3, &[&["-"]])).await;
}
