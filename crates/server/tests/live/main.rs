//! A chain and a mempool that move, and servers that have to follow: a real node that is made to do all that nodes do,
//! and after every change the answers of Birdhouse, of its peers and of a naive model must be the same.
#![expect(clippy::unwrap_used, reason = "tests")]

mod attacked;
mod birds;
mod outages;
mod random;
mod told;
mod watcher;
