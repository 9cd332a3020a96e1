//! Messages between relay and plugin: one JSON object a line.
//!
//! Source: strfry, [`docs/plugins.md`](https://github.com/hoytech/strfry/blob/master/docs/plugins.md).

use std::net::IpAddr;
use std::sync::Arc;

use birdhouse_events::{Event, EventId, Pubkey, Rejection};
use serde_json::{Value, json};

/// A plugin's decision about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    Reject(Rejection),
    /// The event is dropped, and its client gets `OK true`.
    ShadowReject,
}

/// The origin of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A client at this address.
    Address(IpAddr),
    /// A stream from the relay of this URL.
    Stream(Arc<str>),
}

/// Returns the line that asks about an event, ending in a newline.
pub(super) fn question(event: &Event, source: &Source, authenticated: Option<&Pubkey>, received_at: u32) -> String {
    let (source_type, source_info) = match source {
        Source::Address(address @ IpAddr::V4(_)) => ("IP4", address.to_string()),
        Source::Address(address @ IpAddr::V6(_)) => ("IP6", address.to_string()),
        Source::Stream(url) => ("Stream", url.to_string()),
    };
    let rest = json!({ "receivedAt": received_at, "sourceType": source_type, "sourceInfo": source_info });
    let rest = rest.to_string();
    let authed = authenticated.map(|pubkey| format!(",\"authed\":\"{pubkey}\"")).unwrap_or_default();
    format!("{{\"type\":\"new\",\"event\":{}{authed},{}\n", event.to_json(), &rest[1..])
}

/// Parses a line: the event it is about, and the decision.
pub(crate) fn answer(line: &[u8]) -> Option<(EventId, Verdict)> {
    let answer: Value = serde_json::from_slice(line).ok()?;
    let id = EventId::parse(answer["id"].as_str()?)?;
    let verdict = match answer["action"].as_str()? {
        "accept" => Verdict::Accept,
        "reject" => Verdict::Reject(rejection(answer["msg"].as_str().unwrap_or_default())),
        "shadowReject" => Verdict::ShadowReject,
        _ => return None,
    };
    Some((id, verdict))
}

/// Adds a standard prefix to the plugin's words where they have none.
fn rejection(words: &str) -> Rejection {
    match words.trim() {
        "" => Rejection::Blocked("this event is not wanted here".into()),
        words => Rejection::parse(words).unwrap_or_else(|| Rejection::Blocked(words.to_owned().into())),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};

    fn event() -> Event {
        let (created_at, content) = (Timestamp(7), "a \"note\"\n".to_owned());
        let event = UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content };
        event.sign(&Keys::from_secret([1; 32]).unwrap()).event().clone()
    }

    #[test]
    fn a_question_is_one_line_with_event_time_and_source() {
        let event = event();
        for (address, kind) in [("203.0.113.7", "IP4"), ("2001:db8::1", "IP6")] {
            let source = Source::Address(address.parse().unwrap());
            let line = question(&event, &source, None, 1_700_000_000);
            assert_eq!(line.find('\n'), Some(line.len() - 1));
            let said: Value = serde_json::from_str(&line).unwrap();
            let whole: Value = serde_json::from_str(&event.to_json()).unwrap();
            let expected = json!({
                "type": "new", "event": whole, "receivedAt": 1_700_000_000, "sourceType": kind, "sourceInfo": address,
            });
            assert_eq!(said, expected);
        }
        let line = question(&event, &Source::Stream("wss://a".into()), Some(&event.pubkey), 1);
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["authed"], event.pubkey.to_string());
        assert_eq!((&said["sourceType"], &said["sourceInfo"]), (&json!("Stream"), &json!("wss://a")));
    }

    #[test]
    fn answers_are_read_and_refusals_have_a_standard_prefix() {
        let id = event().id;
        let read = |rest: &str| answer(format!(r#"{{"id":"{id}",{rest}}}"#).as_bytes());
        let rejected = |rest: &str| match read(rest) {
            Some((of, Verdict::Reject(rejection))) if of == id => rejection.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(r#""action":"accept","msg":"""#), Some((id, Verdict::Accept)));
        assert_eq!(read(r#""action":"shadowReject""#), Some((id, Verdict::ShadowReject)));
        assert_eq!(rejected(r#""action":"reject","msg":"blocked: not on white-list""#), "blocked: not on white-list");
        assert_eq!(
            rejected(r#""action":"reject","msg":"rate-limited: slow down: please""#),
            "rate-limited: slow down: please"
        );
        assert_eq!(rejected(r#""action":"reject","msg":"go away""#), "blocked: go away");
        assert!(rejected(r#""action":"reject""#).starts_with("blocked: "));
        for wrong in ["", "hello", "{}", r#"{"id":"zz","action":"accept"}"#] {
            assert_eq!(answer(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(read(r#""action":"maybe""#), None);
        assert_eq!(read(r#""msg":"no action""#), None);
    }
}
