//! Filters and subscriptions as clients write them (NIP-01), over the wire.

use birdhouse_events::VerifiedEvent;
use birdhouse_relay::Settings;
use serde_json::{Value, json};

use crate::app::{App, Client, event, ids, now, wire};

async fn app_of(events: &[VerifiedEvent]) -> (App, Client) {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    for event in events {
        client.store(event).await;
    }
    (app, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_conditions_must_hold_with_one_value_of_each_and_letters_differ_by_case() {
    let events = [
        event(1, 1, 1, &[&["t", "a"], &["g", "x"]]),
        event(1, 1, 2, &[&["t", "b"], &["T", "a"]]),
        event(2, 1, 3, &[&["t", "a"], &["g", "y"]]),
        event(1, 7, 4, &[&["t", "a"], &["t", "c"], &["g", "x"]]),
        // Only the first value of a tag is found, and only of tags with names of one letter.
        event(1, 1, 5, &[&["t", "d", "a"], &["tt", "a"], &["t"]]),
    ];
    let (_app, mut client) = app_of(&events).await;
    let author = events[0].pubkey.to_string();
    for (filter, expected) in [
        (json!({ "#t": ["a"] }), &[3, 2, 0][..]),
        (json!({ "#t": ["a", "b"] }), &[3, 2, 1, 0]),
        (json!({ "#T": ["a"] }), &[1]),
        (json!({ "#t": ["a"], "#T": ["a"] }), &[]),
        (json!({ "#t": ["b"], "#T": ["a"] }), &[1]),
        (json!({ "#t": ["a", "c"], "#g": ["x"] }), &[3, 0]),
        (json!({ "#t": ["a"], "#g": ["x"], "kinds": [1] }), &[0]),
        (json!({ "#t": ["a"], "#g": ["x"], "limit": 1 }), &[3]),
        (json!({ "#t": ["a"], "#g": ["y"], "limit": 1 }), &[2]),
        (json!({ "#t": ["a"], "authors": [author], "kinds": [1, 7] }), &[3, 0]),
        (json!({ "#t": ["d"] }), &[4]),
    ] {
        let expected = expected.iter().map(|index| &events[*index]);
        assert_eq!(client.stored(std::slice::from_ref(&filter)).await, ids(expected), "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_match_nothing_gets_eose_alone_and_no_news() {
    let (app, mut client) = app_of(&[event(1, 1, 1, &[&["t", "a"]])]).await;
    let mut author = app.client().await;
    let filters: Vec<Value> = vec![
        json!({ "ids": [] }),
        json!({ "authors": [] }),
        json!({ "kinds": [] }),
        json!({ "#t": [] }),
        json!({ "kinds": [65_536, 4_000_000_000_u64] }),
        json!({ "until": -5 }),
        json!({ "since": 5, "until": 4 }),
    ];
    for filter in &filters {
        assert_eq!(client.stored(std::slice::from_ref(filter)).await, ids([]), "{filter}");
        assert_eq!(client.count(filter.clone()).await, 0);
    }
    let mut request = vec![json!("REQ"), json!("none")];
    request.extend(filters);
    client.say(Value::from(request)).await;
    client.hear_end("none").await;
    author.store(&event(1, 1, 2, &[&["t", "a"]])).await;
    assert_eq!(client.count(json!({})).await, 2, "the first answer since");
    assert_eq!(client.count(json!({ "since": -5 })).await, 2, "a time before all events");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_breaks_the_rules_is_closed_by_its_name_and_others_go_on() {
    let note = event(1, 1, 1, &[]);
    let (_app, mut client) = app_of(std::slice::from_ref(&note)).await;
    let upper = note.id.to_string().to_uppercase();
    for (filter, prefix) in [
        (json!({ "ids": [note.id.to_string()[..8]] }), "invalid: "),
        (json!({ "ids": [upper] }), "invalid: "),
        (json!({ "authors": ["npub1xyz"] }), "invalid: "),
        (json!({ "#e": ["x"] }), "invalid: "),
        (json!({ "#p": [note.id.to_string() + "0"] }), "invalid: "),
        (json!({ "kinds": ["1"] }), "invalid: "),
        (json!({ "kinds": 1 }), "invalid: "),
        (json!({ "limit": -1 }), "invalid: "),
        (json!({ "limit": "10" }), "invalid: limit is not an integer"),
        (json!({ "since": 1.5 }), "invalid: since is not an integer"),
        (json!([]), "invalid: "),
        (json!({ "#title": ["x"] }), "unsupported: "),
    ] {
        for verb in ["REQ", "COUNT"] {
            client.say(json!([verb, "a", filter])).await;
            let answer = client.hear().await;
            assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("a")), "{filter}: {answer}");
            assert!(answer[2].as_str().unwrap().starts_with(prefix), "{filter}: {answer}");
        }
    }
    assert_eq!(client.stored(&[json!({})]).await, ids([&note]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_of_what_is_stored_and_of_one_filter() {
    let events: Vec<_> = (0..30).map(|second| event(1, if second % 2 == 0 { 1 } else { 7 }, second, &[])).collect();
    let (app, mut client) = app_of(&events).await;
    let mut author = app.client().await;
    // More than there is, and more than any relay would give.
    let mut newest_first: Vec<&VerifiedEvent> = events.iter().collect();
    newest_first.reverse();
    assert_eq!(client.stored(&[json!({ "limit": 4_000_000_000_u64 })]).await, ids(newest_first));
    client.say(json!(["REQ", "a", { "kinds": [1], "limit": 1 }, { "kinds": [7], "limit": 2 }])).await;
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(client.hear().await[2]["id"].as_str().unwrap().to_owned());
    }
    found.sort();
    let mut expected = ids([&events[28], &events[29], &events[27]]);
    expected.sort();
    assert_eq!(found, expected);
    client.hear_end("a").await;
    // News have no limit.
    for second in 100..105 {
        let new = event(1, 1, second, &[]);
        author.store(&new).await;
        assert_eq!(client.hear().await, json!(["EVENT", "a", wire(&new)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_minute_ahead_is_found_without_until() {
    let ahead = event(1, 1, now() + 60 - 1_700_000_000, &[]);
    let (_app, mut client) = app_of(std::slice::from_ref(&ahead)).await;
    assert_eq!(client.stored(&[json!({})]).await, ids([&ahead]));
    assert_eq!(client.stored(&[json!({ "since": now() })]).await, ids([&ahead]));
    assert_eq!(client.stored(&[json!({ "until": now() })]).await, ids([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_belongs_to_its_connection() {
    let (app, mut one) = app_of(&[]).await;
    let (mut other, mut author) = (app.client().await, app.client().await);
    for (client, kind) in [(&mut one, 1), (&mut other, 7)] {
        client.say(json!(["REQ", "a", { "kinds": [kind] }])).await;
        client.hear_end("a").await;
    }
    let (note, reaction) = (event(1, 1, 1, &[]), event(1, 7, 2, &[]));
    author.store(&note).await;
    author.store(&reaction).await;
    assert_eq!(one.hear().await, json!(["EVENT", "a", wire(&note)]));
    assert_eq!(other.hear().await, json!(["EVENT", "a", wire(&reaction)]));
    one.say(json!(["CLOSE", "a"])).await;
    assert_eq!(one.count(json!({})).await, 2);
    let last = event(1, 7, 3, &[]);
    author.store(&last).await;
    assert_eq!(other.hear().await, json!(["EVENT", "a", wire(&last)]), "closed by the other, not here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_to_ids_that_are_there_stays_open_for_the_one_that_is_not() {
    let (stored, later) = (event(1, 1, 1, &[]), event(1, 1, 2, &[]));
    let (app, mut client) = app_of(std::slice::from_ref(&stored)).await;
    client.say(json!(["REQ", "a", { "ids": [stored.id.to_string(), later.id.to_string()] }])).await;
    assert_eq!(client.hear().await, json!(["EVENT", "a", wire(&stored)]));
    client.hear_end("a").await;
    app.client().await.store(&later).await;
    assert_eq!(client.hear().await, json!(["EVENT", "a", wire(&later)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_authors_and_long_values_are_asked_for_at_once() {
    let long = ["x".repeat(300) + "1", "x".repeat(300) + "2"];
    let events = [event(1, 1, 1, &[&["r", &long[0]]]), event(2, 1, 2, &[&["r", &long[1]]])];
    let (_app, mut client) = app_of(&events).await;
    let mut authors: Vec<String> = (0..9_999_u32).map(|number| format!("{number:064x}")).collect();
    authors.push(events[0].pubkey.to_string());
    assert_eq!(client.stored(&[json!({ "authors": authors })]).await, ids([&events[0]]));
    for (value, event) in long.iter().zip(&events) {
        assert_eq!(client.stored(&[json!({ "#r": [value] })]).await, ids([event]));
    }
    assert_eq!(client.stored(&[json!({ "#r": [&long[0][..300]] })]).await, ids([]), "a value is no prefix");
}
