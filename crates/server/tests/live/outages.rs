//! A node that restarts, is killed, hangs, or loses messages: answers are right afterwards, and requests that need no
//! node are answered meanwhile.

use std::time::{Duration, Instant};

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{about, changed};
use birdhouse_testkit::live::Move;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::json;

use crate::birds::{PATIENCE, World};

/// Longer than the timeout of requests to the node.
const STALL: Duration = Duration::from_secs(5);

fn some_traffic(world: &mut World, moves: usize) {
    for _ in 0..moves {
        world.live.make(Move::Pay).unwrap();
    }
}

#[test]
fn a_node_that_restarts_keeps_its_mempool_and_one_that_is_killed_loses_it() {
    let mut world = World::start(71, Options::default());
    some_traffic(&mut world, 12);
    world.settle("before");
    let waiting = world.live.waiting_txids();
    world.live.restart().unwrap();
    assert_eq!(world.live.waiting_txids(), waiting, "the node keeps its mempool in a file");
    some_traffic(&mut world, 3);
    world.settle("after a restart");

    let height = world.live.ledger().height();
    world.live.kill_and_restart().unwrap();
    println!("killed at height {height} with {} waiting", waiting.len() + 3);
    println!("back at height {} with {} waiting", world.live.ledger().height(), world.live.waiting_txids().len());
    world.live.mine_above(height).unwrap();
    world.settle("after a kill");
    some_traffic(&mut world, 3);
    world.live.mine().unwrap();
    world.settle("and a block");
}

#[test]
fn a_hanging_node_delays_no_answer_that_needs_no_node() {
    let mut world = World::start(72, Options::default());
    some_traffic(&mut world, 5);
    world.settle("before");
    let asked = about(&world.live.ledger().scripts());
    world.live.node().pause().unwrap();
    let start = Instant::now();
    while start.elapsed() < STALL {
        for bird in &world.birds {
            let took = bird.agrees(&asked, PATIENCE, "while the node stands still");
            assert!(took < 6 * STALL, "{}: {took:?} for {} answers", bird.name, asked.len());
        }
    }
    world.live.node().resume().unwrap();
    some_traffic(&mut world, 3);
    world.live.mine().unwrap();
    some_traffic(&mut world, 3);
    world.settle("after the node went on");
}

#[test]
fn lost_messages_are_noticed_and_compensated() {
    let mut world = World::start(73, Options::default());
    some_traffic(&mut world, 3);
    world.settle("before");
    for lost in [1, 2, 5] {
        world.publisher.lose(lost);
        some_traffic(&mut world, 6);
        world.settle(&format!("{lost} messages lost, others after them"));
    }
    // No message follows the lost one, so no gap shows.
    world.publisher.lose(1);
    pays(&mut world, 9001);
    world.settle("the last message lost");
    world.publisher.lose(3);
    world.live.mine().unwrap();
    pays(&mut world, 9002);
    pays(&mut world, 9003);
    world.settle("a block and more lost");
    world.publisher.disconnect_all();
    pays(&mut world, 9004);
    world.settle("the connection lost");
    world.publisher.wait_for_subscriber().unwrap();
    pays(&mut world, 9005);
    world.settle("connected again");
}

fn pays(world: &mut World, number: u32) {
    let before = world.live.ledger().scripts();
    world.live.pay(&[Payment::to_lock(Lock::new(Form::P2tr, number), 40_000)]).unwrap();
    assert!(!changed(&before, &world.live.ledger().scripts()).is_empty());
}

#[test]
fn clients_are_notified_of_transactions_that_a_node_drops_in_a_restart() {
    let mut world = World::start(74, Options::default().arg("-persistmempool=0"));
    let script = world.live.wallet().script_pubkey(Lock::new(Form::P2tr, 9100));
    pays(&mut world, 9100);
    world.settle("before");
    let hash = birdhouse_testkit::client::scripthash(script.as_bytes());
    let mut clients: Vec<_> = world.birds.iter().map(|bird| bird.peer.client().unwrap()).collect();
    for client in &mut clients {
        let status = client.call("blockchain.scripthash.subscribe", json!([hash])).unwrap();
        assert!(status.is_string());
    }
    world.live.restart().unwrap();
    for (bird, client) in world.birds.iter().zip(&mut clients) {
        let notification =
            client.notification(PATIENCE).unwrap().unwrap_or_else(|| panic!("{} sends nothing", bird.name));
        assert_eq!(notification.params, json!([hash, null]));
    }
}
