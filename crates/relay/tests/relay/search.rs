//! Search for words (NIP-50) over real sockets.

use std::time::Duration;

use birdhouse_events::{EventsOptions, Kind, SearchStorage, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_relay::Settings;
use nostr_sdk::prelude::{Client as Sdk, Filter as SdkFilter, Keys as SdkKeys};
use serde_json::json;

use crate::app::{App, event, ids, keys, wire};

async fn app() -> App {
    let options = EventsOptions { search: SearchStorage::Memory, ..EventsOptions::default() };
    App::start_with(Settings::default(), options).await
}

fn note(second: u64, kind: u16, tags: &[&[&str]], content: &str) -> VerifiedEvent {
    let tags = tags.iter().map(|tag| Tag(tag.iter().map(|element| (*element).to_owned()).collect())).collect();
    let created_at = Timestamp(1_700_000_000 + second);
    UnsignedEvent { created_at, kind: Kind(kind), tags, content: content.to_owned() }.sign(&keys(1))
}

/// Waits until the thread that indexes has done so.
async fn indexed(app: &App) {
    for _ in 0..400 {
        if app.events.words_watermark() == app.events.end() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the words are not indexed: {:?}", app.events.words_watermark());
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_at_once_and_when_they_are_indexed_and_never_when_they_are_deleted() {
    let app = app().await;
    let mut client = app.client().await;
    let notes = [
        note(1, 1, &[], "An owl, and a nest in the tree"),
        note(2, 1, &[&["t", "birds"]], "Owl owl owl"),
        note(3, 30_023, &[&["d", "x"], &["title", "Owls and an owl"]], "Text"),
        note(4, 7, &[], "owl"),
        note(5, 1, &[], "nothing"),
    ];
    for note in &notes {
        client.store(note).await;
    }
    for round in 0..2 {
        let mut found = client.stored(&[json!({ "search": "OWL language:en" })]).await;
        assert_eq!(found[0], notes[1].id.to_string(), "the best first, {round}");
        found.sort();
        let mut expected = ids(&notes[..3]);
        expected.sort();
        assert_eq!(found, expected, "{round}");
        assert_eq!(client.stored(&[json!({ "search": "owl", "limit": 1 })]).await, ids([&notes[1]]));
        assert_eq!(client.stored(&[json!({ "search": "owl", "#t": ["birds"] })]).await, ids([&notes[1]]));
        assert_eq!(client.stored(&[json!({ "search": "nest owl", "kinds": [1] })]).await, ids([&notes[0]]));
        assert!(client.stored(&[json!({ "search": "owl penguin" })]).await.is_empty());
        assert_eq!(client.stored(&[json!({ "search": "nothing" }), json!({ "kinds": [7] })]).await.len(), 2);
        indexed(&app).await;
    }
    client.store(&note(9, 5, &[&["e", &notes[1].id.to_string()]], "")).await;
    let found = client.stored(&[json!({ "search": "owl", "kinds": [1] })]).await;
    assert_eq!(found, ids([&notes[0]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn live_searches_hear_what_has_their_words_and_others_are_refused() {
    let app = app().await;
    let (mut client, mut author) = (app.client().await, app.client().await);
    client.say(json!(["REQ", "live", { "search": "owl nest" }])).await;
    assert_eq!(client.hear().await, json!(["EOSE", "live"]));
    author.store(&note(1, 1, &[], "an owl")).await;
    let heard = note(2, 1, &[], "a nest of an OWL");
    author.store(&heard).await;
    assert_eq!(client.hear().await, json!(["EVENT", "live", wire(&heard)]));
    client.say(json!(["COUNT", "c", { "search": "owl" }])).await;
    let answer = client.hear().await;
    assert!(answer[0] == "CLOSED" && answer[2].as_str().unwrap().starts_with("unsupported: "), "{answer}");
    client.say(json!(["NEG-OPEN", "n", { "search": "owl" }, "6100"])).await;
    let answer = client.hear().await;
    assert!(answer[0] == "NEG-ERR" && answer[2].as_str().unwrap().starts_with("unsupported: "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_says_whether_it_searches_and_refuses_when_it_does_not() {
    let (with, without) = (app().await, App::start(Settings::default()).await);
    let nips = |information: serde_json::Value| information["supported_nips"].as_array().unwrap().clone();
    assert!(nips(with.information().await).contains(&json!(50)));
    assert!(!nips(without.information().await).contains(&json!(50)));
    let mut client = without.client().await;
    client.say(json!(["REQ", "a", { "search": "owl" }])).await;
    let answer = client.hear().await;
    assert!(answer[0] == "CLOSED" && answer[2].as_str().unwrap().starts_with("unsupported: "), "{answer}");
}

/// The threads of the runtime, which serve everybody.
const THREADS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_answered_between_the_pieces_of_searches_through_large_events() {
    let app = app().await;
    let large: Vec<VerifiedEvent> = (0..64).map(|second| note(second, 1, &[], &"owl nest ".repeat(29_000))).collect();
    for some in large.chunks(8) {
        app.events.accept(&some.iter().collect::<Vec<_>>()).unwrap();
    }
    let mut other = app.client().await;
    let mut searchers = Vec::new();
    for _ in 0..2 * THREADS {
        let mut searcher = app.client().await;
        searchers.push(tokio::spawn(async move { searcher.stored(&[json!({ "search": "owl nest" })]).await.len() }));
    }
    app.until("the searches are under way", || app.relay.overview().reqs >= 2 * THREADS as u64).await;
    // An answer waits for one piece of a search for each turn at most; all searches take far more pieces.
    for _ in 0..8 {
        assert_eq!(other.stored(&[json!({ "ids": [large[0].id.to_string()] })]).await.len(), 1);
    }
    let under_way = searchers.iter().filter(|searcher| !searcher.is_finished()).count();
    println!("{under_way} searches are under way after 8 answers");
    assert!(under_way > 0, "others waited for the searches");
    for searcher in searchers {
        assert_eq!(searcher.await.unwrap(), large.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_must_wait_for_the_index_is_refused_before_any_event() {
    // A folder that cannot be made: the index is never filled.
    let file = tempfile::NamedTempFile::new().unwrap();
    let search = SearchStorage::Folder(file.path().join("search"));
    let options = EventsOptions { search, unindexed_events_max: 2, ..EventsOptions::default() };
    let app = App::start_with(Settings::default(), options).await;
    let notes: Vec<VerifiedEvent> = (0..5).map(|second| note(second, 1, &[], "an owl")).collect();
    app.events.accept(&notes.iter().collect::<Vec<_>>()).unwrap();
    let mut client = app.client().await;
    client.say(json!(["REQ", "a", { "kinds": [1] }, { "search": "owl" }])).await;
    let answer = client.hear().await;
    assert!(answer[0] == "CLOSED" && answer[2].as_str().unwrap().starts_with("error: words are being"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nostr_sdk_searches() {
    let app = app().await;
    let notes: Vec<VerifiedEvent> = (0..300)
        .map(|n| note(n, 1, &[], if n % 3 == 0 { "a robin sings" } else { "the city sleeps" }))
        .chain([event(2, 7, 1, &[])])
        .collect();
    app.events.accept(&notes.iter().collect::<Vec<_>>()).unwrap();
    let client = Sdk::new(SdkKeys::generate());
    client.add_relay(app.url()).await.unwrap();
    client.connect().await;
    client.wait_for_connection(Duration::from_secs(20)).await;
    for _ in 0..2 {
        let filter = SdkFilter::new().search("Robin");
        let found = client.fetch_events(filter.clone().limit(400), Duration::from_secs(20)).await.unwrap();
        assert_eq!(found.len(), 100);
        assert!(found.iter().all(|event| event.content == "a robin sings"));
        assert_eq!(client.fetch_events(filter.limit(7), Duration::from_secs(20)).await.unwrap().len(), 7);
        indexed(&app).await;
    }
}
