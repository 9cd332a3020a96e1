//! The API for programs over real sockets, on the chain and mempool of a real node: answers against the node's own, and
//! against the documentation of Bitcoin Wallet Tracker, whose API it is.
#![expect(clippy::unwrap_used, reason = "tests")]

mod entrance;
mod invoices;
mod pages;
mod routes;
mod stream;
mod watches;
mod world;
