//! Messages, and what becomes of an attempt to send one.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Names of amounts in the JSON of a notice.
const AMOUNTS: &[&str] = &["received", "spent", "balance", "value", "amount", "paid"];

/// A message, as a channel sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Id of the notice: the same in each attempt.
    pub id: String,
    /// Time of the notice, in seconds since 1970.
    pub created: u64,
    /// A few words, without amounts.
    pub title: String,
    /// One plain line.
    pub line: String,
    /// The same without amounts.
    pub line_without_amounts: String,
    /// Urgency.
    pub priority: Priority,
    /// Address of the page that a click opens.
    pub click: Option<String>,
    /// The notice as JSON, for webhooks and commands.
    pub body: Value,
}

/// Urgency of a message, 1 to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Priority {
    /// Nothing to look at now.
    Least = 1,
    /// Less than the usual.
    Low = 2,
    /// A payment.
    Usual = 3,
    /// Something that may need a person.
    High = 4,
    /// An alarm: a spend from a cold wallet.
    Alarm = 5,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The other side has it.
    Delivered,
    /// It may work later.
    Retry {
        /// The reason, in one line.
        why: String,
        /// Time that the other side asked for.
        after: Option<Duration>,
    },
    /// The other side refuses this message. It is tried a few times more, for its receiver may be mended meanwhile.
    Rejected {
        /// The reason, in one line.
        why: String,
    },
    /// The channel is to be used no more: the other side has gone for good.
    Disable {
        /// The reason, in one line.
        why: String,
    },
    /// This message will never be taken.
    Refused {
        /// The reason, in one line.
        why: String,
    },
}

/// A way to a person or a program.
pub trait Channel: Send + Sync {
    /// Sends a message.
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome>;
}

/// The choice of a channel about amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    WithAmounts,
    WithoutAmounts,
}

impl Outcome {
    /// A failure that may pass.
    pub(crate) fn retry(why: impl Into<String>) -> Self {
        Self::Retry { why: why.into(), after: None }
    }
}

impl Message {
    /// Returns the line of text.
    pub(super) fn text(&self, wording: Wording) -> &str {
        match wording {
            Wording::WithAmounts => &self.line,
            Wording::WithoutAmounts => &self.line_without_amounts,
        }
    }

    /// Returns the message as JSON for programs, in the form that Standard Webhooks advise: `type`, `timestamp` and
    /// `data`.
    pub(super) fn json(&self, wording: Wording) -> Value {
        let mut data = self.body.clone();
        if wording == Wording::WithoutAmounts {
            remove_amounts(&mut data);
        }
        let kind = data.get("kind").and_then(Value::as_str).unwrap_or("notice").to_owned();
        json!({
            "type": format!("watch.{kind}"),
            "timestamp": timestamp(self.created),
            "id": self.id,
            "title": self.title,
            "text": self.text(wording),
            "priority": self.priority as u8,
            "click": self.click,
            "data": data,
        })
    }
}

/// Removes amounts from the JSON of a notice, at any depth.
fn remove_amounts(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !AMOUNTS.contains(&name.as_str()));
            members.values_mut().for_each(remove_amounts);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_amounts),
        _ => {}
    }
}

/// Returns a time in the form of RFC 3339; times beyond the year 9999 as seconds.
fn timestamp(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_else(|| seconds.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::tests::message;

    #[test]
    fn programs_get_type_time_and_data() {
        let json = message().json(Wording::WithAmounts);
        assert_eq!((&json["type"], &json["timestamp"]), (&json!("watch.seen"), &json!("2026-09-21T14:13:20Z")));
        assert_eq!(json["data"], message().body);
        assert_eq!((&json["text"], &json["priority"]), (&json!(message().line), &json!(3)));
    }

    #[test]
    fn amounts_are_left_out_at_any_depth() {
        let text = message().json(Wording::WithoutAmounts).to_string();
        assert!(text.contains("aa11") && text.contains("script"));
        for amount in ["150000", "700", "0.0015"] {
            assert!(!text.contains(amount), "{text}");
            assert!(message().json(Wording::WithAmounts).to_string().contains(amount));
        }
    }
}
