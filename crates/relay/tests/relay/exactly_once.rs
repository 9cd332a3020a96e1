//! Stored or new: every event reaches a subscription exactly once, whatever is published meanwhile.

use std::collections::HashSet;
use std::sync::Arc;

use crate::app::{App, event};
use birdhouse_relay::Settings;
use serde_json::json;

const AUTHORS: u8 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_missed_or_told_twice_by_those_who_subscribe_while_others_publish() {
    let app = Arc::new(App::start(Settings::default()).await);
    everybody_gets_each_event_once(&app, &[&app], 400, 30).await;
}

/// Lets authors publish `events` each, and some subscribe meanwhile, at these servers by turns. `main` stores the
/// events. Each subscriber must get each event once.
pub(crate) async fn everybody_gets_each_event_once(main: &App, servers: &[&App], events: u64, subscribers: usize) {
    let mut authors = Vec::new();
    for author in 1..=AUTHORS {
        let mut client = servers[usize::from(author) % servers.len()].client().await;
        authors.push(tokio::spawn(async move {
            for second in 0..events {
                client.store(&event(author, 1, second % 50, &[&["n", &second.to_string()]])).await;
            }
        }));
    }
    let all = usize::from(AUTHORS) * usize::try_from(events).unwrap();
    let mut subscribed = Vec::new();
    for number in 0..subscribers {
        // Each subscribes at another moment of the first half of the events.
        let published = (number * all / (2 * subscribers)) as u64;
        main.until("enough events are stored", || main.relay.overview().live_events >= published).await;
        let mut client = servers[number % servers.len()].client().await;
        client.say(json!(["REQ", "all", { "kinds": [1] }])).await;
        subscribed.push(tokio::spawn(async move {
            let (mut stored, mut live, mut is_live) = (0, 0, false);
            let mut seen = HashSet::new();
            while seen.len() < all {
                let message = client.hear().await;
                if message[0] == "EOSE" {
                    assert!(!is_live, "one EOSE");
                    is_live = true;
                    continue;
                }
                assert!(seen.insert(message[2]["id"].to_string()), "sent twice: {message}");
                if is_live { live += 1 } else { stored += 1 }
            }
            (stored, live, is_live)
        }));
    }
    for author in authors {
        author.await.unwrap();
    }
    let mut both = 0;
    for subscriber in subscribed {
        let (stored, live, is_live) = subscriber.await.unwrap();
        assert!(is_live);
        both += usize::from(stored > 0 && live > 0);
    }
    assert!(both > 0, "nobody subscribed in the middle");
}
