//! The index over a node in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answers;
mod behind;
#[path = "../../../silentpayments/tests/silentpayments/cases.rs"]
#[expect(dead_code, reason = "the tests of silent payments use all of it")]
mod bip352_cases;
#[path = "../../../silentpayments/tests/silentpayments/vectors.rs"]
#[expect(dead_code, reason = "the tests of silent payments use all of it")]
mod bip352_vectors;
mod bulk;
mod come_back;
mod common;
mod damaged;
mod derived;
mod download;
mod early;
mod follower;
mod forgotten;
mod front;
mod kill;
mod mempool;
mod merges;
#[path = "../../../silentpayments/tests/silentpayments/model.rs"]
#[expect(dead_code, reason = "the tests of silent payments use all of it")]
mod model;
mod overwritten;
mod power_cut;
mod spenders;
mod spooled;
mod tweak_kills;
mod tweak_vectors;
mod tweaks;
mod work_budget;
