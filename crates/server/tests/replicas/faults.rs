//! Faults after which a replica serves what it has, says why, and goes on when they are over.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use birdhouse_testkit::small_disk::can_mount;

use super::other_version::OtherVersion;
use super::world::{World, program};

const DISK_MIB: u64 = 64;
/// Blocks after which a full disk must have failed a write: the engine has some room in its files.
const BLOCKS_MAX: usize = 500;
/// Pause between two blocks, in which a replica shows a block or not.
const PAUSE: Duration = Duration::from_millis(20);
const FAILED: &str = "failed to follow the primary; serving what is known";

#[test]
fn a_replica_on_a_full_disk_serves_what_it_has_says_so_and_goes_on_with_room() {
    if !can_mount() {
        return;
    }
    let mut world = World::start(&[]);
    let disk = world.start_replica_on_disk("small", DISK_MIB);
    world.step("with room");
    world.live.mine().unwrap();
    let mut asked = BTreeMap::new();
    let mut mine = |world: &mut World| {
        let about = world.mine_unseen();
        asked.insert(u64::from(world.live.ledger().height()), about);
    };
    mine(&mut world);
    world.compare("before the disk is full");
    world.wait_for_health("small");

    disk.fill_up_to(0).unwrap();
    for _ in 0..BLOCKS_MAX {
        mine(&mut world);
        if world.replica("small").log().unwrap().contains(FAILED) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    world.wait_for_reason("small", "No space left on device");
    let height = world.height("small");
    assert!(height < u64::from(world.live.ledger().height()), "the last block does not fit");
    world.assert_serves("small", &asked[&height]);
    assert_eq!(world.height("small"), height);

    disk.make_room().unwrap();
    world.compare("with room again");
    world.wait_for_health("small");
    world.reorg("a reorg with room");
    let log = world.replica("small").log().unwrap();
    assert_eq!(log.matches(FAILED).count(), 1, "the log repeats itself: {log}");
    assert_eq!(log.matches("copied the index").count(), 1, "it need not copy again: {log}");

    // What the disk has then is what another start finds.
    world.kill_replica("small");
    let folders = [disk.folder().join("."), world.home("small").join("regtest")];
    assert!(Command::new("cp").arg("-a").args(folders).status().unwrap().success());
    world.start_replica("small");
    world.step("on another disk");
    let log = world.replica("small").log().unwrap();
    assert!(log.matches("copied the index").count() <= 1, "it must copy again: {log}");
}

#[test]
fn a_primary_whose_index_was_built_anew_is_refused_and_the_replica_keeps_its_own() {
    let mut world = World::start(&["one"]);
    world.step("before");
    world.live.mine().unwrap();
    let asked = world.mine_unseen();
    world.compare("all blocks");
    let height = world.height("one");

    world.kill_primary();
    fs::remove_dir_all(world.home("primary").join("regtest")).unwrap();
    world.start_primary();
    let newer = world.mine_unseen();
    world.wait_for_reason("one", "it was built anew; start with an empty --data-dir to copy it");
    assert_eq!(world.height("one"), height);
    world.assert_serves("one", &asked);
    let copies = world.home("one").join("regtest/replica").read_dir().unwrap();
    assert_eq!(copies.count(), 1, "nothing of the other index is copied");

    world.kill_replica("one");
    fs::remove_dir_all(world.home("one")).unwrap();
    world.start_replica("one");
    world.assert_serves("one", &newer);
    world.reorg("a new copy");
}

#[test]
fn a_primary_of_another_version_is_refused_until_it_has_ours() {
    let mut world = World::start(&[]);
    let front = OtherVersion::before(world.port);
    world.start_replica_of("one", front.port, program());
    world.step("one version");
    world.live.mine().unwrap();
    let asked = world.mine_unseen();
    world.compare("all blocks");
    let height = world.height("one");

    front.change();
    world.mine_unseen();
    world.wait_for_reason("one", "speaks version 2 to replicas, and this one 1; run the same birdhouse on both");
    assert_eq!(world.height("one"), height);
    world.assert_serves("one", &asked);
    front.restore();
    world.reorg("one version again");
    world.wait_for_health("one");
}
