//! Private messages are shown to their author and recipients, who have proved it (NIP-04, 17, 59): stored, counted
//! and new.

use birdhouse_events::VerifiedEvent;
use birdhouse_relay::{PrivateMessages, Settings};
use serde_json::{Value, json};

use crate::app::{App, Client, event, ids, keys, wire};

const SENDER: u8 = 1;
const RECIPIENT: u8 = 2;
const STRANGER: u8 = 3;

/// A message of each private kind that is kept, and one note between them.
fn letters() -> [VerifiedEvent; 3] {
    let recipient = keys(RECIPIENT).pubkey().to_string();
    let to: &[&[&str]] = &[&["p", &recipient]];
    [event(SENDER, 4, 1, to), event(SENDER, 1, 2, to), event(SENDER, 1059, 3, to)]
}

async fn app_of(letters: &[VerifiedEvent]) -> App {
    let app = App::start(Settings::default()).await;
    let mut sender = app.client().await;
    for letter in letters {
        sender.store(letter).await;
    }
    app
}

async fn client_of(app: &App, author: u8) -> Client {
    let mut client = app.client().await;
    client.authenticate(author, &app.url()).await;
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn private_messages_are_stored_and_counted_for_their_people_alone() {
    let letters = letters();
    let app = app_of(&letters).await;
    let [message, note, wrap] = &letters;
    for person in [SENDER, RECIPIENT] {
        let mut client = client_of(&app, person).await;
        assert_eq!(client.stored(&[json!({})]).await, ids([wrap, note, message]));
        assert_eq!(client.stored(&[json!({ "kinds": [1059] })]).await, ids([wrap]));
        assert_eq!(client.count(json!({ "kinds": [4, 1059] })).await, 2);
    }
    let mut stranger = client_of(&app, STRANGER).await;
    for filter in [json!({}), json!({ "ids": ids(&letters) }), json!({ "#p": [keys(RECIPIENT).pubkey().to_string()] })]
    {
        assert_eq!(stranger.stored(std::slice::from_ref(&filter)).await, ids([note]), "{filter}");
        assert_eq!(stranger.count(filter).await, 1);
    }
    assert_eq!(stranger.stored(&[json!({ "kinds": [4] })]).await, ids([]));
    assert_eq!(stranger.count(json!({ "kinds": [4, 1059] })).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_private_messages_alone_must_prove_who_it_is() {
    let letters = letters();
    let app = app_of(&letters).await;
    let mut client = app.client().await;
    let private: Value = json!({ "kinds": [4, 1059], "#p": [keys(RECIPIENT).pubkey().to_string()] });
    for verb in ["REQ", "COUNT"] {
        client.say(json!([verb, "a", private, { "kinds": [1059] }])).await;
        let answer = client.hear().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("a")));
        assert!(answer[2].as_str().unwrap().starts_with("auth-required: "), "{answer}");
    }
    // Who asks for more gets what is for everybody.
    assert_eq!(client.stored(&[private.clone(), json!({ "kinds": [1] })]).await, ids([&letters[1]]));
    assert_eq!(client.count(json!({ "kinds": [1, 4] })).await, 1);
    client.authenticate(RECIPIENT, &app.url()).await;
    assert_eq!(client.stored(&[private]).await, ids([&letters[2], &letters[0]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_shown_takes_no_place_within_the_limit() {
    let app = App::start(Settings::default()).await;
    let mut sender = app.client().await;
    let mut notes = Vec::new();
    for second in 0..300 {
        let event = event(SENDER, if second % 100 == 0 { 1 } else { 4 }, second, &[]);
        sender.store(&event).await;
        notes.extend((event.kind.0 == 1).then_some(event));
    }
    notes.reverse();
    let mut stranger = client_of(&app, STRANGER).await;
    assert_eq!(stranger.stored(&[json!({ "limit": 2 })]).await, ids(&notes[..2]));
    assert_eq!(stranger.stored(&[json!({ "kinds": [1, 4], "limit": 9 })]).await, ids(&notes));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_private_messages_are_told_to_their_people_alone_from_the_moment_they_prove_it() {
    let app = App::start(Settings::default()).await;
    let (mut sender, mut recipient) = (app.client().await, app.client().await);
    let mut stranger = client_of(&app, STRANGER).await;
    for client in [&mut recipient, &mut stranger] {
        client.say(json!(["REQ", "all", {}])).await;
        client.hear_end("all").await;
    }
    let person = keys(RECIPIENT).pubkey().to_string();
    let to: &[&[&str]] = &[&["p", &person]];
    sender.store(&event(SENDER, 4, 1, to)).await;
    let first_note = event(SENDER, 1, 2, &[]);
    sender.store(&first_note).await;
    // The first thing that either hears: nobody has proved to be the recipient yet.
    for client in [&mut recipient, &mut stranger] {
        assert_eq!(client.hear().await, json!(["EVENT", "all", wire(&first_note)]));
    }
    recipient.authenticate(RECIPIENT, &app.url()).await;
    let wraps = [event(SENDER, 1059, 3, to), event(SENDER, 21_059, 4, to)];
    let last_note = event(SENDER, 1, 5, &[]);
    for event in wraps.iter().chain([&last_note]) {
        sender.store(event).await;
    }
    for event in wraps.iter().chain([&last_note]) {
        assert_eq!(recipient.hear().await, json!(["EVENT", "all", wire(event)]));
    }
    assert_eq!(stranger.hear().await, json!(["EVENT", "all", wire(&last_note)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_show_them_to_everybody() {
    let private_messages = PrivateMessages::ForEveryone;
    let app = App::start(Settings { private_messages, ..Settings::default() }).await;
    let mut client = app.client().await;
    let letters = letters();
    for letter in &letters {
        client.store(letter).await;
    }
    assert_eq!(client.stored(&[json!({ "kinds": [4, 1059] })]).await, ids([&letters[2], &letters[0]]));
}
