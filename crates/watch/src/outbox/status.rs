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
    /// Notices that were given up: refused, or older than 30 days.
    pub given_up: u64,
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
        let has_failed = count > 0 && delivery.attempts > 0 && delivery.disabled.is_none();
        Self {
            name: name.as_str().to_owned(),
            waiting: count,
            delivered: delivery.successes,
            given_up: delivery.given_up,
            last_delivery: delivery.last_delivery,
            last_error: delivery.last_error,
            disabled: delivery.disabled,
            next_attempt: has_failed.then_some(delivery.next_ms / 1000),
        }
    }
}
