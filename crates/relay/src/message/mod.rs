//! Messages between clients and relay (NIP-01, 42, 45, 67, 77). JSON ends here.

mod outcome;

mod names;
mod sync;

pub(crate) use self::outcome::{Answer, Outcome};

use birdhouse_events::{Event, EventId, Filter, Malformed, Rejection};
use serde_json::value::RawValue;

use self::names::{bounded_name, invalid_message, name, quoted};
use crate::settings::{EoseHints, Settings};
use crate::stored::{Completeness, Hint, Tally};

pub(crate) use names::{Refused, SubscriptionId};
pub(crate) use sync::{SyncMessage, sync_closed, sync_message, sync_refused, sync_too_large};

/// A message from a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClientMessage {
    Event(Event),
    Req(SubscriptionId, Vec<Filter>),
    Count(SubscriptionId, Vec<Filter>),
    Close(SubscriptionId),
    /// Proof of the client's identity (NIP-42).
    Auth(Event),
    /// Comparison of two sets of events (NIP-77).
    Sync(SyncMessage),
}

impl ClientMessage {
    /// Parses one message.
    pub(crate) fn parse(text: &str, settings: &Settings) -> Result<Self, Refused> {
        let whole: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| invalid_message("not a JSON array"))?;
        let (verb, rest) = whole.split_first().ok_or_else(|| invalid_message("an empty array"))?;
        match serde_json::from_str::<&str>(verb.get()) {
            Ok("EVENT") => event(rest).map(Self::Event),
            Ok("AUTH") => event(rest).map(Self::Auth),
            Ok("REQ") => {
                let (id, filters) = subscription(rest, settings)?;
                Ok(Self::Req(id, filters))
            }
            Ok("COUNT") => {
                let (id, filters) = subscription(rest, settings)?;
                Ok(Self::Count(id, filters))
            }
            Ok("CLOSE") => match rest {
                [id] => Ok(Self::Close(SubscriptionId(name(id)?))),
                _ => Err(invalid_message("CLOSE names one subscription")),
            },
            Ok("NEG-OPEN") => sync::open(rest, settings).map(Self::Sync),
            Ok("NEG-MSG") => sync::message(rest).map(Self::Sync),
            Ok("NEG-CLOSE") => sync::close(rest).map(Self::Sync),
            _ => Err(Refused::Message(Rejection::Unsupported("no such message".into()))),
        }
    }
}

/// Returns true if a message is an event, as far as its beginning tells. One whose verb is written with escapes is not
/// recognized here.
pub(crate) fn is_event(message: &[u8]) -> bool {
    let verb = message.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    verb.is_some_and(|verb| verb.starts_with(b"\"EVENT\""))
}

fn event(rest: &[&RawValue]) -> Result<Event, Refused> {
    let [event] = rest else { return Err(invalid_message("EVENT and AUTH carry one event")) };
    Event::from_json(event.get()).map_err(|Malformed { id, rejection }| match id {
        Some(id) => Refused::Event(id, rejection),
        None => Refused::Message(rejection),
    })
}

fn subscription(rest: &[&RawValue], settings: &Settings) -> Result<(SubscriptionId, Vec<Filter>), Refused> {
    let limits = &settings.limits;
    let (id, filters) = rest.split_first().ok_or_else(|| invalid_message("a subscription has a name"))?;
    let id = bounded_name(id, limits, Refused::Subscription)?;
    let refuse = |rejection| Refused::Subscription(id.clone(), rejection);
    if filters.is_empty() || filters.len() > limits.filters {
        let most = limits.filters;
        return Err(refuse(Rejection::Invalid(format!("there are 1 to {most} filters").into())));
    }
    let filter_limits = limits.filter(settings.unknown_keys);
    let filters = filters.iter().map(|filter| Filter::from_json(filter.get(), &filter_limits));
    let filters = filters.collect::<Result<_, _>>().map_err(&refuse)?;
    Ok((SubscriptionId(id), filters))
}

// === the relay's messages ===

impl SubscriptionId {
    /// Returns the beginning of a message that carries an event to this subscription; the event and `]` follow.
    pub(crate) fn event_prefix(&self) -> String {
        format!("[\"EVENT\",{},", quoted(&self.0))
    }

    /// Returns the message after the last stored event. With hints, it tells whether that was all (NIP-67): where more
    /// may be there for a client that authenticates, the hint is `auth`, which is proposed for NIP-67, and never
    /// `finish`. The challenge was sent when the connection began.
    pub(crate) fn eose(&self, hints: EoseHints, Completeness { hint, is_withheld }: Completeness) -> String {
        let third = match (hints, hint, is_withheld) {
            (EoseHints::Off, ..) | (_, Hint::Unknown, false) => "",
            (_, Hint::Finish, false) => ",[\"finish\"]",
            (_, Hint::More, false) => ",[\"more\"]",
            (_, Hint::Finish | Hint::Unknown, true) => ",[\"auth\"]",
            (_, Hint::More, true) => ",[\"more\",\"auth\"]",
        };
        format!("[\"EOSE\",{}{third}]", quoted(&self.0))
    }

    pub(crate) fn count(&self, tally: &Tally) -> String {
        format!("[\"COUNT\",{},{}]", quoted(&self.0), tally.to_json())
    }

    pub(crate) fn closed(&self, rejection: &Rejection) -> String {
        closed(&self.0, rejection)
    }
}

impl Refused {
    pub(crate) fn answer(&self) -> String {
        match self {
            Self::Event(id, rejection) => refused(id, rejection),
            Self::Subscription(id, rejection) => closed(id, rejection),
            Self::Sync(id, rejection) => sync::refused(id, rejection),
            Self::Message(rejection) => format!("[\"NOTICE\",{}]", quoted(&rejection.to_string())),
        }
    }
}

fn closed(id: &str, rejection: &Rejection) -> String {
    format!("[\"CLOSED\",{},{}]", quoted(id), quoted(&rejection.to_string()))
}

/// Asks a client to prove its identity (NIP-42).
pub(crate) fn auth(challenge: &str) -> String {
    format!("[\"AUTH\",{}]", quoted(challenge))
}

/// Confirms an event that is stored, was sent to subscriptions, or proves the client's identity.
pub(crate) fn accepted(id: &EventId) -> String {
    format!("[\"OK\",\"{id}\",true,\"\"]")
}

/// Confirms an event that was stored before.
fn duplicate(id: &EventId) -> String {
    format!("[\"OK\",\"{id}\",true,\"duplicate: already have this event\"]")
}

/// Accepts an event with a text whose first word is a prefix of the protocol.
pub(crate) fn ok_saying(id: &EventId, text: &str) -> String {
    format!("[\"OK\",\"{id}\",true,{}]", quoted(text))
}

/// Accepts an event, and says what became of it.
fn ok_with(id: &EventId, remark: &Rejection) -> String {
    ok_saying(id, &remark.to_string())
}

pub(crate) fn refused(id: &EventId, rejection: &Rejection) -> String {
    format!("[\"OK\",\"{id}\",false,{}]", quoted(&rejection.to_string()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        ClientMessage::parse(text, &Settings::default()).unwrap_err().answer()
    }

    #[test]
    fn requests_are_read() {
        let settings = Settings::default();
        let req = ClientMessage::parse(r#"["REQ","a",{"kinds":[1]},{"limit":0}]"#, &settings).unwrap();
        assert!(matches!(req, ClientMessage::Req(id, filters) if id.0 == "a" && filters.len() == 2));
        let close = ClientMessage::parse(r#"["CLOSE","a"]"#, &settings).unwrap();
        assert_eq!(close, ClientMessage::Close(SubscriptionId("a".to_owned())));
    }

    #[test]
    fn a_refused_request_is_closed_by_its_name_and_never_only_noticed() {
        assert!(refusal(r#"["REQ","a",{"ids":["zz"]}]"#).starts_with(r#"["CLOSED","a","invalid: "#));
        assert!(refusal(r#"["REQ","a"]"#).starts_with(r#"["CLOSED","a","invalid: "#));
        assert!(refusal(r#"["REQ","",{}]"#).starts_with(r#"["CLOSED","","invalid: "#));
        let long = "é".repeat(65);
        assert!(
            refusal(&format!(r#"["REQ","{long}",{{}}]"#))
                .starts_with(&format!(r#"["CLOSED","{}","invalid: "#, "é".repeat(64))),
            "not longer than a name may be"
        );
        assert!(ClientMessage::parse(&format!(r#"["REQ","{}",{{}}]"#, "é".repeat(64)), &Settings::default()).is_ok());
    }

    #[test]
    fn what_has_no_name_is_noticed() {
        for text in
            ["", "{}", "[]", "[1]", r#"["REQ"]"#, r#"["REQ",1,{}]"#, r#"["CLOSE"]"#, r#"["EVENT"]"#, r#"["EVENT",{}]"#]
        {
            assert!(refusal(text).starts_with(r#"["NOTICE","#), "{text}: {}", refusal(text));
        }
        assert!(refusal(r#"["HELLO"]"#).starts_with(r#"["NOTICE","unsupported: "#));
    }
}
