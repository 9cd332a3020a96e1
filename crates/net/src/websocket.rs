//! WebSocket after RFC 6455, the server's side, with compressed messages after RFC 7692.
//!
//! Frame headers are tungstenite's. The rest of `tokio-tungstenite` and `fastwebsockets` is not used: neither has
//! permessage-deflate (tungstenite's issue 2 is open since 2017, fastwebsockets says "not supported yet"), which saves
//! the relay most of its bytes; both own the buffers, so that messages that are not whole could have no common bound,
//! and both take a message to write as one buffer of its own, where pages of the relay are written as frames in place
//! and long replies of the Electrum protocol leave in the pieces in which they were made.

pub(crate) mod deflate;
pub(crate) mod frames;
pub(crate) mod pages;
pub(crate) mod shared_payload;
pub(crate) mod upgrade;
pub(crate) mod writer;
