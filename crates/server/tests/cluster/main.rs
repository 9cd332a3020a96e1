//! Programs on one cluster: an indexer, a spare one and three front ends beside a server that keeps its index in files,
//! while programs and nodes are killed and paused.
//!
//! All of them follow one real node. Every answer about every script is compared with the model, so front ends and the
//! server with files answer alike.
#![expect(clippy::unwrap_used, reason = "tests")]

mod faults;
mod measure;
mod world;

use std::time::Duration;

use birdhouse_testkit::mix::Size;
use nix::sys::signal::Signal;

use world::{World, signal};

/// Some hundred scripts, one of them with a long history.
const TINY: Size = Size { blocks: 20, block_txs: 6, scripts_per_form: 30, busy: &[10, 300] };

#[test]
fn front_ends_answer_as_files_do_and_a_spare_indexer_takes_over() {
    let Some((mut world, indexer)) = World::start(1, TINY, "front ends on a cluster") else { return };
    for step in 0..4 {
        world.step(&format!("step {step}"));
    }
    world.reorg("a reorg");
    let (spare, took) = world.take_over(|| signal(&indexer, Signal::SIGKILL));
    println!("a spare indexer served {took:?} after the first was killed");
    assert!(took < Duration::from_mins(1), "the lease is ten seconds: {took:?}");
    world.step("after the take-over");
    world.reorg("a reorg after the take-over");
    drop(spare);
}
