//! Ways to a person or a program. A channel sends one message at a time and says what became of it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A message, as a channel sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Id of the notice: the same in each attempt.
    pub id: String,
    /// Time of the notice, in seconds since 1970.
    pub created: u64,
    /// A few words.
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
    pub body: serde_json::Value,
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
    fn send<'a>(&'a self, message: &'a Message) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;
}
