//! ntfy, against a stand-in that checks the fields of its documentation: its server is in no registry of packages.
//! `tests/deliver/ntfy.rs` has the server itself.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::channel::message::Priority;
use crate::channel::tests::{Receiver, guard, message};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn ntfy(url: &str, token: Option<&str>) -> Result<Ntfy, String> {
    Ntfy::new(guard(), url, token.map(Secret::new).as_ref(), Wording::WithoutAmounts)
}

/// The fields that "Publish as JSON" of its documentation names, and the type of each.
fn check_documented(body: &serde_json::Value) {
    for (name, value) in body.as_object().unwrap() {
        let is_valid = match name.as_str() {
            "topic" | "message" | "title" | "click" => value.is_string(),
            "priority" => value.as_u64().is_some_and(|priority| (1..=5).contains(&priority)),
            _ => false,
        };
        assert!(is_valid, "{name}: {value}");
    }
    assert!(body["message"].as_str().unwrap().len() < 4096);
}

#[tokio::test]
async fn a_message_is_published_as_json_to_the_root() {
    let receiver = Receiver::start(OK).await;
    let ntfy = ntfy(&receiver.url("/Birds_1"), Some("tk_s3cret")).unwrap();
    assert_eq!(ntfy.send(&message()).await, Outcome::Delivered);
    let received = receiver.only();
    assert_eq!(received.line, "POST / HTTP/1.1");
    assert_eq!(received.header("authorization"), Some("Bearer tk_s3cret"));
    let body = received.json();
    check_documented(&body);
    assert_eq!(
        body,
        json!({ "topic": "Birds_1", "title": "Savings", "message": message().line_without_amounts, "priority": 3,
                "click": "https://example.org/tx/aa11" })
    );
}

#[tokio::test]
async fn a_server_below_a_path_keeps_it_and_an_alarm_has_priority_5() {
    let receiver = Receiver::start(OK).await;
    let ntfy = ntfy(&receiver.url("/push/birds"), None).unwrap();
    let alarm = Message { priority: Priority::Alarm, click: None, ..message() };
    assert_eq!(ntfy.send(&alarm).await, Outcome::Delivered);
    let received = receiver.only();
    assert_eq!((received.line.as_str(), received.header("authorization")), ("POST /push/ HTTP/1.1", None));
    check_documented(&received.json());
    assert_eq!((&received.json()["priority"], received.json().get("click")), (&json!(5), None));
}

#[tokio::test]
async fn a_long_text_is_cut_at_a_letter_so_that_it_makes_no_attachment() {
    let receiver = Receiver::start(OK).await;
    let ntfy = ntfy(&receiver.url("/birds"), None).unwrap();
    let long = Message { line_without_amounts: "ü".repeat(3000), ..message() };
    assert_eq!(ntfy.send(&long).await, Outcome::Delivered);
    check_documented(&receiver.only().json());
}

#[test]
fn addresses_without_a_topic_are_refused() {
    for url in ["https://ntfy.sh", "https://ntfy.sh/", "https://ntfy.sh/a b", "https://ntfy.sh/a?auth=b", "ws://a/b"] {
        assert!(ntfy(url, None).is_err(), "{url}");
    }
    assert!(!ntfy("https://ntfy.sh/a", Some("tk\ns3cret")).err().unwrap().contains("s3cret"));
}
