//! The index over a node in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answers;
mod common;
mod mempool;
mod power_cut;
mod short;
