//! The state of a channel, as operators see it.

use serde::Serialize;

use crate::file::ChannelName;
use crate::state::{Failure, Waiting};

/// The state of a channel, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelStatus {
    /// Name of the channel.
    pub name: String,
    /// Notices that are not delivered yet.
    pub waiting: usize,
    /// Deliveries so far.
    pub delivered: u64,
    /// Notices that were given up: refused for good, or older than 30 days.
    pub given_up: u64,
    /// The last one that was given up, until a test message arrives.
    pub last_given_up: Option<Failure>,
    /// Time of the last delivery, in seconds since 1970.
    pub last_delivery: Option<u64>,
    /// The last failure. It is current if it is later than the last delivery.
    pub last_error: Option<Failure>,
    /// The reason why the channel is not used.
    pub disabled: Option<String>,
    /// Time of the next attempt, in seconds since 1970, after one that failed.
    pub next_attempt: Option<u64>,
}

impl ChannelStatus {
    pub(super) fn new(name: &ChannelName, waiting: Waiting) -> Self {
        let Waiting { count, delivery } = waiting;
        let failed = [delivery.alarm, delivery.usual].into_iter().filter(|attempts| attempts.count > 0);
        let next_ms = failed.map(|attempts| attempts.next_ms).min();
        let next_ms = next_ms.filter(|_| count > 0 && delivery.disabled.is_none());
        Self {
            name: name.as_str().to_owned(),
            waiting: count,
            delivered: delivery.successes,
            given_up: delivery.given_up,
            last_given_up: delivery.last_given_up,
            last_delivery: delivery.last_delivery,
            last_error: delivery.last_error,
            disabled: delivery.disabled,
            next_attempt: next_ms.map(|next_ms| next_ms / 1000),
        }
    }
}
