//! The engine on the index of a real node's chain, beside a naive model of what must be announced.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cases;
mod cost;
mod faults;
mod flawed;
mod model;
mod naive;
mod pruned;
#[path = "../../../electrum/tests/electrum/silent_sender.rs"]
#[expect(dead_code, reason = "the tests of the Electrum protocol use all of it")]
mod silent_sender;
mod silent_watch;
mod spscan;
mod world;
