//! A changing chain and mempool on a real node, and servers that follow: after every change the answers of Birdhouse,
//! its peers and a naive model must be equal.
#![expect(clippy::unwrap_used, reason = "tests")]

mod attacked;
mod birds;
mod notifications;
mod outages;
mod random;
mod watcher;
