//! A changing chain and mempool on a real node, and servers that follow: after every change the answers of Birdhouse,
//! its peers and a naive model must be equal.
#![expect(clippy::unwrap_used, reason = "tests")]

mod birds;
mod messages;
mod notifications;
#[path = "../../../relay/tests/relay/npm.rs"]
#[expect(dead_code, reason = "the tests of the relay run scripts to their end")]
mod npm;
mod outages;
mod random;
mod watcher;
