//! Faults of programs and nodes while every answer is compared.

use std::time::Duration;

use birdhouse_cassandra::{clock_library, report_skipped};
use birdhouse_testkit::peers::{Home, Peer};
use birdhouse_testkit::small_disk::SmallDisk;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::TINY;
use super::world::{World, signal, timed, until};

/// Kills and pauses of nodes in the long test.
const NODES_KILLED: usize = 3;
/// The time for which a majority is cut off: less than that after which the indexer gives up.
const CUT: Duration = Duration::from_secs(5);
/// The disk of a node that becomes full. The node's commit log takes most of it.
const DISK_MIB: u64 = 256;
/// Messages of Cassandra when it cannot write a file, and a file that is mapped into memory.
const DISK_IS_FULL: [&str; 2] = ["No space left on device", "fault occurred in a recent unsafe memory access"];
/// Its message when it starts at a time before that of an earlier start.
const TIME_WENT_BACK: &str = "Using stored Gossip Generation";
/// Seconds by which clocks are apart.
const APART_S: i64 = 300;

impl World {
    /// Cuts nodes off the network: one, then two of three. Returns the number of nodes that were cut off.
    fn cut_nodes_off(&mut self) -> usize {
        let Some(cut) = self.cassandra.cut_off(0).unwrap() else {
            report_skipped("nodes that the network cuts off (needs nft, as root)");
            return 0;
        };
        for step in 0..2 {
            self.step(&format!("node 0 is cut off, {step}"));
        }
        drop(cut);
        self.reorg("node 0 is in the network again");
        let cuts = [0, 2].map(|node| self.cassandra.cut_off(node).unwrap());
        // Nothing can be published now.
        self.live.mine().unwrap();
        std::thread::sleep(CUT);
        drop(cuts);
        self.step("all nodes are in the network again");
        3
    }

    /// Slows nodes down, one after the other. Returns their number.
    fn slow_nodes_down(&mut self) -> usize {
        for node in [0, 2] {
            let slow = self.cassandra.slow_down(node).unwrap();
            self.step(&format!("node {node} is slow"));
            drop(slow);
        }
        self.reorg("no node is slow");
        2
    }

    /// Fills the disk of a node, and makes room later. Returns the number of disks that were full.
    fn fill_a_disk(&mut self) -> usize {
        self.cassandra.kill(1).unwrap();
        if !self.cassandra.restart_on_small_disk(1, DISK_MIB).unwrap() {
            report_skipped("a node whose disk is full (needs a loop device, as root)");
            self.cassandra.restart(1).unwrap();
            return 0;
        }
        self.step("node 1 has a small disk");
        let disk = SmallDisk::of(self.cassandra.pid(1).unwrap(), &self.cassandra.data_dir(1)).unwrap();
        disk.fill_up_to(0).unwrap();
        for step in 0..3 {
            self.step(&format!("the disk of node 1 is full, {step}"));
        }
        let log = self.cassandra.log(1);
        let said = DISK_IS_FULL.iter().find(|said| log.contains(*said));
        println!("node 1 says: {}", said.unwrap_or_else(|| panic!("it did not notice: {log}")));
        disk.make_room().unwrap();
        drop(disk);
        self.cassandra.kill(1).unwrap();
        self.cassandra.restart(1).unwrap();
        self.reorg("the disk of node 1 has room");
        1
    }

    /// Sets clocks of nodes and programs apart. Returns the number of clocks that were wrong, and the indexer.
    fn set_clocks_apart(&mut self, old: Peer) -> (usize, Peer) {
        let folder = TempDir::new().unwrap();
        let clock =
            |ahead_s| [("LD_PRELOAD".to_owned(), clock_library(folder.path(), ahead_s).unwrap().into_os_string())];
        // What the successor writes must count, though its clock is behind that of the process before it.
        let (new, _) = self.take_over_with(&clock(-2 * APART_S), || drop(old));
        for step in 0..2 {
            self.step(&format!("another indexer, whose clock is behind, {step}"));
        }
        self.reorg("a reorg by the indexer whose clock is behind");
        self.fronts[1] = self.launch_with("front", Home::Temporary, &clock(2 * APART_S));
        self.step("a front end has a clock that is ahead");
        for (node, ahead_s) in [(0, -APART_S), (2, APART_S)] {
            self.cassandra.kill(node).unwrap();
            self.cassandra.restart_with_clock(node, ahead_s).unwrap();
            for step in 0..2 {
                self.step(&format!("the clock of node {node} is {ahead_s} s ahead, {step}"));
            }
            self.cassandra.kill(node).unwrap();
            self.cassandra.restart_with_clock(node, 0).unwrap();
            assert!(self.cassandra.log(node).contains(TIME_WENT_BACK), "node {node} had no other clock");
        }
        self.step("the clocks of all nodes are right");
        let (third, _) = self.take_over(|| drop(new));
        self.reorg("an indexer whose clock is right");
        (4, third)
    }
}

#[test]
#[ignore = "takes minutes: make cluster-test"]
fn front_ends_are_right_while_programs_and_nodes_are_killed_and_paused() {
    let Some((mut world, old)) = World::start(3, TINY, "programs on three nodes") else { return };
    world.step("undisturbed");

    world.cassandra.kill(1).unwrap();
    for step in 0..3 {
        world.step(&format!("node 1 is dead, {step}"));
    }
    world.cassandra.restart(1).unwrap();
    world.reorg("node 1 is back");

    let (new, took) = world.take_over(|| signal(&old, Signal::SIGSTOP));
    println!("a spare indexer served {took:?} after the first was paused");
    world.step("another indexer");
    signal(&old, Signal::SIGCONT);
    world.step("the paused indexer is awake");
    until(|| old.log().unwrap().contains("took over"), "the old indexer does not notice");

    world.cassandra.pause(2).unwrap();
    for step in 0..2 {
        world.step(&format!("node 2 is paused, {step}"));
    }
    // Now everything is cut off from a majority; nothing can be published until one node is back.
    world.cassandra.pause(1).unwrap();
    world.live.mine().unwrap();
    world.cassandra.resume(1).unwrap();
    world.step("a majority is back");
    world.cassandra.resume(2).unwrap();

    let cuts = world.cut_nodes_off();
    signal(&world.fronts[0], Signal::SIGKILL);
    let (front, took) = timed(|| world.launch("front", Home::Temporary));
    println!("a front end served {took:?} after its start");
    world.fronts[0] = front;
    let (third, took) = world.take_over(|| signal(&new, Signal::SIGKILL));
    println!("a spare indexer served {took:?} after the second was killed");
    world.step("after all");
    drop(third);
    println!(
        "{NODES_KILLED} kills and pauses of nodes, {cuts} cuts, 3 kills and pauses of programs; {} answers of front \
         ends right, 0 wrong",
        world.answers
    );
}

#[test]
#[ignore = "takes minutes: make cluster-test"]
fn front_ends_are_right_while_nodes_are_slow() {
    let Some((mut world, _indexer)) = World::start(3, TINY, "slow nodes") else { return };
    world.step("undisturbed");
    let slow = world.slow_nodes_down();
    println!("{slow} slow nodes; {} answers of front ends right, 0 wrong", world.answers);
}

#[test]
#[ignore = "takes minutes: make cluster-test"]
fn front_ends_are_right_while_the_disk_of_a_node_is_full() {
    let Some((mut world, _indexer)) = World::start(3, TINY, "full disks of nodes") else { return };
    let full = world.fill_a_disk();
    println!("{full} full disks; {} answers of front ends right, 0 wrong", world.answers);
}

#[test]
#[ignore = "takes minutes: make cluster-test"]
fn front_ends_are_right_while_clocks_are_apart() {
    let Some((mut world, indexer)) = World::start(3, TINY, "clocks that are apart") else { return };
    let (clocks, _indexer) = world.set_clocks_apart(indexer);
    println!("{clocks} clocks apart; {} answers of front ends right, 0 wrong", world.answers);
}
