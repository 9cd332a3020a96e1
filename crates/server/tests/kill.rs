//! Hard to kill: the binary is killed with SIGKILL, starved of disk, and deserted by its node, and must come back to
//! the answers of an index that was never disturbed.
//!
//! Random moments come from seeds that are printed. `BIRDHOUSE_ROUNDS` sets the number of rounds of the long tests.
#![expect(clippy::unwrap_used, reason = "tests")]

mod hard_to_kill;
