//! Synchronization and streams between relays over real sockets, and with peers that answer as none should.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answering;
mod app;
mod between;
mod clocks;
mod echo;
mod hostile;
mod hostile_stream;
mod old_peer;
mod streams;
mod unanswered;
