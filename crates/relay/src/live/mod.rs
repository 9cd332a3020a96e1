//! New events on their way to the subscriptions that match them.
//!
//! `hub` matches and sends, `live_queue` bounds the events that wait for one connection.
//!
//! A subscription first listens, then takes its `since_seq`: what is older is stored, what is newer is live, and each
//! event comes once. `simulation` tests it by seeded schedules.

mod hub;
mod live_queue;

pub(crate) use self::hub::{Hub, LiveInbox, SinceSeq};
pub(crate) use self::live_queue::{LiveEvent, LiveQueue};
