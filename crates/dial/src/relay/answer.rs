//! Messages of a relay (NIP-01, 42, 77). JSON ends here; anything that is no such message is `None`.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Characters of a relay's reason that are kept.
const REASON_CHARS: usize = 200;
/// Bytes of a name of a subscription or session; ours are shorter.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a challenge, which is signed and sent back.
const CHALLENGE_BYTES_MAX: usize = 1024;

/// A message of a relay.
#[derive(Debug)]
pub enum Answer<'a> {
    /// An event for a subscription, unread.
    Event {
        /// Name of the subscription.
        subscription: String,
        /// JSON of the event.
        event: &'a RawValue,
    },
    /// The stored events of a subscription are complete.
    Eose(String),
    /// A subscription was refused or ended.
    Closed {
        /// Name of the subscription.
        subscription: String,
        /// The relay's reason.
        reason: String,
    },
    /// The outcome of an event.
    Ok {
        /// Id of the event in hexadecimal.
        id: String,
        /// Its acceptance.
        accepted: Accepted,
        /// The relay's reason.
        reason: String,
    },
    /// A text for people.
    Notice(String),
    /// A challenge to authenticate.
    Auth(String),
    /// The next message of a negentropy session.
    Compared {
        /// Name of the session.
        session: String,
        /// The message.
        message: Vec<u8>,
    },
    /// A negentropy session was refused or ended.
    CompareRefused {
        /// Name of the session.
        session: String,
        /// The relay's reason.
        reason: String,
    },
}

/// A relay's decision on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The relay has it.
    Yes,
    /// The relay refuses it.
    No,
}

impl<'a> Answer<'a> {
    /// Reads a message; `None` if it is none that a client waits for.
    pub fn parse(text: &'a str) -> Option<Self> {
        let whole: Vec<&'a RawValue> = serde_json::from_str(text).ok()?;
        let (verb, rest) = whole.split_first()?;
        match (read::<&str>(verb)?, rest) {
            ("EVENT", [name, event, ..]) => Some(Self::Event { subscription: named(name)?, event }),
            ("EOSE", [name, ..]) => Some(Self::Eose(named(name)?)),
            ("CLOSED", [name, rest @ ..]) => Some(Self::Closed { subscription: named(name)?, reason: first(rest) }),
            ("OK", [id, accepted, rest @ ..]) => {
                let accepted = if read::<bool>(accepted)? { Accepted::Yes } else { Accepted::No };
                Some(Self::Ok { id: named(id)?, accepted, reason: first(rest) })
            }
            ("NOTICE", rest) => Some(Self::Notice(first(rest))),
            ("AUTH", [challenge, ..]) => {
                let challenge = read::<String>(challenge).filter(|text| text.len() <= CHALLENGE_BYTES_MAX)?;
                Some(Self::Auth(challenge))
            }
            ("NEG-MSG", [name, message, ..]) => {
                let message = const_hex::decode(read::<&str>(message)?).ok()?;
                Some(Self::Compared { session: named(name)?, message })
            }
            ("NEG-ERR", [name, rest @ ..]) => Some(Self::CompareRefused { session: named(name)?, reason: first(rest) }),
            _ => None,
        }
    }
}

fn read<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

fn named(value: &RawValue) -> Option<String> {
    read::<String>(value).filter(|name| name.len() <= NAME_BYTES_MAX)
}

/// Returns the first of the values as a reason; an empty text if there is none.
fn first(values: &[&RawValue]) -> String {
    reason(&values.first().and_then(|value| read::<String>(value)).unwrap_or_default())
}

/// Returns a relay's reason without line breaks, shortened.
pub fn reason(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(REASON_CHARS).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The forms of NIP-01, 42 and 77.
    #[test]
    fn messages_of_the_specifications_are_read() {
        let is = |text: &str, expected: &str| {
            let answer = format!("{:?}", Answer::parse(text).unwrap());
            assert!(answer.starts_with(expected), "{answer}");
        };
        is(r#"["EVENT","s",{"id":"x"}]"#, r#"Event { subscription: "s", event: RawValue({"id":"x"}"#);
        is(r#"["EOSE","s"]"#, r#"Eose("s")"#);
        is(r#"["EOSE","s","finish"]"#, r#"Eose("s")"#);
        is(r#"["CLOSED","s","error: shutting down"]"#, r#"Closed { subscription: "s", reason: "error: sh"#);
        is(r#"["OK","ab",false,"blocked: no"]"#, r#"Ok { id: "ab", accepted: No, reason: "blocked: no" }"#);
        is(r#"["OK","ab",true,""]"#, r#"Ok { id: "ab", accepted: Yes, reason: "" }"#);
        is(r#"["NOTICE","a\nb"]"#, r#"Notice("a b")"#);
        is(r#"["AUTH","c"]"#, r#"Auth("c")"#);
        is(r#"["NEG-MSG","n","6100"]"#, r#"Compared { session: "n", message: [97, 0] }"#);
        is(r#"["NEG-ERR","n","blocked: too many"]"#, r#"CompareRefused { session: "n", reason: "blocked: too m"#);
    }

    #[test]
    fn anything_else_is_no_message() {
        let long = format!(r#"["EOSE","{}"]"#, "x".repeat(NAME_BYTES_MAX + 1));
        let challenge = format!(r#"["AUTH","{}"]"#, "x".repeat(CHALLENGE_BYTES_MAX + 1));
        assert!(Answer::parse(&challenge).is_none());
        for text in ["", "{}", "[]", "[1]", r#"["EVENT","s"]"#, r#"["OK","ab"]"#, r#"["NEG-MSG","n","6"]"#, &long] {
            assert!(Answer::parse(text).is_none(), "{text}");
        }
        assert_eq!(reason(&"x".repeat(1000)).len(), REASON_CHARS);
    }
}
