//! The index over a node in memory.
#![expect(clippy::unwrap_used, reason = "tests")]

mod answers;
mod behind;
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
mod overwritten;
mod power_cut;
mod spenders;
mod tweak_kills;
mod tweaks;
mod work_budget;
