//! Crash tests: after SIGKILL, a full disk, or the loss of its node, the binary must give the answers of an undisturbed
//! index.
//!
//! Random moments come from printed seeds. `BIRDHOUSE_ROUNDS` sets the number of rounds of the long tests,
//! `BIRDHOUSE_FROM` the first.
#![expect(clippy::unwrap_used, reason = "tests")]

mod hard_to_kill;
