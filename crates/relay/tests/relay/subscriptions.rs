//! Filters that are asked for have a bound, for each client and for all: in subscriptions, and in queries that wait.

use birdhouse_relay::{Limits, Settings};
use serde_json::{Value, json};

use crate::app::{App, Client};

/// Returns a filter with this many authors.
fn filter(values: usize, number: usize) -> Value {
    let authors: Vec<String> = (0..values).map(|value| format!("{number:032x}{value:032x}")).collect();
    json!({ "authors": authors })
}

/// Asks for subscriptions of 1000 values each until one is refused; returns their number and the refusal.
async fn fill(client: &mut Client, most: usize) -> (usize, String) {
    for number in 0..most {
        client.say(json!(["REQ", format!("{number}"), filter(1000, number)])).await;
        let answer = client.hear().await;
        if answer[0] == "CLOSED" {
            return (number, answer[2].as_str().unwrap().to_owned());
        }
        assert_eq!(answer[0], "EOSE", "{answer}");
    }
    (most, String::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_filters_are_bounded_for_a_client_and_for_all() {
    let limits = Limits { client_subscription_values: Some(5_000), subscription_values: 8_000, ..Limits::default() };
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let app = App::start(Settings { limits, proxies, ..Settings::default() }).await;
    let mut first = app.client_at("198.51.100.1").await.unwrap();
    let (open, why) = fill(&mut first, 64).await;
    assert!(open == 4 && why.starts_with("rate-limited: "), "{open}: {why}");
    // Another connection of the same client has no more.
    let mut second = app.client_at("198.51.100.1").await.unwrap();
    assert_eq!(fill(&mut second, 64).await.0, 0);
    second.say(json!(["COUNT", "count", filter(1000, 0)])).await;
    assert_eq!(second.hear().await[0], "CLOSED", "a query counts as well");
    // Another client has what is left of the bound of all.
    let mut other = app.client_at("198.51.100.2").await.unwrap();
    assert_eq!(fill(&mut other, 64).await.0, 3);
    // What is closed, replaced or gone makes room.
    first.say(json!(["CLOSE", "0"])).await;
    first.say(json!(["REQ", "1", filter(1000, 9)])).await;
    assert_eq!(first.hear().await[0], "EOSE");
    first.say(json!(["REQ", "new", filter(990, 9)])).await;
    assert_eq!(first.hear().await[0], "EOSE");
    drop(first);
    app.until("the connection ends", || app.relay.overview().connections == 2).await;
    assert_eq!(fill(&mut other, 64).await.0, 4);
}
