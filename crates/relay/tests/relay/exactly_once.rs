//! Stored or new: every event reaches a subscription exactly once, whatever is published meanwhile.

use std::collections::HashSet;
use std::sync::Arc;

use crate::app::{App, event};
use birdhouse_relay::Settings;
use serde_json::json;

const AUTHORS: u8 = 3;
const EVENTS: u64 = 400;
const SUBSCRIBERS: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_missed_or_told_twice_by_those_who_subscribe_while_others_publish() {
    let app = Arc::new(App::start(Settings::default()).await);
    let mut authors = Vec::new();
    for author in 1..=AUTHORS {
        let mut client = app.client().await;
        authors.push(tokio::spawn(async move {
            for second in 0..EVENTS {
                client.store(&event(author, 1, second % 50, &[&["n", &second.to_string()]])).await;
            }
        }));
    }
    let mut subscribers = Vec::new();
    for number in 0..SUBSCRIBERS {
        // Each subscribes at another moment of the first half of the events.
        let published = number * usize::from(AUTHORS) * usize::try_from(EVENTS).unwrap() / (2 * SUBSCRIBERS);
        app.until("enough events are stored", || app.relay.overview().live_events >= published as u64).await;
        let mut client = app.client().await;
        client.say(json!(["REQ", "all", { "kinds": [1] }])).await;
        subscribers.push(tokio::spawn(async move {
            let (mut stored, mut live, mut is_live) = (0, 0, false);
            let mut seen = HashSet::new();
            while seen.len() < usize::from(AUTHORS) * usize::try_from(EVENTS).unwrap() {
                let message = client.hear().await;
                if message[0] == "EOSE" {
                    assert!(!is_live, "one EOSE");
                    is_live = true;
                    continue;
                }
                assert!(seen.insert(message[2]["id"].to_string()), "sent twice: {message}");
                if is_live { live += 1 } else { stored += 1 }
            }
            assert!(is_live);
            (stored, live)
        }));
    }
    for author in authors {
        author.await.unwrap();
    }
    let mut both = 0;
    for subscriber in subscribers {
        let (stored, live) = subscriber.await.unwrap();
        both += usize::from(stored > 0 && live > 0);
    }
    assert!(both > 0, "nobody subscribed in the middle");
}
