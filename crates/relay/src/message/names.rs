//! Names that clients give to subscriptions and sessions, and refusals by such a name.

use birdhouse_events::{EventId, Rejection};
use serde_json::value::RawValue;

use crate::limits::Limits;

/// Name of a subscription, chosen by its client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SubscriptionId(pub(super) String);

/// Refusal of a message. The variant decides the type of the reply: OK, CLOSED, NEG-ERR or NOTICE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refused {
    /// An event of this id.
    Event(EventId, Rejection),
    /// A subscription of this name.
    Subscription(String, Rejection),
    /// A negentropy session of this name.
    Sync(String, Rejection),
    /// Anything without a name.
    Message(Rejection),
}

pub(super) fn name(id: &RawValue) -> Result<String, Refused> {
    serde_json::from_str(id.get()).map_err(|_| invalid_message("a subscription's name is a string"))
}

/// Parses a name that is neither empty nor too long.
pub(super) fn bounded_name(
    id: &RawValue,
    limits: &Limits,
    refuse: impl Fn(String, Rejection) -> Refused,
) -> Result<String, Refused> {
    let (id, chars) = (name(id)?, limits.subscription_id_chars);
    if id.is_empty() || id.chars().count() > chars {
        // The name is truncated, so that a refusal stays short.
        let beginning = id.chars().take(chars).collect();
        return Err(refuse(beginning, Rejection::Invalid(format!("a name has 1 to {chars} characters").into())));
    }
    Ok(id)
}

pub(super) fn invalid_message(reason: &'static str) -> Refused {
    Refused::Message(Rejection::Invalid(reason.into()))
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}
