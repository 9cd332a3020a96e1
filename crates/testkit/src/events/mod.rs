//! Events of a busy relay, and checkers of what its clients saw and what streams between relays passed on.

pub mod corpus;
pub mod relay_history;
pub mod stream_history;
