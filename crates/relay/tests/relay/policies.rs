//! Lists, rates, and what clients may use, over the wire. Clients have addresses because a reverse proxy on loopback,
//! which is the test, says so.

use std::time::Duration;

use birdhouse_clients::Rate;
use birdhouse_events::hex;
use birdhouse_relay::{KindsRate, Limits, Lists, Policy, RatedBy, Settings};
use serde_json::json;

use crate::app::{App, Client, event, keys, wire};
use crate::sync::initiator;

fn behind_proxy(limits: Limits, policy: Policy) -> Settings {
    Settings { limits, policy, proxies: vec!["127.0.0.0/8".parse().unwrap()], ..Settings::default() }
}

/// Returns the prefix of the answer to an author's event of this number; empty when it is accepted.
async fn publish(client: &mut Client, author: u8, kind: u16, second: u64) -> String {
    let (is_accepted, why) = client.publish(&event(author, kind, second, &[])).await;
    if is_accepted { String::new() } else { why.split_once(": ").unwrap().0.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_decide_who_publishes_what_and_who_connects() {
    let policy = Policy {
        authors: Lists { allow: None, deny: [keys(2).pubkey()].into() },
        kinds: Lists { allow: None, deny: vec![7..=7] },
        addresses: Lists { allow: None, deny: vec!["203.0.113.0/24".parse().unwrap()] },
        ..Policy::default()
    };
    let app = App::start(behind_proxy(Limits::default(), policy)).await;
    assert_eq!(app.client_at("203.0.113.9").await.err(), Some(403));
    let mut client = app.client_at("198.51.100.1").await.unwrap();
    assert_eq!(publish(&mut client, 1, 1, 1).await, "");
    assert_eq!(publish(&mut client, 2, 1, 1).await, "blocked");
    assert_eq!(publish(&mut client, 1, 7, 1).await, "blocked");
    assert_eq!(app.events.live_events(), 1);
    assert_eq!(app.information().await["limitation"]["restricted_writes"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_only_some_may_publish_nip_11_says_so() {
    let authors = Lists { allow: Some([keys(1).pubkey()].into()), ..Lists::default() };
    let app = App::start(behind_proxy(Limits::default(), Policy { authors, ..Policy::default() })).await;
    let mut client = app.client().await;
    assert_eq!(publish(&mut client, 1, 1, 1).await, "");
    assert_eq!(publish(&mut client, 2, 1, 1).await, "restricted");
    assert_eq!(app.information().await["limitation"]["restricted_writes"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_one_address_network_author_and_kind_have_rates() {
    let reactions = KindsRate { kinds: Some(vec![7..=7]), of: RatedBy::Client, rate: Rate::per_minute(1) };
    let limits = Limits {
        client_events: Some(Rate::per_minute(4)),
        author_events: Some(Rate::per_minute(6)),
        ..Limits::default()
    };
    let app = App::start(behind_proxy(limits, Policy { rates: vec![reactions], ..Policy::default() })).await;
    let mut client = app.client_at("198.51.100.1").await.unwrap();
    assert_eq!(publish(&mut client, 1, 7, 1).await, "");
    assert_eq!(publish(&mut client, 1, 7, 2).await, "rate-limited", "one reaction a minute, and it counts as an event");
    assert_eq!([publish(&mut client, 1, 1, 3).await, publish(&mut client, 1, 1, 4).await], ["", ""]);
    assert_eq!(publish(&mut client, 1, 1, 5).await, "rate-limited", "four events a minute");
    let mut sibling = app.client_at("198.51.100.1").await.unwrap();
    assert_eq!(publish(&mut sibling, 2, 1, 6).await, "rate-limited", "over all connections of the address");
    // Addresses of one IPv6 network are one client.
    for last in 1..=3 {
        let mut client = app.client_at(&format!("2001:db8::{last}")).await.unwrap();
        assert_eq!(publish(&mut client, 1, 1, 6 + last).await, "");
    }
    let mut client = app.client_at("2001:db8:1::1").await.unwrap();
    assert_eq!(publish(&mut client, 1, 1, 20).await, "rate-limited", "the author's seventh, from anywhere");
    assert_eq!(publish(&mut client, 2, 1, 21).await, "");
    // Who cannot be told from others shares the rate of many; authors are counted.
    let mut own = app.client().await;
    for second in 30..35 {
        assert_eq!(publish(&mut own, 3, 1, second).await, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_stored_already_are_counted_by_no_rate() {
    let limits = Limits {
        client_events: Some(Rate::per_minute(2)),
        author_events: Some(Rate::per_minute(2)),
        ..Limits::default()
    };
    let app = App::start(behind_proxy(limits, Policy::default())).await;
    let mut client = app.client_at("198.51.100.1").await.unwrap();
    let note = event(1, 1, 1, &[]);
    client.store(&note).await;
    for _ in 0..5 {
        assert_eq!(client.publish(&note).await, (true, "duplicate: already have this event".to_owned()));
    }
    client.store(&event(1, 1, 2, &[])).await;
    assert_eq!(publish(&mut client, 1, 1, 3).await, "rate-limited", "the third that is new");
    assert_eq!(client.publish(&note).await, (true, "duplicate: already have this event".to_owned()));
    // Who forges an event by the id of a stored one gets no further.
    let mut forged = wire(&note);
    forged["content"] = json!("forged");
    client.say(json!(["EVENT", forged])).await;
    let answer = client.hear().await;
    assert!(answer[2] == false && answer[3].as_str().unwrap().starts_with("invalid: "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_begun_is_not_cut_off_when_the_share_is_used_up() {
    let limits = Limits { client_work: Some(Duration::from_millis(20)), client_work_percent: 10, ..Limits::default() };
    let notes: Vec<_> = (0..3000).map(|second| event(1, 1, second, &[])).collect();
    let app = App::start_filled(behind_proxy(limits, Policy::default()), &notes).await;
    let mut client = app.client_at("198.51.100.1").await.unwrap();
    // Later filters read what the first one has sent, which is more work than the client has.
    let message: Vec<_> =
        [json!("REQ"), json!("a")].into_iter().chain((0..32).map(|_| json!({ "kinds": [1] }))).collect();
    client.say(json!(message)).await;
    let mut heard = 0;
    let end = loop {
        let message = client.hear().await;
        if message[0] != "EVENT" {
            break message;
        }
        heard += 1;
    };
    let overview = app.relay.overview();
    println!("{} pauses, {:?} of queries", overview.pauses, overview.query);
    assert_eq!((heard, end), (3000, json!(["EOSE", "a"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_there_before_they_count() {
    let app = App::start(Settings::default()).await;
    let overview = app.relay.overview();
    let names = |counts: &[(&'static str, u64)]| counts.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    // The prefixes of NIP-01, 42 and 77 that the relay uses.
    for name in ["invalid", "rate-limited", "blocked", "restricted", "auth-required", "unsupported", "error", "pow"] {
        assert!(names(&overview.events).contains(&name) && names(&overview.closed).contains(&name), "{name}");
    }
    assert!(["accepted", "duplicate", "shadowed"].iter().all(|name| names(&overview.events).contains(name)));
    assert!(names(&overview.refused_connections).contains(&"overdrawn"));
    assert!(overview.events.iter().chain(&overview.closed).all(|(_, count)| *count == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_so_many_connections_and_a_place_is_free_when_one_ends() {
    let limits = Limits { client_connections: Some(2), ..Limits::default() };
    let app = App::start(behind_proxy(limits, Policy::default())).await;
    let (one, _two) = (app.client_at("198.51.100.1").await.unwrap(), app.client_at("198.51.100.1").await.unwrap());
    assert_eq!(app.client_at("198.51.100.1").await.err(), Some(429));
    let _other = app.client_at("198.51.100.2").await.unwrap();
    drop(one);
    for _ in 0..200 {
        if app.client_at("198.51.100.1").await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the place is not free");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_header_makes_a_client_exempt() {
    let limits = Limits { client_connections: Some(2), ..Limits::default() };
    let app = App::start(behind_proxy(limits, Policy::default())).await;
    for address in ["203.0.113.10", "é, 203.0.113.11", "10.0.0.1"] {
        let mut open = Vec::new();
        for _ in 0..2 {
            open.push(app.client_at(address).await.unwrap());
        }
        assert_eq!(app.client_at(address).await.err(), Some(429), "{address}");
    }
    // Whatever names nobody: the pool counts for twenty clients.
    let mut open = Vec::new();
    for address in ["é", "unknown", "127.0.0.1", ""].into_iter().cycle().take(40) {
        open.push(app.client_at(address).await.unwrap());
    }
    assert_eq!(app.client_at("é").await.err(), Some(429));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_has_used_its_share_is_told_when_to_ask_again() {
    let limits = Limits {
        client_work: Some(Duration::from_millis(30)),
        client_work_percent: 0,
        overdrawn_pause: Duration::from_millis(50),
        ..Limits::default()
    };
    let app = App::start(behind_proxy(limits, Policy::default())).await;
    let mut own = app.client().await;
    for second in 0..20 {
        own.store(&event(1, 1, second, &[])).await;
    }
    let mut client = app.client_at("198.51.100.1").await.unwrap();
    let (_, first) = initiator(std::iter::empty());
    client.say(json!(["NEG-OPEN", "s", {}, hex::string(&first)])).await;
    assert_eq!(client.hear().await[0], "NEG-MSG");
    let mut say = async |verb: &str| {
        client.say(json!([verb, "a", {}])).await;
        client.hear().await
    };
    while say("COUNT").await[0] == "COUNT" {}
    for verb in ["REQ", "COUNT"] {
        let answer = say(verb).await;
        let refusal = answer[2].as_str().unwrap();
        assert!(answer[0] == "CLOSED" && refusal.starts_with("rate-limited: "), "{answer}");
        assert!(refusal.contains("try again in"), "{answer}");
    }
    assert_eq!(publish(&mut client, 2, 1, 1).await, "rate-limited");
    client.say(json!(["NEG-MSG", "s", hex::string(&first)])).await;
    let answer = client.hear().await;
    assert!(answer[0] == "NEG-ERR" && answer[2].as_str().unwrap().starts_with("rate-limited: "), "{answer}");
    let mut other = app.client_at("198.51.100.2").await.unwrap();
    other.say(json!(["REQ", "a", { "limit": 1 }])).await;
    assert_eq!(other.hear().await[0], "EVENT");
    assert_eq!(own.stored(&[json!({})]).await.len(), 20);
    let overview = app.relay.overview();
    assert!(overview.closed.iter().any(|(prefix, count)| *prefix == "rate-limited" && *count >= 2), "{overview:?}");
}
