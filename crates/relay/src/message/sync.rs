//! Negentropy messages (NIP-77). A wrong one is answered by `NEG-ERR`, never by NOTICE alone.

use birdhouse_events::{Filter, Rejection, hex};
use serde_json::value::RawValue;

use super::names::{Refused, SubscriptionId, bounded_name, invalid_message, name, quoted};
use crate::settings::Settings;

/// A message from a client. Names of sessions are independent of those of subscriptions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SyncMessage {
    /// The filters of the events, and the first message.
    Open(SubscriptionId, Vec<Filter>, Vec<u8>),
    /// The next message.
    Message(SubscriptionId, Vec<u8>),
    Close(SubscriptionId),
}

pub(super) fn open(rest: &[&RawValue], settings: &Settings) -> Result<SyncMessage, Refused> {
    let (id, rest) = rest.split_first().ok_or_else(|| invalid_message("NEG-OPEN names a session"))?;
    let id = bounded_name(id, &settings.limits, Refused::Sync)?;
    let refuse = |rejection| Refused::Sync(id.clone(), rejection);
    let [filters, message] = rest else {
        return Err(refuse(Rejection::Invalid("NEG-OPEN carries a filter and a message".into())));
    };
    let filters = open_filters(filters, settings).map_err(refuse)?;
    let message = bytes(&id, message)?;
    Ok(SyncMessage::Open(SubscriptionId(id), filters, message))
}

/// Parses the filter of NIP-77, or an array of filters, whose events are compared together: NDK sends an array, and
/// strfry takes both.
fn open_filters(filters: &RawValue, settings: &Settings) -> Result<Vec<Filter>, Rejection> {
    let limits = &settings.limits;
    let several: Vec<&RawValue> = if filters.get().starts_with('[') {
        serde_json::from_str(filters.get()).map_err(|_| Rejection::Invalid("filters are objects".into()))?
    } else {
        vec![filters]
    };
    if several.is_empty() || several.len() > limits.filters {
        return Err(Rejection::Invalid(format!("there are 1 to {} filters", limits.filters).into()));
    }
    let filter_limits = limits.filter(settings.unknown_keys);
    several.iter().map(|filter| Filter::from_json(filter.get(), &filter_limits)).collect()
}

pub(super) fn message(rest: &[&RawValue]) -> Result<SyncMessage, Refused> {
    let [id, message] = rest else { return Err(invalid_message("NEG-MSG names a session and carries a message")) };
    let id = name(id)?;
    let message = bytes(&id, message)?;
    Ok(SyncMessage::Message(SubscriptionId(id), message))
}

pub(super) fn close(rest: &[&RawValue]) -> Result<SyncMessage, Refused> {
    let [id] = rest else { return Err(invalid_message("NEG-CLOSE names one session")) };
    Ok(SyncMessage::Close(SubscriptionId(name(id)?)))
}

fn bytes(id: &str, message: &RawValue) -> Result<Vec<u8>, Refused> {
    let digits = serde_json::from_str::<&str>(message.get()).ok();
    let bytes = digits.and_then(|digits| Some(hex::read(digits.as_bytes())?.collect()));
    bytes.ok_or_else(|| Refused::Sync(id.to_owned(), Rejection::Invalid("a message is lowercase hex digits".into())))
}

// === the relay's messages ===

pub(crate) fn sync_message(id: &SubscriptionId, message: &[u8]) -> String {
    format!("[\"NEG-MSG\",{},\"{}\"]", quoted(&id.0), hex::string(message))
}

/// Ends a session for a reason on the client's side.
pub(crate) fn sync_refused(id: &SubscriptionId, rejection: &Rejection) -> String {
    refused(&id.0, rejection)
}

/// Ends a session that waited too long, or does not exist.
pub(crate) fn sync_closed(id: &SubscriptionId, why: &'static str) -> String {
    format!("[\"NEG-ERR\",{},\"closed: {why}\"]", quoted(&id.0))
}

/// Ends a session whose filter has more events than `most`, a number that NIP-77 asks for.
pub(crate) fn sync_too_large(id: &SubscriptionId, most: usize) -> String {
    format!("[\"NEG-ERR\",{},\"blocked: the filter has more than {most} events\",{most}]", quoted(&id.0))
}

pub(super) fn refused(id: &str, rejection: &Rejection) -> String {
    format!("[\"NEG-ERR\",{},{}]", quoted(id), quoted(&rejection.to_string()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::ClientMessage;
    use super::*;

    fn parse(text: &str) -> Result<ClientMessage, Refused> {
        ClientMessage::parse(text, &Settings::default())
    }

    #[test]
    fn sessions_are_read() {
        let id = SubscriptionId("a".to_owned());
        let open = SyncMessage::Open(id.clone(), vec![Filter::default()], vec![0x61, 0]);
        for text in [r#"["NEG-OPEN","a",{},"6100"]"#, r#"["NEG-OPEN","a", [ {} ] ,"6100"]"#] {
            assert_eq!(parse(text).unwrap(), ClientMessage::Sync(open.clone()), "{text}");
        }
        let several = parse(r#"["NEG-OPEN","a",[{},{"limit":1}],"61"]"#).unwrap();
        assert!(matches!(several, ClientMessage::Sync(SyncMessage::Open(_, filters, _)) if filters.len() == 2));
        let message = SyncMessage::Message(id.clone(), vec![0x61]);
        assert_eq!(parse(r#"["NEG-MSG","a","61"]"#).unwrap(), ClientMessage::Sync(message));
        assert_eq!(parse(r#"["NEG-CLOSE","a"]"#).unwrap(), ClientMessage::Sync(SyncMessage::Close(id)));
    }

    #[test]
    fn a_refused_session_is_ended_by_its_name_and_never_only_noticed() {
        let long = "x".repeat(65);
        for text in [
            r#"["NEG-OPEN","a"]"#,
            r#"["NEG-OPEN","a",{},16,"6100"]"#,
            r#"["NEG-OPEN","a",{"ids":["zz"]},"61"]"#,
            r#"["NEG-OPEN","a",{},"6"]"#,
            r#"["NEG-OPEN","a",{},"6G"]"#,
            r#"["NEG-OPEN","a",{},97]"#,
            r#"["NEG-OPEN","a",[],"61"]"#,
            r#"["NEG-OPEN","a",[[{}]],"61"]"#,
            r#"["NEG-OPEN","a",[{},1],"61"]"#,
            r#"["NEG-MSG","a","AB"]"#,
        ] {
            let answer = parse(text).unwrap_err().answer();
            assert!(answer.starts_with(r#"["NEG-ERR","a","invalid: "#), "{text}: {answer}");
        }
        let answer = parse(&format!(r#"["NEG-OPEN","{long}",{{}},"61"]"#)).unwrap_err().answer();
        assert!(answer.starts_with(&format!(r#"["NEG-ERR","{}","invalid: "#, &long[..64])), "{answer}");
        for text in [r#"["NEG-OPEN"]"#, r#"["NEG-MSG","a"]"#, r#"["NEG-CLOSE"]"#, r#"["NEG-CLOSE",1]"#] {
            assert!(parse(text).unwrap_err().answer().starts_with(r#"["NOTICE","invalid: "#), "{text}");
        }
    }
}
