//! Peers that answer as none should: they are left with an error, and nothing is held for them.

use std::net::SocketAddr;

use birdhouse_mirror::{Direction, Purpose};
use birdhouse_relay::Settings;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use crate::app::{App, assert_same, event, ids_of};

const BOTH: Purpose = Purpose::Transfer(Direction::Both);

/// A peer that answers each message with others.
async fn peer(answers: impl Fn(&str, usize) -> Vec<String> + Send + 'static) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let (socket, _) = socket.accept().await.unwrap();
        let (mut client, mut count) = (accept_async(socket).await.unwrap(), 0);
        while let Some(Ok(Message::Text(text))) = client.next().await {
            for answer in answers(&text, count) {
                if client.send(Message::text(answer)).await.is_err() {
                    return;
                }
            }
            count += 1;
        }
    });
    addr
}

/// Returns the name in a message.
fn name(message: &str) -> String {
    message.split('"').nth(3).unwrap().to_owned()
}

/// Returns an answer of negentropy that names `count` ids of a peer: one range to the end of time, with a list.
fn named(message: &str, ids: impl Iterator<Item = [u8; 32]>) -> String {
    let (mut count, mut list) = (0_u32, String::new());
    for id in ids {
        count += 1;
        list.extend(id.iter().map(|byte| format!("{byte:02x}")));
    }
    assert!((128..16_384).contains(&count), "a number of two digits of base 128");
    let digits = [0x80 | count >> 7, count & 0x7f].map(|digit| format!("{digit:02x}")).concat();
    format!("[\"NEG-MSG\",\"{}\",\"61000002{digits}{list}\"]", name(message))
}

fn id(number: u32) -> [u8; 32] {
    let mut id = [7; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_names_events_and_sends_none_is_asked_a_bounded_number_of_times() {
    let addr = peer(|message, _| match message {
        message if message.starts_with("[\"NEG-OPEN") => vec![named(message, (0..300).map(id))],
        message if message.starts_with("[\"REQ") => vec![format!("[\"EOSE\",\"{}\"]", name(message))],
        _ => Vec::new(),
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    let outcome = ours.sync(addr, BOTH, r#"{"since":1700000000,"until":1700000001}"#).await;
    assert_eq!((outcome.ended, outcome.tally.withheld), (Ok(()), 300));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_were_not_asked_for_end_the_conversation_and_are_not_stored() {
    let wrong = event(1, 1, 1, &[]).to_json();
    let addr = peer(move |message, _| match message {
        message if message.starts_with("[\"NEG-OPEN") => vec![named(message, (0..300).map(id))],
        message if message.starts_with("[\"REQ") => {
            vec![format!("[\"EVENT\",\"{}\",{wrong}]", name(message)); 1000]
        }
        _ => Vec::new(),
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    let outcome = ours.sync(addr, BOTH, "{}").await;
    assert!(outcome.ended.unwrap_err().contains("not asked for"));
    assert!(ours.ids().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_event_is_refused_and_the_others_are_stored() {
    let (good, bad) = (event(1, 1, 1, &[]), event(1, 1, 2, &[]));
    let forged = bad.to_json().replace("\"content\":\"2\"", "\"content\":\"3\"");
    let (ids, events) = ([good.id.0, bad.id.0], [good.to_json(), forged]);
    let addr = peer(move |message, _| match message {
        message if message.starts_with("[\"NEG-OPEN") => vec![named(message, (0..200).map(id).chain(ids))],
        message if message.starts_with("[\"REQ") => {
            let name = name(message);
            let asked = |id: &[u8; 32]| message.contains(&const_hex::encode(id));
            let sent = ids.iter().zip(&events).filter(|(id, _)| asked(id));
            let sent = sent.map(|(_, event)| format!("[\"EVENT\",\"{name}\",{event}]"));
            sent.chain([format!("[\"EOSE\",\"{name}\"]")]).collect()
        }
        _ => Vec::new(),
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    let outcome = ours.sync(addr, BOTH, r#"{"since":1700000000}"#).await;
    assert_eq!(outcome.ended, Ok(()));
    assert_same(&ours.ids(), &ids_of([&good]));
    assert!(outcome.tally.refused_here.total() >= 1, "{:?}", outcome.tally);
}

/// A peer names and sends whatever it likes.
#[tokio::test(flavor = "multi_thread")]
async fn events_outside_of_the_filter_are_refused() {
    let (wanted, other, old) = (event(1, 1, 9, &[]), event(2, 1, 9, &[]), event(1, 1, 1, &[]));
    let all = [wanted.clone(), other, old].map(|event| (event.id.0, event.to_json()));
    let addr = peer(move |message, _| match message {
        message if message.starts_with("[\"NEG-OPEN") => {
            vec![named(message, (0..200).map(id).chain(all.iter().map(|(id, _)| *id)))]
        }
        message if message.starts_with("[\"REQ") => {
            let name = name(message);
            let sent = all.iter().filter(|(id, _)| message.contains(&const_hex::encode(id)));
            let sent = sent.map(|(_, event)| format!("[\"EVENT\",\"{name}\",{event}]"));
            sent.chain([format!("[\"EOSE\",\"{name}\"]")]).collect()
        }
        _ => Vec::new(),
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    let since = wanted.created_at.0 - 1;
    let filter = format!(r#"{{"authors":["{}"],"since":{since}}}"#, wanted.pubkey);
    let outcome = ours.sync(addr, BOTH, &filter).await;
    assert_eq!(outcome.ended, Ok(()));
    assert_same(&ours.ids(), &ids_of([&wanted]));
    let reasons: Vec<&String> = outcome.tally.refused_here.0.keys().collect();
    assert_eq!(reasons, ["invalid: it does not match the filter"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_other_relays_do_not_take_is_left_out() {
    let tags: Vec<Vec<String>> = (0..3000).map(|number| vec!["x".to_owned(), format!("{number:064}")]).collect();
    let tags: Vec<Vec<&str>> = tags.iter().map(|tag| tag.iter().map(String::as_str).collect()).collect();
    let tags: Vec<&[&str]> = tags.iter().map(Vec::as_slice).collect();
    let (large, small) = (event(1, 1, 2, &tags), event(1, 1, 1, &[]));
    let (ours, theirs) =
        (App::start(Settings::default(), &[&large, &small]).await, App::start(Settings::default(), &[]).await);
    let outcome = ours.sync(theirs.addr, BOTH, "{}").await;
    assert_eq!((outcome.ended, outcome.tally.too_long), (Ok(()), 1));
    assert_same(&theirs.ids(), &ids_of([&small]));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_without_end_and_comparisons_without_end_are_left() {
    let endless = event(1, 1, 1, &[]).to_json();
    let pages = peer(move |message, _| match message {
        message if message.starts_with("[\"NEG-OPEN") => vec![r#"["NOTICE","unknown message"]"#.into()],
        message if message.starts_with("[\"REQ") => {
            vec![format!("[\"EVENT\",\"{}\",{endless}]", name(message)); 20_000]
        }
        _ => Vec::new(),
    })
    .await;
    let ours = App::start(Settings::default(), &[]).await;
    assert!(ours.sync(pages, BOTH, "{}").await.ended.unwrap_err().contains("more events than"));
    // A fingerprint that never matches, for the whole of time.
    let comparing = peer(|message, _| match message {
        message if message.starts_with("[\"NEG-") && !message.starts_with("[\"NEG-CLOSE") => {
            vec![format!("[\"NEG-MSG\",\"{}\",\"61000001{}\"]", name(message), "ab".repeat(16))]
        }
        _ => Vec::new(),
    })
    .await;
    let outcome = ours.sync(comparing, BOTH, "{}").await;
    assert!(outcome.ended.is_err() || outcome.tally.received == 0, "{:?}", outcome.ended);
    let refusing = peer(|message, _| match message {
        message if message.starts_with("[\"NEG-OPEN") => {
            vec![format!("[\"NEG-ERR\",\"{}\",\"blocked: too many\"]", name(message))]
        }
        _ => Vec::new(),
    })
    .await;
    assert!(ours.sync(refusing, BOTH, "{}").await.ended.unwrap_err().contains("refuses the comparison"));
}
