//! Conversations over a real socket, message for message (NIP-01, 11, 45).

use std::cmp::Reverse;
use std::time::Duration;

use crate::app::{App, event, ids, wire};
use birdhouse_events::VerifiedEvent;
use birdhouse_relay::{Limits, Settings};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test(flavor = "multi_thread")]
async fn stored_events_come_newest_first_and_of_equal_times_lowest_id_first_at_the_limit_too() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let mut all: Vec<VerifiedEvent> = (0..60_u64).map(|n| event(1, 1, n / 7, &[&["t", &n.to_string()]])).collect();
    for event in &all {
        client.store(event).await;
    }
    all.sort_by_key(|event| (Reverse(event.created_at), event.id));
    assert_eq!(client.stored(&[json!({})]).await, ids(&all));
    assert_eq!(client.stored(&[json!({ "limit": 10 })]).await, ids(&all[..10]));
    let since = 1_700_000_003_u64;
    let expected: Vec<_> = all.iter().filter(|event| (since..=since + 1).contains(&event.created_at.0)).collect();
    let between = client.stored(&[json!({ "since": since, "until": since + 1 })]).await;
    assert_eq!(between, ids(expected), "both ends are part of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_several_filters_match_comes_once() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let events = [event(1, 1, 1, &[]), event(1, 7, 2, &[]), event(2, 1, 3, &[])];
    for event in &events {
        client.store(event).await;
    }
    let mut found = client.stored(&[json!({ "kinds": [1] }), json!({ "limit": 2 }), json!({})]).await;
    found.sort();
    let mut expected = ids(&events);
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_zero_gets_eose_alone_and_then_what_is_new() {
    let app = App::start(Settings::default()).await;
    let (mut client, mut author) = (app.client().await, app.client().await);
    author.store(&event(1, 1, 1, &[])).await;
    client.say(json!(["REQ", "a", { "limit": 0 }])).await;
    client.hear_end("a").await;
    let new = event(1, 1, 2, &[]);
    author.store(&new).await;
    assert_eq!(client.hear().await, json!(["EVENT", "a", wire(&new)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_replaced_by_its_name_and_ended_without_an_answer() {
    let app = App::start(Settings::default()).await;
    let (mut client, mut author) = (app.client().await, app.client().await);
    for filter in [json!({ "kinds": [1] }), json!({ "kinds": [7] })] {
        client.say(json!(["REQ", "a", filter])).await;
        client.hear_end("a").await;
    }
    let (other, asked) = (event(1, 1, 1, &[]), event(1, 7, 2, &[]));
    author.store(&other).await;
    author.store(&asked).await;
    assert_eq!(client.hear().await, json!(["EVENT", "a", wire(&asked)]));
    client.say(json!(["CLOSE", "a"])).await;
    client.say(json!(["COUNT", "n", {}])).await;
    assert_eq!(client.hear().await, json!(["COUNT", "n", { "count": 2 }]));
    author.store(&event(1, 7, 3, &[])).await;
    client.say(json!(["COUNT", "n", { "kinds": [7] }])).await;
    assert_eq!(client.hear().await, json!(["COUNT", "n", { "count": 2 }]), "no news of a closed subscription");
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_events_are_told_and_not_kept() {
    let app = App::start(Settings::default()).await;
    let (mut client, mut author) = (app.client().await, app.client().await);
    let (unheard, heard) = (event(1, 20_001, 1, &[]), event(1, 20_001, 2, &[]));
    assert_eq!(author.publish(&unheard).await, (true, "mute: nobody listened".to_owned()));
    client.say(json!(["REQ", "a", { "kinds": [20_001] }])).await;
    client.hear_end("a").await;
    author.store(&heard).await;
    assert_eq!(client.hear().await, json!(["EVENT", "a", wire(&heard)]));
    assert_eq!(app.events.live_events(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_replaceable_events_the_newest_stays_and_of_equal_times_the_lowest_id() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let (one, other) = (event(1, 0, 5, &[&["a", "x"]]), event(1, 0, 5, &[&["a", "y"]]));
    let (wins, loses) = if one.id < other.id { (one, other) } else { (other, one) };
    client.store(&loses).await;
    client.store(&wins).await;
    for older in [&loses, &event(1, 0, 4, &[])] {
        let (is_accepted, why) = client.publish(older).await;
        assert!(!is_accepted && why.starts_with("blocked: "), "{why}");
    }
    assert_eq!(client.publish(&wins).await, (true, "duplicate: already have this event".to_owned()));
    assert_eq!(client.stored(&[json!({})]).await, ids([&wins]));
    // Addressable ones by their first `d` tag; none is an empty one.
    let addressable = [
        event(1, 30_000, 1, &[]),
        event(1, 30_000, 2, &[&["d", ""]]),
        event(1, 30_000, 3, &[&["d", "x"], &["d", "y"]]),
        event(1, 30_000, 4, &[&["d", "y"]]),
    ];
    for event in &addressable {
        client.store(event).await;
    }
    let [_, empty, first, second] = &addressable;
    assert_eq!(client.stored(&[json!({ "kinds": [30_000] })]).await, ids([second, first, empty]));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_gets_an_ok_that_says_what_is_wrong_with_it() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let good = wire(&event(1, 1, 1, &[]));
    let id = good["id"].clone();
    let mut forged = good.clone();
    forged["content"] = json!("something else");
    let mut unsigned = good.clone();
    unsigned["sig"] = json!("00".repeat(64));
    let mut early = good.clone();
    early["created_at"] = json!(4_000_000_000_u64);
    for bad in [forged, unsigned, early] {
        client.say(json!(["EVENT", bad])).await;
        let answer = client.hear().await;
        assert_eq!((&answer[0], &answer[1], &answer[2]), (&json!("OK"), &id, &json!(false)));
        assert!(answer[3].as_str().unwrap().starts_with("invalid: "), "{answer}");
    }
    client.say(json!(["EVENT", { "id": "none" }])).await;
    assert_eq!(client.hear().await[0], "NOTICE");
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_told_and_kept() {
    let limits = Limits { subscriptions: 2, message_bytes: 2000, ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let mut client = app.client().await;
    for id in ["a", "b"] {
        client.say(json!(["REQ", id, {}])).await;
        client.hear_end(id).await;
    }
    client.say(json!(["REQ", "c", {}])).await;
    let answer = client.hear().await;
    assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("c")));
    assert!(answer[2].as_str().unwrap().starts_with("rate-limited: "));
    client.socket.send(Message::text("x".repeat(2001))).await.unwrap();
    let last = loop {
        match client.socket.next().await {
            Some(Ok(Message::Close(Some(frame)))) => break frame,
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(u16::from(last.code), 1009);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relay_says_of_itself_what_is_true() {
    let app = App::start(Settings::default()).await;
    let document = app.information().await;
    assert_eq!(document["limitation"]["max_message_length"], Limits::default().message_bytes);
    assert!(app.get("text/html").await.contains("Nostr relay"));
    assert_eq!(document["limitation"].get("created_at_lower_limit"), None, "no field without a value");
    assert!(document.get("icon").is_none());
    assert!(document.get("software").is_none_or(|url| url.as_str().unwrap().starts_with("https://")));
    let nips = document["supported_nips"].as_array().unwrap();
    assert!(nips.contains(&json!(17)) && nips.contains(&json!(59)));
    let head = app.ask("HEAD /", "application/nostr+json").await;
    let (head, body) = head.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/nostr+json") && body.is_empty(), "{head}");
}

/// Chromium accepts these types; RFC 9110, 12.5.5 asks for `Vary`.
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_gets_a_page_that_needs_nothing_else() {
    let app = App::start(Settings::default()).await;
    let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
    let answer = app.get(accept).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    for header in
        ["content-type: text/html", "vary: accept", "content-security-policy: default-src 'none'; style-src 'sha256-"]
    {
        assert!(head.to_lowercase().contains(header), "{header}: {head}");
    }
    assert!(body.starts_with("<!DOCTYPE html>") && !body.contains("<script") && !body.contains("src="), "{body}");
    for other in ["*/*", "text/plain", ""] {
        let answer = app.get(other).await;
        assert!(answer.contains("content-type: text/plain") && !answer.contains("<!DOCTYPE"), "{other}: {answer}");
    }
    // A client that takes both is a client.
    assert!(app.get("text/html, application/nostr+json").await.contains("\"supported_nips\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relay_has_one_endpoint_and_those_of_its_urls() {
    let urls = vec![birdhouse_events::RelayUrl::parse("wss://birds.example/nostr/").unwrap()];
    let options = birdhouse_events::EventsOptions { urls, ..birdhouse_events::EventsOptions::default() };
    let app = App::start_with(Settings::default(), options).await;
    for (path, status) in [("/", 101), ("/nostr", 101), ("/nostr/", 101), ("/?token=1", 101), ("/other", 404)] {
        let url = format!("{}{path}", app.url());
        let socket = tokio::net::TcpStream::connect(app.addr).await.unwrap();
        let answer = match tokio_tungstenite::client_async(url, socket).await {
            Ok((_, answer)) => answer.status(),
            Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => answer.status(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(answer, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_client_is_kept_while_it_answers_pings_and_ended_when_it_does_not() {
    let (idle_timeout, ping_timeout) = (Duration::from_millis(200), Duration::from_millis(800));
    let with = |ping_timeout| {
        let limits = Limits { idle_timeout, ping_timeout, ..Limits::default() };
        App::start(Settings { limits, ..Settings::default() })
    };
    // The library answers pings as it reads; who does not read does not answer. Another ping comes after an answer.
    let (patient, app) = (with(Duration::from_mins(1)).await, with(ping_timeout).await);
    let (mut there, mut gone) = (patient.client().await, app.client().await);
    let mut pings = 0;
    while pings < 8 {
        let message = there.socket.next().await.expect("a connection").unwrap();
        pings += u32::from(matches!(message, Message::Ping(_)));
    }
    let mut heard = Vec::new();
    let end = gone.socket.get_mut().read_to_end(&mut heard);
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("the connection ends").unwrap();
    assert_eq!(heard, [0x89, 0], "one ping, and then the end");
    there.say(json!(["REQ", "a", {}])).await;
    there.hear_end("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_end_when_the_relay_does() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    app.end();
    let last = client.socket.next().await.unwrap().unwrap();
    assert!(matches!(last, Message::Close(Some(frame)) if u16::from(frame.code) == 1001));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_becomes_no_web_socket_ends_with_its_answer() {
    let app = App::start(Settings::default()).await;
    let mut socket = tokio::net::TcpStream::connect(app.addr).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let end = socket.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(5), end).await.expect("the connection ends").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_nothing_leave_room_for_one() {
    let limits = Limits {
        events_in_flight: 0,
        live_queue_events: 0,
        live_queue_bytes: 0,
        live_queue_bytes_all: 0,
        ..Limits::default()
    };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let mut client = app.client().await;
    client.say(json!(["REQ", "a", {}])).await;
    client.hear_end("a").await;
    let new = event(1, 1, 1, &[]);
    client.say(json!(["EVENT", wire(&new)])).await;
    let mut heard = [client.hear().await, client.hear().await];
    heard.sort_by_key(|message| message[0] == "OK");
    assert_eq!(heard, [json!(["EVENT", "a", wire(&new)]), json!(["OK", new.id.to_string(), true, ""])]);
}
