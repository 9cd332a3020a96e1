//! Events from a front end to the process that stores them: one a line, as JSON. In the answer the first line has the
//! number of the next event, and each of the others an outcome. Pure.

use std::time::Duration;

use birdhouse_events::{Event, Rejection, VerifiedEvent};
use serde::{Deserialize, Serialize};

use crate::message::Outcome;

/// Bytes of events in one message, unless one event has more.
const MESSAGE_BYTES: usize = 1 << 20;

/// The first line of an answer.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// Number of the next event that will be stored: those of the message are below it.
    end: u64,
}

/// The outcome of an event.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    outcome: String,
    /// The rejection, as clients get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Time that the event took the writer.
    spent_us: u64,
}

/// Encodes as many of some events as one message has; at least one. Returns their number, too.
pub(super) fn message(events: &[&VerifiedEvent]) -> (Vec<u8>, usize) {
    let (mut message, mut count) = (Vec::new(), 0);
    for event in events {
        if count > 0 {
            message.push(b'\n');
        }
        event.write_json(&mut message);
        count += 1;
        if message.len() >= MESSAGE_BYTES {
            break;
        }
    }
    (message, count)
}

/// Returns the events of a message. Each has been verified anew.
///
/// # Errors
/// The reason why a line is no event.
pub(crate) fn events(message: &[u8]) -> Result<Vec<VerifiedEvent>, String> {
    let text = std::str::from_utf8(message).map_err(|error| error.to_string())?;
    let event = |line: &str| {
        let event = Event::from_json(line).map_err(|malformed| malformed.rejection)?;
        event.verify()
    };
    text.split('\n').map(|line| event(line).map_err(|rejection| rejection.to_string())).collect()
}

/// Encodes an answer: the number of the next event, and outcomes, each with the time that it took.
pub(crate) fn encode(end: u64, outcomes: &[(Outcome, Duration)]) -> Vec<u8> {
    let line = |(outcome, spent): &(Outcome, Duration)| {
        let why = match outcome {
            Outcome::Refused(rejection) => Some(rejection.to_string()),
            _ => None,
        };
        let name = if why.is_some() { "refused" } else { outcome.name() };
        let spent_us = u64::try_from(spent.as_micros()).unwrap_or(u64::MAX);
        serde_json::to_string(&Line { outcome: name.to_owned(), why, spent_us }).expect("text and numbers are JSON")
    };
    let head = serde_json::to_string(&Head { end }).expect("a number is JSON");
    std::iter::once(head).chain(outcomes.iter().map(line)).collect::<Vec<_>>().join("\n").into_bytes()
}

/// Decodes an answer with the outcomes of `count` events; `None` if it is none.
pub(super) fn decode(answer: &[u8], count: usize) -> Option<(u64, Vec<(Outcome, Duration)>)> {
    let outcome = |line: &str| {
        let line: Line = serde_json::from_str(line).ok()?;
        let outcome = match (&*line.outcome, line.why) {
            ("accepted", None) => Outcome::Accepted,
            ("duplicate", None) => Outcome::Duplicate,
            ("refused", Some(why)) => Outcome::Refused(Rejection::parse(&why)?),
            _ => return None,
        };
        Some((outcome, Duration::from_micros(line.spent_us)))
    };
    let mut lines = std::str::from_utf8(answer).ok()?.split('\n');
    let Head { end } = serde_json::from_str(lines.next()?).ok()?;
    let outcomes: Vec<_> = lines.map(outcome).collect::<Option<_>>()?;
    (outcomes.len() == count).then_some((end, outcomes))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::{Keys, Kind, Timestamp, UnsignedEvent};

    use super::*;

    #[test]
    fn outcomes_and_events_are_decoded_as_they_were_encoded() {
        let sent = [
            (Outcome::Accepted, Duration::from_micros(7)),
            (Outcome::Duplicate, Duration::ZERO),
            (Outcome::Refused(Rejection::Blocked("its author has deleted it\n: so".into())), Duration::from_secs(9)),
        ];
        let answer = encode(77, &sent);
        let (end, received) = decode(&answer, 3).unwrap();
        assert_eq!((end, format!("{received:?}")), (77, format!("{sent:?}")));
        assert!(decode(&answer, 2).is_none() && decode(b"", 0).is_none() && decode(b"{}", 0).is_none());

        let event = |content: &str| {
            let content = content.to_owned();
            let unsigned = UnsignedEvent { created_at: Timestamp(1), kind: Kind(1), tags: Vec::new(), content };
            unsigned.sign(&Keys::from_secret([1; 32]).unwrap())
        };
        let sent = [event("a\nb"), event(""), event(&"long".repeat(MESSAGE_BYTES / 4)), event("later")];
        let (message, count) = super::message(&sent.each_ref());
        assert_eq!(events(&message).unwrap(), sent[..3]);
        assert_eq!(count, 3, "the message is full");
    }

    #[test]
    fn a_forged_event_is_refused() {
        let unsigned = UnsignedEvent { created_at: Timestamp(1), kind: Kind(1), tags: Vec::new(), content: "a".into() };
        let event = unsigned.sign(&Keys::from_secret([1; 32]).unwrap());
        let forged = event.to_json().replace("\"content\":\"a\"", "\"content\":\"b\"");
        assert!(events(forged.as_bytes()).unwrap_err().starts_with("invalid: "));
        assert!(events(b"").is_err() && events(b"\xff").is_err());
    }
}
