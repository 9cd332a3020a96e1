//! Front ends: relays whose events another process stores.
//!
//! `front` serves the published states of that process, `forwarding` passes the events of its clients on, and `feed`
//! wakes it when something was published.

mod feed;
pub(crate) mod forwarding;
pub(crate) mod front;

pub(crate) use self::feed::Feed;
pub use self::feed::FeedOffset;
pub(crate) use self::front::Link;
pub use self::front::RelayWriter;
