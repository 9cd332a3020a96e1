//! Layers under the messages: characters, frames, and codes of the end (RFC 6455; NIP-01 for what is hashed).

use std::time::Duration;

use birdhouse_events::{Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_relay::Settings;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::app::{App, Client, event, ids, keys, wire};

const PATIENCE: Duration = Duration::from_secs(20);

fn note(content: &str, tags: Vec<Tag>) -> VerifiedEvent {
    let created_at = Timestamp(1_700_000_000);
    UnsignedEvent { created_at, kind: Kind(1), tags, content: content.to_owned() }.sign(&keys(1))
}

async fn code_of_the_end(client: &mut Client) -> u16 {
    loop {
        match timeout(PATIENCE, client.socket.next()).await.expect("an end") {
            Some(Ok(Message::Close(Some(frame)))) => break frame.code.into(),
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_character_comes_back_as_it_was_signed_stored_and_live() {
    let app = App::start(Settings::default()).await;
    let (mut author, mut reader) = (app.client().await, app.client().await);
    let control: String = (0..0x20_u8).map(char::from).chain(['\u{7f}', '\u{80}', '\u{9f}']).collect();
    let separators = "\u{2028}\u{2029}/\\\"'<>&";
    let no_characters = "\u{fffe}\u{ffff}\u{fdd0}\u{1fffe}\u{10ffff}";
    let texts = [control.as_str(), separators, no_characters, "\u{1f426}\u{200d}\u{2b1b}", "e\u{301}\u{e9}"];
    reader.say(json!(["REQ", "all", {}])).await;
    reader.hear_end("all").await;
    let mut all = Vec::new();
    for text in texts {
        let event = note(text, vec![Tag(vec!["t".to_owned(), text.to_owned()])]);
        author.store(&event).await;
        assert_eq!(reader.hear().await, json!(["EVENT", "all", wire(&event)]));
        assert_eq!(author.stored(&[json!({ "#t": [text] })]).await, ids([&event]));
        all.push(event);
    }
    all.sort_by_key(|event| event.id);
    assert_eq!(author.stored(&[json!({})]).await, ids(&all));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_surrogate_alone_is_refused_and_a_pair_is_one_character() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let event = note("\u{1f426}", vec![]);
    let escaped = event.to_json().replace('\u{1f426}', "\\ud83d\\udc26");
    client.socket.send(Message::text(format!("[\"EVENT\",{escaped}]"))).await.unwrap();
    assert_eq!(client.hear().await, json!(["OK", event.id.to_string(), true, ""]));
    for half in ["\\ud83d", "\\udc26", "\\udc26\\ud83d"] {
        let broken = event.to_json().replace('\u{1f426}', half);
        client.socket.send(Message::text(format!("[\"EVENT\",{broken}]"))).await.unwrap();
        let answer = client.hear().await;
        assert_eq!((&answer[1], &answer[2]), (&json!(event.id.to_string()), &json!(false)), "{half}");
        assert!(answer[3].as_str().unwrap().starts_with("invalid: "), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_no_utf_8_ends_the_connection_with_code_1007() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let frame = Frame::message(b"[\"CLOSE\",\"\xff\"]".to_vec(), OpCode::Data(Data::Text), true);
    client.socket.send(Message::Frame(frame)).await.unwrap();
    assert_eq!(code_of_the_end(&mut client).await, 1007);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_of_no_known_kind_ends_the_connection_with_code_1002() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let frame = Frame::message(b"x".to_vec(), OpCode::Data(Data::Continue), true);
    client.socket.send(Message::Frame(frame)).await.unwrap();
    assert_eq!(code_of_the_end(&mut client).await, 1002, "a continuation of nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_fragments_with_a_ping_between_them_is_one_message() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    let event = note("\u{1f426}", vec![]);
    let message = format!("[\"EVENT\",{}]", event.to_json()).into_bytes();
    let parts: Vec<&[u8]> = message.chunks(7).collect(); // cuts a character in two
    for (index, part) in parts.iter().enumerate() {
        let data = if index == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(part.to_vec(), OpCode::Data(data), index + 1 == parts.len());
        client.socket.send(Message::Frame(frame)).await.unwrap();
        if index == 1 {
            client.socket.send(Message::Ping("there?".into())).await.unwrap();
        }
    }
    let first = timeout(PATIENCE, client.socket.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(first, Message::Pong("there?".into()));
    assert_eq!(client.hear().await, json!(["OK", event.id.to_string(), true, ""]));
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_every_length_of_length_pass_both_ways() {
    let app = App::start(Settings::default()).await;
    let (mut author, mut reader) = (app.client().await, app.client().await);
    reader.say(json!(["REQ", "all", {}])).await;
    reader.hear_end("all").await;
    // RFC 6455 has 7, 16 and 64 bits of length; the fixed part of an event is already beyond the first.
    author.say(json!(["COUNT", "n", {}])).await;
    assert_eq!(author.hear().await, json!(["COUNT", "n", { "count": 0 }]));
    for bytes in [1000, 65_000, 65_535, 65_536, 120_000] {
        let event = note(&"x".repeat(bytes), vec![]);
        author.store(&event).await;
        assert_eq!(reader.hear().await, json!(["EVENT", "all", wire(&event)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_farewell_is_answered_with_its_status_and_ends_the_connection() {
    let app = App::start(Settings::default()).await;
    for (said, answered) in [(Some(4001), 4001), (Some(1000), 1000), (None, 1000), (Some(1006), 1002)] {
        let mut client = app.client().await;
        client.store(&event(1, 1, said.unwrap_or_default().into(), &[])).await;
        let frame = said.map(|code: u16| CloseFrame { code: code.into(), reason: "enough".into() });
        client.socket.close(frame).await.unwrap();
        assert_eq!(code_of_the_end(&mut client).await, answered, "{said:?}");
        let rest = timeout(PATIENCE, async { while let Some(Ok(_)) = client.socket.next().await {} });
        rest.await.expect("the connection ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_messages_are_noticed_and_the_connection_goes_on() {
    let app = App::start(Settings::default()).await;
    let mut client = app.client().await;
    client.socket.send(Message::binary(b"[\"CLOSE\",\"a\"]".to_vec())).await.unwrap();
    assert_eq!(client.hear().await[0], "NOTICE");
    assert_eq!(client.stored(&[json!({})]).await, ids([]));
}
