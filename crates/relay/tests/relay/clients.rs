//! Clients that people use: what they publish, they and others find.

use std::time::Duration;

use birdhouse_relay::Settings;
use nostr_sdk::prelude::{
    Client, EventBuilder, Filter, Keys, Kind, RelayPoolNotification, SubscribeAutoCloseOptions, Tag,
};

use crate::app::App;

const PATIENCE: Duration = Duration::from_secs(20);

async fn client(app: &App) -> (Client, Keys) {
    let keys = Keys::generate();
    let client = Client::new(keys.clone());
    client.add_relay(app.url()).await.unwrap();
    client.connect().await;
    client.wait_for_connection(PATIENCE).await;
    (client, keys)
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_sdk_publishes_follows_fetches_and_replaces() {
    let app = App::start(Settings::default()).await;
    let ((alice, alice_keys), (bob, _)) = (client(&app).await, client(&app).await);

    // Bob follows Alice, then she writes.
    let notes = Filter::new().author(alice_keys.public_key()).kind(Kind::TextNote);
    let mut heard = bob.notifications();
    bob.subscribe(notes.clone(), None::<SubscribeAutoCloseOptions>).await.unwrap();
    let written = alice.send_event_builder(EventBuilder::text_note("a note").tag(Tag::hashtag("birds"))).await.unwrap();
    assert!(written.failed.is_empty(), "{written:?}");
    let live = tokio::time::timeout(PATIENCE, async {
        loop {
            if let RelayPoolNotification::Event { event, .. } = heard.recv().await.unwrap() {
                break *event;
            }
        }
    });
    let live = live.await.unwrap();
    assert_eq!((live.id, live.content.as_str()), (*written.id(), "a note"));

    // What is stored is found by author, tag and id.
    for filter in [notes.clone(), Filter::new().hashtag("birds"), Filter::new().id(live.id)] {
        let found = bob.fetch_events(filter.clone(), PATIENCE).await.unwrap();
        assert_eq!(found.iter().map(|event| event.id).collect::<Vec<_>>(), [live.id], "{filter:?}");
    }
    assert!(bob.fetch_events(Filter::new().hashtag("cats"), PATIENCE).await.unwrap().is_empty());

    // Of a profile the last stays.
    for name in ["Alice", "Alice B."] {
        let metadata = nostr_sdk::Metadata::new().name(name);
        let at = nostr_sdk::Timestamp::from(1_700_000_000 + name.len() as u64);
        alice.send_event_builder(EventBuilder::metadata(&metadata).custom_created_at(at)).await.unwrap();
    }
    let profile = bob.fetch_metadata(alice_keys.public_key(), PATIENCE).await.unwrap().unwrap();
    assert_eq!(profile.name.as_deref(), Some("Alice B."));
    let profiles = Filter::new().kind(Kind::Metadata);
    assert_eq!(bob.fetch_events(profiles, PATIENCE).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_sdk_proves_who_it_is_by_itself_when_it_must() {
    let app = App::start(Settings::default()).await;
    let ((alice, alice_keys), (bob, bob_keys)) = (client(&app).await, client(&app).await);
    // Refused with `auth-required`, it says who it is and publishes again.
    let own = EventBuilder::text_note("mine alone").tag(Tag::protected());
    let sent = alice.send_event_builder(own).await.unwrap();
    assert!(sent.failed.is_empty(), "{sent:?}");
    let letter =
        EventBuilder::new(Kind::EncryptedDirectMessage, "a secret").tag(Tag::public_key(bob_keys.public_key()));
    let sent = alice.send_event_builder(letter).await.unwrap();
    assert!(sent.failed.is_empty(), "{sent:?}");
    let letters = Filter::new().kind(Kind::EncryptedDirectMessage).author(alice_keys.public_key());
    let found = bob.fetch_events(letters.clone(), PATIENCE).await.unwrap();
    assert_eq!(found.iter().map(|event| event.id).collect::<Vec<_>>(), [*sent.id()]);
    let (stranger, _) = client(&app).await;
    assert!(stranger.fetch_events(letters, PATIENCE).await.unwrap().is_empty());
}
