//! Webhooks: the example of the specification. `tests/deliver` has the libraries of receivers.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::channel::tests::{Receiver, clock, guard, message};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// The example of the libraries of Standard Webhooks.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn webhook(url: &str, secrets: &[&str]) -> Result<Webhook, String> {
    let secrets: Vec<_> = secrets.iter().map(|secret| Secret::new(secret)).collect();
    Webhook::new(guard(), clock(), url, &secrets, Wording::WithAmounts)
}

#[test]
fn the_signature_is_that_of_the_example() {
    let secret = decode(&Secret::new(SECRET)).unwrap();
    let signature = signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", br#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_body_and_a_signature_of_each_secret() {
    let receiver = Receiver::start(OK).await;
    let other = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB";
    let webhook = webhook(&receiver.url("/hook"), &[SECRET, other]).unwrap();
    for _ in 0..2 {
        assert_eq!(webhook.send(&message()).await, Outcome::Delivered);
    }
    let received = receiver.received.lock();
    assert_eq!(received[0].body, received[1].body);
    let request = &received[0];
    assert_eq!(request.header("webhook-id"), Some(message().id.as_str()));
    assert_eq!(request.header("webhook-timestamp"), Some("1790000042"), "the time of the attempt");
    let expected: Vec<_> = [SECRET, other]
        .map(|secret| signature(&decode(&Secret::new(secret)).unwrap(), &message().id, "1790000042", &request.body))
        .to_vec();
    assert_eq!(request.header("webhook-signature"), Some(expected.join(" ").as_str()));
    assert_eq!(request.json()["data"], message().body);
}

#[test]
fn secrets_that_are_missing_too_many_or_broken_are_refused_and_not_repeated() {
    let url = "https://example.org/hook";
    assert!(webhook(url, &[]).is_err());
    assert!(webhook(url, &[SECRET; SECRETS_MAX + 1]).is_err());
    for secret in ["hunter2hunter2", "whsec_hunter2", "whsec_aHVudGVyMg=="] {
        let error = webhook(url, &[secret]).err().unwrap();
        assert!(!error.contains(secret) && !error.contains("hunter2"), "{error}");
    }
    assert!(webhook("file:///etc/passwd", &[SECRET]).is_err());
}
