//! Versions of one address that come at once, and readers meanwhile (NIP-01).

use std::collections::HashMap;
use std::sync::Arc;

use birdhouse_events::VerifiedEvent;
use birdhouse_relay::Settings;
use serde_json::{Value, json};

use crate::app::{App, event, ids, wire};

const WRITERS: usize = 6;
const ADDRESSES: usize = 20;
const VERSIONS: u64 = 12;

/// Versions of an address, many of one second.
fn versions(address: usize) -> Vec<VerifiedEvent> {
    let d = address.to_string();
    (0..VERSIONS).map(|n| event(1, 30_000, 10 + n / 4, &[&["d", &d], &["n", &n.to_string()]])).collect()
}

/// Returns those that stay (NIP-01): the newest, and of equal times the lowest id.
fn winner(versions: &[VerifiedEvent]) -> &VerifiedEvent {
    versions.iter().min_by_key(|event| (std::cmp::Reverse(event.created_at), event.id)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_versions_that_come_by_many_connections_at_once_the_same_one_stays() {
    let app = Arc::new(App::start(Settings::default()).await);
    let all: Vec<Vec<VerifiedEvent>> = (0..ADDRESSES).map(versions).collect();
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (mut client, all) = (app.client().await, all.clone());
        writers.push(tokio::spawn(async move {
            // Each in another order, without waiting for answers: many are made durable together.
            for step in 0..usize::try_from(VERSIONS).unwrap() {
                for versions in &all {
                    let version = &versions[(step * 5 + writer * 7) % versions.len()];
                    client.say(json!(["EVENT", wire(version)])).await;
                }
                for _ in &all {
                    assert_eq!(client.hear().await[0], "OK");
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut client = app.client().await;
    let mut found = client.stored(&[json!({})]).await;
    found.sort();
    let mut expected = ids(all.iter().map(|versions| winner(versions)));
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(client.count(json!({ "kinds": [30_000] })).await, ADDRESSES as u64);
    // Not even by its id is another one found.
    let others: Vec<String> = ids(all.iter().flatten()).into_iter().filter(|id| !expected.contains(id)).collect();
    assert_eq!(client.stored(&[json!({ "ids": others })]).await, ids([]));
}

/// A reader sees each address as of one moment and then what follows: never nothing, and in the end the newest.
#[tokio::test(flavor = "multi_thread")]
async fn who_reads_while_versions_replace_each_other_misses_no_address_and_ends_with_the_newest() {
    const LISTS: usize = 1500; // several pages
    const ROUNDS: u64 = 3;
    let app = Arc::new(App::start(Settings::default()).await);
    let version =
        |list: usize, round: u64| event(1, 30_000, round * 10_000 + list as u64, &[&["d", &list.to_string()]]);
    let first: Vec<_> = (0..LISTS).map(|list| version(list, 0)).collect();
    app.events.accept(&first.iter().collect::<Vec<_>>()).unwrap();
    let mut writer = app.client().await;
    let writing = tokio::spawn(async move {
        for round in 1..=ROUNDS {
            for some in (0..LISTS).collect::<Vec<_>>().chunks(25) {
                for list in some {
                    writer.say(json!(["EVENT", wire(&version(*list, round))])).await;
                }
                for _ in some {
                    assert_eq!(writer.hear().await[2], true);
                }
            }
        }
    });
    let mut readers = Vec::new();
    for _ in 0..12 {
        let mut client = app.client().await;
        readers.push(tokio::spawn(async move {
            client.say(json!(["REQ", "all", { "kinds": [30_000] }])).await;
            let (mut newest, mut ids) = (HashMap::<String, u64>::new(), std::collections::HashSet::new());
            let is_last = |newest: &HashMap<String, u64>| {
                newest.len() == LISTS && newest.values().all(|second| *second >= 1_700_000_000 + ROUNDS * 10_000)
            };
            let mut is_live = false;
            while !(is_live && is_last(&newest)) {
                let message = client.hear().await;
                if message[0] == "EOSE" {
                    assert!(!std::mem::replace(&mut is_live, true), "one EOSE");
                    continue;
                }
                let event: &Value = &message[2];
                assert!(ids.insert(event["id"].to_string()), "told twice: {event}");
                let (d, second) = (event["tags"][0][1].to_string(), event["created_at"].as_u64().unwrap());
                let seen = newest.insert(d, second);
                assert!(seen < Some(second), "an older version after a newer one: {event}");
            }
        }));
        // The pause spreads the readers over the writer's rounds; it waits for no condition.
        tokio::time::sleep(std::time::Duration::from_millis(40)).await;
    }
    for reader in readers {
        reader.await.unwrap();
    }
    writing.await.unwrap();
}
