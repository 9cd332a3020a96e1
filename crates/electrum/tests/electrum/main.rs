//! Tests of the server over real sockets, on a real index of a real node's chain.
#![expect(clippy::unwrap_used, reason = "tests")]

mod model;
mod noted_reads;
mod world;

mod answers;
mod extras;
mod inline;
mod live;
mod peers;
mod silent_payments;
mod silent_sender;
mod transports;
mod unconfirmed;
mod wire;
