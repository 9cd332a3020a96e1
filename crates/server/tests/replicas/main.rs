//! Replicas of one index, as programs: they copy it from a primary and follow it while chain and mempool move, programs
//! are killed and copies are cut off.
//!
//! All of them follow one real node. Every answer about every script is compared with the model.
#![expect(clippy::unwrap_used, reason = "tests")]

mod faults;
mod other_version;
mod silent_payments;
#[path = "../../../electrum/tests/electrum/silent_sender.rs"]
mod silent_sender;
mod world;

use std::fs;

use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::Peer;
use birdhouse_testkit::usage::Usage;
use serde_json::json;

use self::other_version::OtherVersion;
use self::world::{World, program, until};

/// A chain of some ten thousand transactions.
const MEASURED: Size = Size { blocks: 60, block_txs: 200, scripts_per_form: 1000, busy: &[10, 300, 5000] };
/// Blocks whose bytes and CPU time are measured.
const MEASURED_BLOCKS: u32 = 50;

/// The bytes of a change that the log says was applied.
fn bytes_of_change(line: &str) -> Option<u64> {
    let (_, fields) = line.split_once("applied a change")?;
    let field = |name: &str| fields.split_whitespace().find_map(|field| field.strip_prefix(name)?.parse::<u64>().ok());
    Some(field("bytes=")? + field("file_bytes=")?)
}

#[test]
fn replicas_answer_as_their_primary_while_it_and_they_are_killed() {
    let mut world = World::start(&["one", "two"]);
    for step in 0..3 {
        world.step(&format!("step {step}"));
    }
    world.reorg("a reorg");

    world.kill_replica("one");
    world.step("a replica is dead");
    world.start_replica("one");
    world.reorg("the replica is back");

    world.kill_primary();
    let mut client = world.replicas[0].1.client().unwrap();
    assert!(client.call("blockchain.headers.subscribe", json!([])).is_ok(), "it serves without its primary");
    world.start_primary();
    world.step("the primary is back");
    for (name, replica) in &world.replicas {
        let log = replica.log().unwrap();
        assert!(log.contains("following the primary again"), "{name}: {log}");
        assert!(log.matches("copied the index").count() <= 1, "{name} need not copy again: {log}");
    }

    // Changes that nobody keeps any more: the replica copies what differs, beside what it serves.
    world.kill_replica("two");
    world.step("changes are lost");
    world.kill_primary();
    world.start_primary();
    world.start_replica("two");
    world.step("the replica was too far behind");
    until(|| world.home("two").join("regtest/replica/2/VERSION").exists(), "the index was not copied anew");
    world.reorg("a reorg after the second copy");
    println!("{} answers of replicas were right", world.answers);
}

#[test]
fn an_interrupted_copy_is_resumed_and_damage_in_it_is_replaced() {
    let mut world = World::start(&["whole"]);
    world.step("before");
    world.kill_replica("whole");
    let (whole, part) = (world.home("whole").join("regtest/replica/1"), world.home("part").join("regtest/replica/1"));
    // What an interruption leaves: no VERSION, some files whole, one cut off, one damaged.
    for folder in ["segments", "log", "arrays"] {
        fs::create_dir_all(part.join(folder)).unwrap();
        for entry in whole.join(folder).read_dir().unwrap() {
            let entry = entry.unwrap();
            let mut bytes = fs::read(entry.path()).unwrap();
            match folder {
                "segments" => bytes.truncate(bytes.len() / 2),
                "arrays" if !bytes.is_empty() => bytes[0] ^= 1,
                _ => {}
            }
            fs::write(part.join(folder).join(entry.file_name()), bytes).unwrap();
        }
    }
    world.start_replica("part");
    world.step("after");
}

#[test]
fn the_doctor_knows_the_height_of_a_stopped_replica() {
    let mut world = World::start(&["stopped"]);
    world.step("before");
    let height = world.height("stopped");
    world.kill_replica("stopped");
    let output = std::process::Command::new(program())
        .args(["doctor", "--network=regtest", "--electrum-addr=127.0.0.1:0", "--node-dir"])
        .arg(world.live.node().datadir())
        .arg(format!("--rpc-addr=127.0.0.1:{}", world.live.node().rpc_port()))
        .arg(format!("--follow=http://127.0.0.1:{}", world.port))
        .arg("--data-dir")
        .arg(world.home("stopped"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let index = said.lines().find(|line| line.split_whitespace().nth(1) == Some("index")).unwrap();
    assert!(index.contains(&format!("at height {height}")), "{said}");
}

#[test]
fn what_cannot_be_followed_is_refused_with_a_reason() {
    let world = World::start(&[]);
    let secret = world.homes.path().join("secret");
    fs::write(&secret, "word\n").unwrap();
    let run = |name: &str, args: &[&str]| {
        let output = std::process::Command::new(program())
            .args(["run", "--network=regtest", "--electrum-addr=127.0.0.1:0", "--node-dir"])
            .arg(world.live.node().datadir())
            .arg(format!("--rpc-addr=127.0.0.1:{}", world.live.node().rpc_port()))
            .arg("--data-dir")
            .arg(world.home(name))
            .args(args)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let follow = format!("--follow=http://127.0.0.1:{}", world.port);
    let node = format!("--follow=http://127.0.0.1:{}", world.live.node().rpc_port());
    let front = OtherVersion::before(world.port);
    front.change();
    let other = format!("--follow=http://127.0.0.1:{}", front.port);
    for (args, reason) in [
        (vec![node.as_str()], "is no listener for replicas"),
        (vec![other.as_str()], "speaks version 2 to replicas, and this one 1"),
        (vec!["--follow=ftp://127.0.0.1"], "invalid follow"),
        (vec![&follow, "--relay-addr=127.0.0.1:0"], "a replica has the index alone"),
        (vec![&follow, "--role=front"], "remove it, or --store and --role"),
    ] {
        let error = run("refused", &args);
        assert!(error.contains(reason), "{args:?}: {error}");
    }
    let own = run("primary-copy", &["--replicas-addr=0.0.0.0:0"]);
    assert!(own.contains("set --replica-secret-file"), "{own}");
}

#[test]
#[ignore = "measures: cargo test -p birdhouse --test replicas -- --ignored --nocapture"]
fn cost_of_a_replica_beside_its_primary() {
    let mut world = World::of(MEASURED, &["one"]);
    world.step("warm");
    let cpu = |peer: &Peer| Usage::of(peer.pid()).unwrap().cpu;
    let [primary, replica] = [world.primary.as_ref().unwrap(), &world.replicas[0].1].map(cpu);
    for _ in 0..MEASURED_BLOCKS {
        world.live.mine().unwrap();
        world.live.random_move().unwrap();
    }
    world.compare("measured blocks");
    let servers = [world.primary.as_ref().unwrap(), &world.replicas[0].1];
    for (name, server, before) in [("primary", servers[0], primary), ("replica", servers[1], replica)] {
        println!("{name}: {:?} of CPU time a block", cpu(server).saturating_sub(before) / MEASURED_BLOCKS);
        println!("{name}: {:?} of CPU time a request", world.cost(server).cpu);
    }
    let log = world.replicas[0].1.log().unwrap();
    let copied = log.lines().find(|line| line.contains("copied the index")).unwrap();
    println!("{copied}");
    let changes: Vec<u64> = log.lines().filter_map(bytes_of_change).collect();
    println!("{} changes of {} bytes, {MEASURED_BLOCKS} of them blocks", changes.len(), changes.iter().sum::<u64>());
}
