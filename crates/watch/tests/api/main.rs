//! The API for programs over real sockets, on the chain and mempool of a real node: answers against the node's own, and
//! against the documentation of Bitcoin Wallet Tracker, whose API it is.
#![expect(clippy::unwrap_used, reason = "tests")]

mod entrance;
mod invoices;
mod pages;
mod pruned;
mod routes;
#[path = "../../../electrum/tests/electrum/silent_sender.rs"]
#[expect(dead_code, reason = "the tests of the Electrum protocol use all of it")]
mod silent_sender;
mod sockets;
#[path = "../watch/spscan.rs"]
mod spscan;
mod stream;
mod watches;
mod world;
