//! Which events are taken in, and which are forgotten (NIP-09, 13, 40, 62), over the wire.

use std::time::Duration;

use birdhouse_events::{Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_relay::{Limits, Settings};
use serde_json::json;

use crate::app::{App, Client, event, ids, keys, now};

const VANISH: u16 = 62;

fn settings(limits: Limits) -> Settings {
    Settings { limits, ..Settings::default() }
}

/// A note of author 1.
fn note(created_at: u64, content: &str, tags: Vec<Tag>) -> VerifiedEvent {
    UnsignedEvent { created_at: Timestamp(created_at), kind: Kind(1), tags, content: content.to_owned() }.sign(&keys(1))
}

fn tag(elements: &[&str]) -> Tag {
    Tag(elements.iter().map(|element| (*element).to_owned()).collect())
}

async fn is_refused(client: &mut Client, event: &VerifiedEvent, prefix: &str) {
    let (is_accepted, why) = client.publish(event).await;
    assert!(!is_accepted && why.starts_with(prefix), "{why:?} is not {prefix}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_beyond_the_bounds_that_are_told_are_refused_and_those_at_them_are_kept() {
    let limits = Limits {
        created_at_ahead: Duration::from_secs(100),
        created_at_behind: Some(Duration::from_secs(1000)),
        tags: 2,
        content_bytes: 10,
        ..Limits::default()
    };
    let app = App::start(settings(limits)).await;
    let shown = app.information().await["limitation"].clone();
    for (name, value) in [
        ("max_event_tags", 2),
        ("max_content_length", 10),
        ("min_pow_difficulty", 0),
        ("created_at_lower_limit", 1000),
        ("created_at_upper_limit", 100),
    ] {
        assert_eq!(shown[name], value, "{name}");
    }
    let mut client = app.client().await;
    let tags = |count| vec![tag(&["t", "x"]); count];
    for good in [note(now() + 90, "", vec![]), note(now() - 900, "", vec![]), note(now(), "0123456789", tags(2))] {
        client.store(&good).await;
    }
    for bad in [
        note(now() + 200, "", vec![]),
        note(now() - 1100, "", vec![]),
        note(now(), "0123456789+", vec![]),
        note(now(), "", tags(3)),
    ] {
        is_refused(&mut client, &bad, "invalid: ").await;
    }
    assert_eq!(app.events.live_events(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_without_the_work_that_is_asked_for_are_refused() {
    let app = App::start(settings(Limits { difficulty: 8, ..Limits::default() })).await;
    assert_eq!(app.information().await["limitation"]["min_pow_difficulty"], 8);
    let mut client = app.client().await;
    let mined = |target: &str| {
        let mut tries = (0..).map(|nonce: u32| note(1000, "", vec![tag(&["nonce", &nonce.to_string(), target])]));
        tries.find(|event| event.difficulty() >= 8).unwrap()
    };
    client.store(&mined("8")).await;
    is_refused(&mut client, &mined("7"), "pow: ").await;
    is_refused(&mut client, &event(1, 1, 1, &[]), "pow: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_events_are_not_taken_and_not_shown() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let until = |at: u64| vec![tag(&["expiration", &at.to_string()])];
    is_refused(&mut client, &note(1000, "", until(now() - 1)), "invalid: ").await;
    let long = note(1001, "", until(now() + 10_000));
    client.store(&long).await;
    // On a busy machine an event may expire before it was asked for: one that lasts longer takes its turn.
    for lasts in [4, 16, 64] {
        let soon = now() + lasts;
        let short = note(1000 - lasts, "", until(soon));
        let (is_stored, why) = client.publish(&short).await;
        let stored = client.stored(&[json!({})]).await;
        if now() >= soon {
            continue;
        }
        assert!(is_stored, "{why}");
        assert_eq!(stored, ids([&long, &short]));
        while now() < soon {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(client.stored(&[json!({})]).await, ids([&long]));
        assert_eq!(client.count(json!({})).await, 1);
        return;
    }
    panic!("no event was asked for before it expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_author_deletes_is_gone_from_answers_and_counts_and_does_not_come_back() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let (deleted, kept, foreign) = (event(1, 1, 1, &[]), event(1, 1, 2, &[]), event(2, 1, 3, &[]));
    for event in [&deleted, &kept, &foreign] {
        client.store(event).await;
    }
    let targets = [deleted.id.to_string(), foreign.id.to_string()];
    let deletion = event(1, 5, 4, &[&["e", &targets[0]], &["e", &targets[1]]]);
    client.store(&deletion).await;
    assert_eq!(client.stored(&[json!({})]).await, ids([&deletion, &foreign, &kept]), "others' events stay");
    assert_eq!(client.count(json!({ "kinds": [1] })).await, 2);
    is_refused(&mut client, &deleted, "blocked: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_who_asks_to_vanish_is_forgotten_up_to_that_moment() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let (early, other, late) = (event(1, 1, 1, &[]), event(2, 1, 1, &[]), event(1, 1, 9, &[]));
    for event in [&early, &other, &late] {
        client.store(event).await;
    }
    is_refused(&mut client, &event(1, VANISH, 5, &[]), "invalid: ").await;
    let request = event(1, VANISH, 5, &[&["relay", "ALL_RELAYS"]]);
    client.store(&request).await;
    assert_eq!(client.stored(&[json!({})]).await, ids([&late, &request, &other]));
    is_refused(&mut client, &early, "blocked: ").await;
}
