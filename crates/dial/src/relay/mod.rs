//! A conversation with another relay, as its client.

mod answer;
mod link;

pub mod keys;

pub use answer::{Accepted, Answer, reason};
pub use link::{Link, LinkReader, LinkWriter, Opened, Received, authentication};
