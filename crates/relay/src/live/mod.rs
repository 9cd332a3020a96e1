//! New events on their way to the subscriptions that match them.
//!
//! `hub` matches and sends, `live_queue` bounds the events that wait for one connection.

mod hub;
mod live_queue;

pub(crate) use self::hub::{Hub, Inbox, SinceSeq};
pub(crate) use self::live_queue::{LiveEvent, LiveQueue};
