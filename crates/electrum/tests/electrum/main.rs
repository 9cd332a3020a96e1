//! Tests of the server over real sockets, on a real index of a real node's chain.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../../silentpayments/tests/silentpayments/model.rs"]
#[expect(dead_code, reason = "the tests of silent payments use all of it")]
mod bip352;
#[path = "../../../esplora/tests/esplora/eligible.rs"]
#[expect(dead_code, reason = "other tests use values")]
mod eligible;
mod model;
mod noted_reads;
mod world;

mod answers;
mod extras;
mod inline;
mod live;
mod peers;
mod silent_payments;
mod silent_scans;
mod silent_sender;
mod transports;
mod tweaks;
mod unconfirmed;
mod wire;
