//! Room on the disk: the floor below which events are refused, and retention rules, over the wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use birdhouse_events::{Retention, RetentionRule};
use birdhouse_relay::{FreeDisk, Limits, Settings, Storing};
use serde_json::json;

use crate::app::{App, event, now};

#[tokio::test(flavor = "multi_thread")]
async fn below_the_floor_events_are_refused_and_subscriptions_get_ephemeral_ones() {
    let free = Arc::new(AtomicU64::new(1000));
    let disk = FreeDisk::new({
        let free = Arc::clone(&free);
        move || Some(free.load(Ordering::Relaxed))
    });
    let limits = Limits { disk_free_bytes: Some(800), ..Limits::default() };
    let app = App::start(Settings { disk, limits, ..Settings::default() }).await;
    let (mut client, mut listener) = (app.client().await, app.client().await);
    let first = event(1, 1, 1, &[]);
    client.store(&first).await;
    free.store(700, Ordering::Relaxed);
    let refused = client.publish(&event(1, 1, 2, &[])).await;
    assert_eq!(refused, (false, "error: the relay's disk is nearly full; try later".to_owned()));
    assert_eq!(app.relay.health().storing, Storing::Short { free_bytes: 700, floor_bytes: 800 });
    assert_eq!(client.stored(&[json!({})]).await.len(), 1, "queries are answered");
    // What is stored nowhere needs no room.
    listener.say(json!(["REQ", "a", { "kinds": [20_001] }])).await;
    assert_eq!(listener.hear().await[0], "EOSE");
    assert!(client.publish(&event(1, 20_001, 3, &[])).await.0);
    assert_eq!(listener.hear().await[0], "EVENT");
    let deletion = event(1, 5, 4, &[&["e", &first.id.to_string()]]);
    assert!(client.publish(&deletion).await.0, "a deletion request makes room");
    assert_eq!(client.stored(&[json!({ "kinds": [1] })]).await.len(), 0);
    free.store(900, Ordering::Relaxed);
    client.store(&event(1, 1, 5, &[])).await;
    assert_eq!(app.relay.health().storing, Storing::Works);
    // A floor that is raised while it runs.
    let limits = Limits { disk_free_bytes: Some(2000), ..Limits::default() };
    app.relay.reload(Settings { limits, ..Settings::default() });
    assert_eq!(app.relay.health().storing, Storing::Short { free_bytes: 900, floor_bytes: 2000 });
    assert!(!client.publish(&event(1, 1, 6, &[])).await.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_rules_do_not_keep_are_refused_and_stored_ones_deleted() {
    let rule = RetentionRule { kinds: Some(vec![1..=1]), seconds: Some(1000), ..RetentionRule::default() };
    let retention = Retention(vec![rule]);
    let app = App::start(Settings { retention: retention.clone(), ..Settings::default() }).await;
    let mut client = app.client().await;
    // Tests' events are of 2023.
    let (is_accepted, why) = client.publish(&event(1, 1, 1, &[])).await;
    assert!(!is_accepted && why.starts_with("blocked: "), "{why}");
    client.store(&event(1, 7, 1, &[])).await;
    let age = u64::from(u32::try_from(now()).unwrap()) - 1_700_000_000;
    client.store(&event(1, 1, age, &[])).await;
    assert_eq!(app.events.live_events(), 2);

    // One that gets another rule while it runs follows that one.
    let rule = RetentionRule { kinds: Some(vec![7..=7]), seconds: Some(1000), ..RetentionRule::default() };
    app.relay.reload(Settings { retention: Retention(vec![rule]), ..Settings::default() });
    app.until("the reaction is deleted", || app.events.live_events() == 1).await;
    let (is_accepted, why) = client.publish(&event(1, 7, 2, &[])).await;
    assert!(!is_accepted && why.starts_with("blocked: "), "{why}");
    client.store(&event(1, 1, 2, &[])).await;

    // A relay that gets the rule at its start deletes what it has.
    let app =
        App::start_filled(Settings { retention, ..Settings::default() }, &[event(1, 1, 1, &[]), event(1, 7, 1, &[])])
            .await;
    app.until("the note is deleted", || app.events.live_events() == 1).await;
    assert_eq!(app.client().await.stored(&[json!({})]).await.len(), 1);
}
